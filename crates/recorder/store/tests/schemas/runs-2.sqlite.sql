-- Tables of runs in schema 2, which had a column for each fact; with the tables and columns that were
-- added to it later.

CREATE TABLE run (id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('load', 'compare', 'run')), state
    TEXT NOT NULL CHECK (state IN ('running', 'done', 'interrupted', 'failed')), name TEXT NOT NULL, title
    TEXT NOT NULL, question TEXT NOT NULL, started TEXT NOT NULL, finished TEXT, command_line TEXT NOT NULL,
    version TEXT NOT NULL, seed INTEGER NOT NULL, plan TEXT NOT NULL, machine TEXT NOT NULL, error TEXT)
    STRICT;
CREATE INDEX run_by_start ON run (started);
CREATE TABLE part (run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE, part INTEGER NOT NULL, name TEXT
    NOT NULL, question TEXT NOT NULL, layout TEXT NOT NULL, load TEXT NOT NULL, precision REAL, quick
    INTEGER NOT NULL, published TEXT NOT NULL, disturbance TEXT NOT NULL, changes TEXT, independent_starts
    INTEGER NOT NULL DEFAULT 1, PRIMARY KEY (run, part)) STRICT, WITHOUT ROWID;
CREATE TABLE variant (run TEXT NOT NULL, part INTEGER NOT NULL, variant INTEGER NOT NULL, name TEXT NOT
    NULL, commands TEXT NOT NULL, target TEXT NOT NULL, served_by TEXT NOT NULL, skipped TEXT, ceiling
    INTEGER NOT NULL, offered INTEGER NOT NULL, dropped INTEGER NOT NULL, sent INTEGER NOT NULL, completed
    INTEGER NOT NULL, failed INTEGER NOT NULL, in_flight INTEGER NOT NULL, reconnected INTEGER NOT NULL,
    served INTEGER, series INTEGER, errors TEXT NOT NULL, discarded INTEGER, PRIMARY KEY (run, part,
    variant), FOREIGN KEY (run, part) REFERENCES part (run, part) ON DELETE CASCADE) STRICT, WITHOUT ROWID;
CREATE TABLE summary (run TEXT NOT NULL, part INTEGER NOT NULL, variant INTEGER NOT NULL, ordinal INTEGER
    NOT NULL, offer TEXT NOT NULL, offered_per_s REAL, throughput_per_s REAL, throughput_per_s_low REAL,
    throughput_per_s_high REAL, bytes_per_s REAL, p50_ns REAL, p50_ns_low REAL, p50_ns_high REAL, p90_ns
    REAL, p90_ns_low REAL, p90_ns_high REAL, p99_ns REAL, p99_ns_low REAL, p99_ns_high REAL, cpu_known
    INTEGER NOT NULL, cpu_ns_per_request REAL, cpu_ns_per_request_low REAL, cpu_ns_per_request_high REAL,
    machine_known INTEGER NOT NULL, machine_ns_per_request REAL, machine_ns_per_request_low REAL,
    machine_ns_per_request_high REAL, peak_memory_bytes INTEGER, PRIMARY KEY (run, part, variant, ordinal),
    FOREIGN KEY (run, part, variant) REFERENCES variant (run, part, variant) ON DELETE CASCADE) STRICT,
    WITHOUT ROWID;
CREATE TABLE comparison (run TEXT NOT NULL, part INTEGER NOT NULL, ordinal INTEGER NOT NULL, baseline
    INTEGER NOT NULL, variant INTEGER NOT NULL, metric TEXT NOT NULL, offer TEXT NOT NULL, is_primary
    INTEGER NOT NULL, ratio REAL, ratio_low REAL, ratio_high REAL, verdict TEXT NOT NULL, judgement TEXT NOT
    NULL, because TEXT NOT NULL, PRIMARY KEY (run, part, ordinal), FOREIGN KEY (run, part) REFERENCES part
    (run, part) ON DELETE CASCADE) STRICT, WITHOUT ROWID;
CREATE TABLE finding (run TEXT NOT NULL, part INTEGER NOT NULL, ordinal INTEGER NOT NULL, check_name TEXT
    NOT NULL, severity TEXT NOT NULL, block INTEGER, variant INTEGER, fact TEXT NOT NULL, PRIMARY KEY (run,
    part, ordinal), FOREIGN KEY (run, part) REFERENCES part (run, part) ON DELETE CASCADE) STRICT, WITHOUT
    ROWID;
CREATE TABLE block (run TEXT NOT NULL, part INTEGER NOT NULL, block INTEGER NOT NULL, started TEXT NOT NULL,
    elapsed_ns INTEGER NOT NULL, slice_order TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN
    ('calibration', 'complete', 'interrupted', 'failed', 'unfinished')), complete INTEGER GENERATED ALWAYS
    AS (state = 'complete') VIRTUAL, canary_before_ns INTEGER NOT NULL, canary_after_ns INTEGER NOT NULL,
    steal REAL, PRIMARY KEY (run, part, block), FOREIGN KEY (run, part) REFERENCES part (run, part) ON
    DELETE CASCADE) STRICT;
CREATE TABLE life (run TEXT NOT NULL, part INTEGER NOT NULL, block INTEGER NOT NULL, ordinal INTEGER NOT
    NULL, variant INTEGER NOT NULL, offered INTEGER NOT NULL, dropped INTEGER NOT NULL, sent INTEGER NOT
    NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL, in_flight INTEGER NOT NULL, reconnected
    INTEGER NOT NULL, served INTEGER, series INTEGER, errors TEXT NOT NULL, discarded INTEGER, PRIMARY KEY
    (run, part, block, ordinal), FOREIGN KEY (run, part, block) REFERENCES block (run, part, block) ON
    DELETE CASCADE) STRICT, WITHOUT ROWID;
CREATE TABLE trial (id INTEGER PRIMARY KEY, run TEXT NOT NULL, part INTEGER NOT NULL, block INTEGER NOT
    NULL, ordinal INTEGER NOT NULL, variant INTEGER NOT NULL, offer TEXT NOT NULL, offered_per_s REAL,
    started TEXT NOT NULL, window_ns INTEGER NOT NULL, completed_in_window INTEGER NOT NULL,
    throughput_per_s REAL GENERATED ALWAYS AS (completed_in_window * 1e9 / nullif(window_ns, 0)) VIRTUAL,
    payload_bytes INTEGER NOT NULL, offered INTEGER NOT NULL, dropped INTEGER NOT NULL, sent INTEGER NOT
    NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL, in_flight INTEGER NOT NULL, reconnected
    INTEGER NOT NULL, served INTEGER, series INTEGER, errors TEXT NOT NULL, stack_cpu_ns INTEGER,
    machine_busy_ns INTEGER, client_cpu_ns INTEGER NOT NULL, client_threads TEXT NOT NULL, peak_memory_bytes
    INTEGER, step_ns INTEGER NOT NULL, steps INTEGER NOT NULL, env_padding_bytes INTEGER NOT NULL, discarded
    INTEGER, UNIQUE (run, part, block, ordinal), FOREIGN KEY (run, part, block) REFERENCES block (run, part,
    block) ON DELETE CASCADE, FOREIGN KEY (run, part, variant) REFERENCES variant (run, part, variant)
    DEFERRABLE INITIALLY DEFERRED) STRICT;
CREATE INDEX trial_by_variant ON trial (run, part, variant);
CREATE TABLE distribution (trial INTEGER NOT NULL REFERENCES trial (id) ON DELETE CASCADE, kind TEXT NOT
    NULL CHECK (kind IN ('latency', 'service_time', 'lateness')), count INTEGER NOT NULL, min_ns INTEGER NOT
    NULL, p50_ns INTEGER NOT NULL, p90_ns INTEGER NOT NULL, p99_ns INTEGER NOT NULL, p99_9_ns INTEGER NOT
    NULL, p99_99_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL, mean_ns REAL, hdr_v2 BLOB NOT NULL, PRIMARY
    KEY (trial, kind)) STRICT;
CREATE TABLE slice (trial INTEGER NOT NULL REFERENCES trial (id) ON DELETE CASCADE, ordinal INTEGER NOT
    NULL, round INTEGER NOT NULL, window_ns INTEGER NOT NULL, completed INTEGER NOT NULL, other_cpus REAL,
    stolen REAL, kept INTEGER NOT NULL, PRIMARY KEY (trial, ordinal)) STRICT, WITHOUT ROWID;
CREATE TABLE trial_series (trial INTEGER NOT NULL REFERENCES trial (id) ON DELETE CASCADE, step_ns INTEGER
    NOT NULL, slot INTEGER NOT NULL, completed INTEGER NOT NULL, PRIMARY KEY (trial, slot)) STRICT, WITHOUT
    ROWID;
CREATE VIEW trials AS SELECT t.run, r.name AS experiment, p.name AS part, t.block, b.complete, v.name AS
    variant, t.offer, t.offered_per_s, t.started, t.window_ns, t.throughput_per_s, t.payload_bytes * 1e9 /
    nullif(t.window_ns, 0) AS bytes_per_s, l.p50_ns AS latency_p50_ns, l.p99_ns AS latency_p99_ns, s.p50_ns
    AS service_time_p50_ns, s.p99_ns AS service_time_p99_ns, t.stack_cpu_ns * 1.0 /
    nullif(coalesce(t.served, t.completed), 0) AS cpu_ns_per_request, t.peak_memory_bytes, t.offered,
    t.dropped, t.sent, t.completed, t.failed, t.in_flight, t.reconnected, t.served, t.series, t.id AS trial
    FROM trial t JOIN run r ON r.id = t.run JOIN part p ON p.run = t.run AND p.part = t.part JOIN block b ON
    b.run = t.run AND b.part = t.part AND b.block = t.block JOIN variant v ON v.run = t.run AND v.part =
    t.part AND v.variant = t.variant LEFT JOIN distribution l ON l.trial = t.id AND l.kind = 'latency' LEFT
    JOIN distribution s ON s.trial = t.id AND s.kind = 'service_time';
CREATE TABLE disruption (trial INTEGER PRIMARY KEY REFERENCES trial (id) ON DELETE CASCADE, longest_wait_ns
    INTEGER NOT NULL, failed_before INTEGER NOT NULL, new_processes INTEGER NOT NULL) STRICT;
CREATE TABLE action (trial INTEGER NOT NULL REFERENCES disruption (trial) ON DELETE CASCADE, ordinal INTEGER
    NOT NULL, name TEXT NOT NULL, started TEXT NOT NULL, at_ns INTEGER NOT NULL, took_ns INTEGER NOT NULL,
    failed INTEGER NOT NULL, steps TEXT NOT NULL, PRIMARY KEY (trial, ordinal)) STRICT, WITHOUT ROWID;
