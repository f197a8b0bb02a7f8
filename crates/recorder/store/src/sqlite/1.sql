-- Series, their slots, and what must survive a restart. Times are microseconds
-- since 1970 (UTC). The tables of slots are made with each retention.

CREATE TABLE retention (
    step_us      INTEGER PRIMARY KEY,
    age_us       INTEGER,               -- NULL: kept for ever
    partition_us INTEGER NOT NULL,
    horizon_us   INTEGER NOT NULL       -- slots before it have been dropped
) STRICT;

CREATE TABLE slot_partition (
    step_us  INTEGER NOT NULL REFERENCES retention (step_us),
    start_us INTEGER NOT NULL,
    PRIMARY KEY (step_us, start_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
    id           INTEGER PRIMARY KEY,
    measurement  TEXT NOT NULL,
    field        TEXT NOT NULL,
    tags         TEXT NOT NULL,         -- a JSON object, its keys sorted
    kind         TEXT NOT NULL,         -- gauge, counter, derive, absolute, total, count, level
    flow         INTEGER NOT NULL,      -- 1: what is counted; 0: what is held
    step_us      INTEGER NOT NULL,
    heartbeat_us INTEGER NOT NULL,
    lateness_us  INTEGER NOT NULL,
    rmin         REAL,
    rmax         REAL,
    xff          REAL NOT NULL,         -- the part of a slot that may be unknown
    rrd          TEXT,                  -- RRDtool's definition as JSON
    UNIQUE (measurement, field, tags)
) STRICT;

CREATE TABLE lane (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO lane VALUES (0, '');

CREATE TABLE lane_state (
    series INTEGER NOT NULL REFERENCES series (id),
    lane   INTEGER NOT NULL,
    state  TEXT NOT NULL,               -- JSON
    PRIMARY KEY (series, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE writer (
    id  TEXT PRIMARY KEY,
    seq INTEGER NOT NULL                -- the last batch that was applied
) STRICT, WITHOUT ROWID;

CREATE TABLE rrd_state (
    series INTEGER PRIMARY KEY REFERENCES series (id),
    state  TEXT NOT NULL                -- JSON
) STRICT;

CREATE TABLE rrd_row (
    series  INTEGER NOT NULL REFERENCES series (id),
    archive INTEGER NOT NULL,
    end_us  INTEGER NOT NULL,
    value   REAL,                       -- NULL: unknown
    PRIMARY KEY (series, archive, end_us)
) STRICT, WITHOUT ROWID;
