-- The recent points of lanes, in bytes. Those of the older table are copied by the program.
ALTER TABLE lane_state RENAME TO lane_state_json;
ALTER INDEX lane_state_pkey RENAME TO lane_state_json_pkey;
CREATE TABLE lane_state (
    series bigint NOT NULL,
    lane   integer NOT NULL,
    state  bytea NOT NULL,              -- see docs/packing.md
    PRIMARY KEY (series, lane)
);
ALTER TABLE lane_state ALTER state SET STORAGE MAIN;
