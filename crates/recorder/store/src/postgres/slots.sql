CREATE TABLE IF NOT EXISTS $slot (
    slot        timestamptz NOT NULL,       -- the slot's start
    series      bigint NOT NULL,
    lane        integer NOT NULL,
    integral    double precision NOT NULL,  -- sum of counts, or of value * seconds
    covered_us  bigint NOT NULL,            -- for how long something is known
    vmin        double precision,
    vmax        double precision,
    n           bigint NOT NULL,            -- updates
    last_us     bigint,                     -- the latest update, since 1970
    last_val    double precision,
    approximate boolean NOT NULL,           -- vmin, vmax and the latest may be those of what was taken back
    PRIMARY KEY (slot, series, lane)
) PARTITION BY RANGE (slot);

-- The same slots once they no longer change, many in a row; see docs/packing.md.
$packed_table

-- All slots, packed or not.
CREATE OR REPLACE VIEW $stored AS
SELECT slot, series, lane, integral, covered_us, vmin, vmax, n, last_us, last_val, approximate
FROM $slot
UNION ALL
$unpacking;

-- One row per slot and series, its lanes together. NULL is unknown.
CREATE OR REPLACE VIEW $every AS
SELECT slot, series, measurement, field, tags,
       CASE WHEN covered_us > 0 AND covered_us >= (1 - xff) * $step_us
            THEN integral / ((CASE WHEN flow THEN least(covered_us, $step_us) ELSE covered_us END) / 1e6::double precision)
       END AS rate,
       CASE WHEN NOT void THEN integral END AS total,
       CASE WHEN NOT void THEN vmin END AS min,
       CASE WHEN NOT void THEN vmax END AS max,
       n,
       greatest(0, least(covered_us, $step_us)) / $step_us::double precision AS known,
       approximate
FROM (SELECT r.slot, s.id AS series, s.measurement, s.field, s.tags, s.flow, s.xff,
             sum(r.integral) AS integral, sum(r.covered_us)::bigint AS covered_us,
             min(r.vmin) AS vmin, max(r.vmax) AS vmax, sum(r.n)::bigint AS n,
             bool_or(r.approximate) AS approximate,
             sum(r.covered_us) = 0 AND sum(r.n) = 0 AND sum(r.integral) = 0 AS void
      FROM $stored r JOIN series s ON s.id = r.series
      GROUP BY r.slot, s.id) AS slots;

-- The same for every slot that begins at or after "since" and before "until":
-- a row of NULLs where nothing is known.
CREATE OR REPLACE FUNCTION $every_filled(since timestamptz, until timestamptz)
RETURNS TABLE (slot timestamptz, series bigint, measurement text, field text, tags jsonb,
               rate double precision, total double precision, min double precision,
               max double precision, n bigint, known double precision, approximate boolean)
LANGUAGE sql STABLE AS $fn$
    SELECT t.slot, s.id, s.measurement, s.field, s.tags,
           e.rate, e.total, e.min, e.max, e.n, coalesce(e.known, 0), e.approximate
    FROM series s
    CROSS JOIN generate_series(
        date_bin($step, since + $step - interval '1 microsecond', timestamptz '1970-01-01 00:00:00Z'),
        until - interval '1 microsecond', $step) AS t (slot)
    LEFT JOIN $every e
           ON e.series = s.id AND e.slot = t.slot AND e.slot >= since AND e.slot < until
    WHERE s.step_us <= $step_us AND $step_us % s.step_us = 0
$fn$;

SELECT tachograph_show('$every');
