-- Runs. A row has the columns that it is found by, and a JSON object with everything else: the fields of
-- the types in crate `record`, with units in their names. That of a run that has ended also has its `line`
-- in the list of runs, which repeats what its parts and blocks contain. Times of day are RFC 3339 text in
-- UTC with nine decimals, so that text order is time order. Lengths of time are integer nanoseconds
-- (`_ns`). Counts are exact; in SQL, those above 2^63 - 1 become REAL.

CREATE TABLE run (
    id      TEXT PRIMARY KEY,
    json    TEXT NOT NULL,
    name    TEXT GENERATED ALWAYS AS (json ->> 'name') VIRTUAL,
    started TEXT GENERATED ALWAYS AS (json ->> 'started') VIRTUAL
) STRICT;
CREATE INDEX run_by_start ON run (started);

CREATE TABLE part (
    run  TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    part INTEGER NOT NULL,                  -- from 0, in the order of the experiment
    json TEXT NOT NULL,                     -- with its variants, comparisons and findings
    PRIMARY KEY (run, part)
) STRICT;

CREATE TABLE block (
    run   TEXT NOT NULL,
    part  INTEGER NOT NULL,
    block INTEGER NOT NULL,                 -- from 1; 0 is the calibration
    json  TEXT NOT NULL,                    -- with the ledger of each variant from ready to stopped
    PRIMARY KEY (run, part, block),
    FOREIGN KEY (run, part) REFERENCES part (run, part) ON DELETE CASCADE
) STRICT;

CREATE TABLE trial (
    id      INTEGER PRIMARY KEY,
    run     TEXT NOT NULL,
    part    INTEGER NOT NULL,
    block   INTEGER NOT NULL,
    variant INTEGER NOT NULL,               -- from 0, in the order of the experiment
    offer   TEXT NOT NULL,
    json    TEXT NOT NULL,                  -- with its ledger, percentiles and steps
    FOREIGN KEY (run, part, block) REFERENCES block (run, part, block) ON DELETE CASCADE
) STRICT;
CREATE INDEX trial_by_block ON trial (run, part, block);

-- The distributions of a trial, in HdrHistogram's V2 compressed form; its percentiles are in the JSON.
CREATE TABLE histogram (
    trial        INTEGER PRIMARY KEY REFERENCES trial (id) ON DELETE CASCADE,
    latency      BLOB,
    service_time BLOB NOT NULL,
    lateness     BLOB
) STRICT;

-- The slices of a trial, which has hundreds; JSON would be half as large again. A round holds one slice of
-- each variant, and is kept or left out for all of them.
CREATE TABLE slice (
    trial      INTEGER NOT NULL REFERENCES trial (id) ON DELETE CASCADE,
    ordinal    INTEGER NOT NULL,
    round      INTEGER NOT NULL,
    window_ns  INTEGER NOT NULL,
    completed  INTEGER NOT NULL,
    other_cpus REAL,                        -- CPUs that other processes used meanwhile
    stolen     REAL,                        -- share of CPU time that the hypervisor gave to other guests
    kept       INTEGER NOT NULL,
    PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;

-- One row per trial with names in place of numbers: the place to start asking.
CREATE VIEW trials AS
SELECT t.run, r.name AS experiment, p.json ->> 'name' AS part, t.block,
       b.json ->> 'state' = 'complete' AS complete,
       p.json ->> ('$.variants[' || t.variant || '].name') AS variant,
       t.offer, t.json ->> 'offered_per_s' AS offered_per_s, t.json ->> 'started' AS started,
       t.json ->> 'window_ns' AS window_ns,
       t.json ->> 'completed_in_window' * 1e9 / nullif(t.json ->> 'window_ns', 0) AS throughput_per_s,
       t.json ->> 'payload_bytes' * 1e9 / nullif(t.json ->> 'window_ns', 0) AS bytes_per_s,
       t.json ->> '$.latency.p50_ns' AS latency_p50_ns,
       t.json ->> '$.latency.p99_ns' AS latency_p99_ns,
       t.json ->> '$.service_time.p50_ns' AS service_time_p50_ns,
       t.json ->> '$.service_time.p99_ns' AS service_time_p99_ns,
       t.json ->> 'stack_cpu_ns' * 1.0
           / nullif(coalesce(t.json ->> '$.ledger.served', t.json ->> '$.ledger.completed'), 0)
           AS cpu_ns_per_request,
       t.json ->> 'peak_memory_bytes' AS peak_memory_bytes,
       t.json ->> '$.ledger.offered' AS offered, t.json ->> '$.ledger.dropped' AS dropped,
       t.json ->> '$.ledger.sent' AS sent, t.json ->> '$.ledger.completed' AS completed,
       t.json ->> '$.ledger.failed' AS failed, t.json ->> '$.ledger.in_flight' AS in_flight,
       t.json ->> '$.ledger.reconnected' AS reconnected, t.json ->> '$.ledger.served' AS served,
       t.json ->> '$.ledger.series' AS series, t.id AS trial
FROM trial t
JOIN run r ON r.id = t.run
JOIN part p ON p.run = t.run AND p.part = t.part
JOIN block b ON b.run = t.run AND b.part = t.part AND b.block = t.block;

-- Trials during which something was done to the stack.
CREATE VIEW disruption AS
SELECT id AS trial,
       json ->> '$.disruption.longest_wait_ns' AS longest_wait_ns, -- of any request
       json ->> '$.disruption.failed_before' AS failed_before,     -- before the first action
       json ->> '$.disruption.new_processes' AS new_processes      -- at the end of the trial
FROM trial WHERE json -> 'disruption' IS NOT NULL;

-- What was done, one row per occurrence.
CREATE VIEW action AS
SELECT t.id AS trial, a.key AS ordinal, a.value ->> 'name' AS name, a.value ->> 'started' AS started,
       a.value ->> 'at_ns' AS at_ns,        -- from the beginning of the trial's measured time
       a.value ->> 'took_ns' AS took_ns,
       a.value ->> 'failed' AS failed,      -- requests, from then until the next action
       a.value -> 'steps' AS steps          -- JSON array: signal or command, moment, outcome
FROM trial t, json_each(t.json, '$.disruption.actions') a;
