CREATE TABLE IF NOT EXISTS $slot (
    slot        timestamptz NOT NULL,       -- the slot's start
    series      integer NOT NULL,
    lane        integer NOT NULL,
    approximate boolean NOT NULL,           -- vmin, vmax and the latest may be those of what was taken back
    integral    double precision NOT NULL,  -- sum of counts, or of value * seconds
    covered_us  bigint NOT NULL,            -- for how long something is known
    vmin        double precision,
    vmax        double precision,
    n           bigint NOT NULL,            -- updates
    last_us     bigint,                     -- the latest update, since 1970
    last_val    double precision,
    PRIMARY KEY (series, lane, slot)        -- in this order, entries need no padding
) PARTITION BY RANGE (slot);

-- By time alone, for packing. Many rows have the same time, of which PostgreSQL keeps one copy. It is of
-- an expression, so that it does not serve a reader's conditions on series and time: without statistics
-- PostgreSQL would take it for as good as the key, and read the rows of all series.
CREATE INDEX IF NOT EXISTS $slot_time ON $slot ((slot AT TIME ZONE 'UTC'));

-- The same slots once they no longer change, many in a row; see docs/packing.md.
$packed_table
CREATE INDEX IF NOT EXISTS $packed_time ON $packed ((span AT TIME ZONE 'UTC'));

-- All slots, packed or not. A slot lies less than a span after "span".
CREATE OR REPLACE VIEW $stored AS
SELECT slot, series, lane, integral, covered_us, vmin, vmax, n, last_us, last_val, approximate,
       slot AS span
FROM $slot
UNION ALL
$unpacked;

-- One row per slot and series, its lanes together. NULL is unknown. The slots of each series are a
-- LATERAL subquery, so that they are found by the index whatever the series are chosen by.
CREATE OR REPLACE VIEW $every AS
SELECT slot, $shown,
       greatest(0, least(covered_us, $step_us)) / $step_us::double precision AS known,
       approximate
FROM series s CROSS JOIN LATERAL
     (SELECT $added FROM $stored r WHERE r.series = s.id GROUP BY slot) AS slots;

-- The same for slots that begin at or after "since" and before "until". Unlike the view with the
-- same condition, it reads no packed row of another time.
CREATE OR REPLACE FUNCTION $every(since timestamptz, until timestamptz)
RETURNS TABLE (slot timestamptz, series integer, measurement text, field text, tags jsonb,
               rate double precision, total double precision, min double precision,
               max double precision, n bigint, known double precision, approximate boolean)
LANGUAGE sql STABLE AS $fn$
    SELECT slot, $shown,
           greatest(0, least(covered_us, $step_us)) / $step_us::double precision AS known,
           approximate
    FROM series s CROSS JOIN LATERAL
         (SELECT $added FROM $stored r
          WHERE r.series = s.id AND r.slot >= since AND r.slot < until
            AND r.span > since - $span AND r.span < until
          GROUP BY slot) AS slots
$fn$;

-- The same for every such slot: a row of NULLs where nothing is known.
CREATE OR REPLACE FUNCTION $every_filled(since timestamptz, until timestamptz)
RETURNS TABLE (slot timestamptz, series integer, measurement text, field text, tags jsonb,
               rate double precision, total double precision, min double precision,
               max double precision, n bigint, known double precision, approximate boolean)
LANGUAGE sql STABLE AS $fn$
    SELECT at, $shown,
           CASE WHEN covered_us > 0 THEN least(covered_us, $step_us) / $step_us::double precision ELSE 0 END AS known,
           approximate
    FROM series s CROSS JOIN LATERAL
         (SELECT t.at, slots.*
          FROM generate_series(
                   date_bin($step, since + $step - interval '1 microsecond', timestamptz '1970-01-01 00:00:00Z'),
                   until - interval '1 microsecond', $step) AS t (at)
          LEFT JOIN (SELECT $added FROM $stored r
                     WHERE r.series = s.id AND r.slot >= since AND r.slot < until
                       AND r.span > since - $span AND r.span < until
                     GROUP BY slot) AS slots ON slots.slot = t.at) AS slots
    WHERE s.step_us <= $step_us AND $step_us % s.step_us = 0
$fn$;

SELECT tachograph_show('$every'), tachograph_show('$stored');
