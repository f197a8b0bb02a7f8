-- Added to schema 2 after its first files: older versions ignore these tables, and a record without
-- them is read as one without actions.

-- A trial during which something was done to the stack.
CREATE TABLE IF NOT EXISTS disruption (
    trial           INTEGER PRIMARY KEY REFERENCES trial (id) ON DELETE CASCADE,
    longest_wait_ns INTEGER NOT NULL,       -- of any request, until its response or its failure
    failed_before   INTEGER NOT NULL,       -- requests that failed before the first action
    new_processes   INTEGER NOT NULL        -- at the end of the trial
) STRICT;

-- What was done, one row per occurrence.
CREATE TABLE IF NOT EXISTS action (
    trial   INTEGER NOT NULL REFERENCES disruption (trial) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    name    TEXT NOT NULL,
    started TEXT NOT NULL,
    at_ns   INTEGER NOT NULL,               -- from the beginning of the trial's measured time
    took_ns INTEGER NOT NULL,
    failed  INTEGER NOT NULL,               -- requests that failed from then until the next action
    steps   TEXT NOT NULL,                  -- JSON array: signal or command, moment, outcome
    PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;
