-- The recent points of lanes, in bytes. Those of the older table are copied by the program.
ALTER TABLE lane_state RENAME TO lane_state_json;
CREATE TABLE lane_state (
    series INTEGER NOT NULL REFERENCES series (id),
    lane   INTEGER NOT NULL,
    state  BLOB NOT NULL,               -- see docs/packing.md
    PRIMARY KEY (series, lane)
) STRICT, WITHOUT ROWID;
