-- The recent points of lanes, those of many series in one row; see docs/packing.md. Those of the
-- older table are copied by the program.
CREATE TABLE lane_run (
    first  bigint NOT NULL,             -- of the series that the run is of: a multiple of 128
    lane   integer NOT NULL,
    states bytea NOT NULL,
    PRIMARY KEY (first, lane)
);
