-- Series, their slots, and what must survive a restart. Times are microseconds
-- since 1970 (UTC). The tables of slots are made with each retention.

CREATE TABLE slots_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO slots_schema VALUES (0);    -- set by whoever runs this

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
    laned        INTEGER NOT NULL DEFAULT 0, -- 1: slots of another lane than 0 were written, so that a view must add lanes
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
    state  BLOB NOT NULL,               -- its recent points; see docs/packing.md
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

-- The places of a span, for the views that unpack; see docs/packing.md.
CREATE TABLE slot_place (i INTEGER PRIMARY KEY) STRICT;
WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i < 179)
INSERT INTO slot_place SELECT i FROM place;

CREATE TABLE request_key (
    day INTEGER NOT NULL,               -- of its arrival, since 1970
    key BLOB NOT NULL,
    PRIMARY KEY (day, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE recorder (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  TEXT NOT NULL                   -- a random UUID (version 4)
) STRICT;
INSERT INTO recorder
SELECT 1, substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-4' || substr(h, 14, 3) || '-a'
          || substr(h, 18, 3) || '-' || substr(h, 21, 12)
FROM (SELECT lower(hex(randomblob(16))) AS h);
