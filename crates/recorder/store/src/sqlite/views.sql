-- One row per slot and series, its lanes together. NULL is unknown.
CREATE VIEW $every AS
SELECT $time AS slot, slot_us, series, measurement, field, tags,
       CASE WHEN covered_us > 0 AND covered_us >= (1 - xff) * $step_us
            THEN integral / ((CASE WHEN flow THEN min(covered_us, $step_us) ELSE covered_us END) / 1e6)
       END AS rate,
       CASE WHEN NOT void THEN integral END AS total,
       CASE WHEN NOT void THEN vmin END AS min,
       CASE WHEN NOT void THEN vmax END AS max,
       n,
       max(0, min(covered_us, $step_us)) / ($step_us + 0.0) AS known,
       approximate
FROM (SELECT slot_us, series, sum(integral) AS integral, sum(covered_us) AS covered_us,
             min(vmin) AS vmin, max(vmax) AS vmax, sum(n) AS n, max(approximate) AS approximate,
             sum(covered_us) = 0 AND sum(n) = 0 AND sum(integral) = 0 AS void
      FROM $stored GROUP BY slot_us, series)
JOIN (SELECT id, measurement, field, tags, flow, xff FROM series) ON id = series;

-- The same, with a row of NULLs for every slot between a series' first and last of which nothing is known.
CREATE VIEW $every_filled AS
WITH RECURSIVE
ends AS MATERIALIZED (
    SELECT series, min(slot_us) AS first_us, max(slot_us) AS last_us FROM $stored GROUP BY series),
times (series, slot_us, last_us) AS (
    SELECT series, first_us, last_us FROM ends
    UNION ALL
    SELECT series, slot_us + $step_us, last_us FROM times WHERE slot_us < last_us),
slots AS (SELECT slot_us, series FROM times)
SELECT $filled_time AS slot, slots.slot_us, slots.series, s.measurement, s.field, s.tags,
       e.rate, e.total, e.min, e.max, e.n, coalesce(e.known, 0.0) AS known, e.approximate
FROM slots
JOIN series s ON s.id = slots.series
LEFT JOIN $every e ON e.slot_us = slots.slot_us AND e.series = slots.series;
