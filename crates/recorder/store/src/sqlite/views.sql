-- All slots with the columns of their series. The lanes of a slot are added, if there can be several.
-- The plus keeps a range of series on s: on r, SQLite would prefer it to the one series of s.
CREATE VIEW $known AS
SELECT s.id AS series, s.measurement, s.field, s.tags, s.flow, s.xff, r.slot_us, r.integral,
       r.covered_us, r.vmin, r.vmax, r.n, r.approximate
FROM series s CROSS JOIN $slot r ON r.series = +s.id WHERE NOT s.laned
UNION ALL
SELECT series, measurement, field, tags, flow, xff, slot_us, integral, covered_us, vmin, vmax, n, approximate
FROM ($unpacked) WHERE NOT laned
UNION ALL
SELECT series, measurement, field, tags, flow, xff, slot_us, integral, covered_us, vmin, vmax, n, approximate
FROM (SELECT series, measurement, field, tags, flow, xff, slot_us,
             sum(integral) OVER slot AS integral, sum(covered_us) OVER slot AS covered_us,
             min(vmin) OVER slot AS vmin, max(vmax) OVER slot AS vmax, sum(n) OVER slot AS n,
             max(approximate) OVER slot AS approximate, row_number() OVER slot AS place
      FROM (SELECT s.id AS series, s.measurement, s.field, s.tags, s.flow, s.xff, r.slot_us,
                   r.integral, r.covered_us, r.vmin, r.vmax, r.n, r.approximate
            FROM series s CROSS JOIN $slot r ON r.series = +s.id WHERE s.laned
            UNION ALL
            SELECT series, measurement, field, tags, flow, xff, slot_us, integral, covered_us,
                   vmin, vmax, n, approximate
            FROM ($unpacked) WHERE laned)
      -- A condition on one of these columns is applied to the tables; GROUP BY would prevent that.
      WINDOW slot AS (PARTITION BY series, measurement, field, tags, flow, xff, slot_us))
WHERE place = 1
UNION ALL $no_rows_13;

-- One row per slot and series. NULL is unknown.
CREATE VIEW $every AS
SELECT $time AS slot, slot_us, series, measurement, field, tags,
       CASE WHEN covered_us > 0 AND covered_us >= (1 - xff) * $step_us
            THEN integral / ((CASE WHEN flow THEN min(covered_us, $step_us) ELSE covered_us END) / 1e6)
       END AS rate,
       CASE WHEN covered_us <> 0 OR n <> 0 OR integral <> 0 THEN integral END AS total,
       CASE WHEN covered_us <> 0 OR n <> 0 OR integral <> 0 THEN vmin END AS min,
       CASE WHEN covered_us <> 0 OR n <> 0 OR integral <> 0 THEN vmax END AS max,
       n,
       max(0, min(covered_us, $step_us)) / ($step_us + 0.0) AS known,
       approximate
FROM $known;

-- The same, with a row of NULLs for every slot between a series' first and last of which nothing is known.
CREATE VIEW $every_filled AS
SELECT $time AS slot, slot_us, series, measurement, field, tags,
       rate, total, min, max, n, known, approximate
FROM (SELECT *, row_number() OVER (PARTITION BY slot_us, series, measurement, field, tags ORDER BY filler) AS place
      FROM (SELECT 0 AS filler, slot_us, series, measurement, field, tags,
                   rate, total, min, max, n, known, approximate
            FROM $every
            UNION ALL
            SELECT 1, first_us + (((d.i * 180 + c.i) * 180 + b.i) * 180 + a.i) * $step_us,
                   series, measurement, field, tags, NULL, NULL, NULL, NULL, NULL, 0.0, NULL
            FROM (SELECT id AS series, measurement, field, tags, first_us,
                         (last_us - first_us) / $step_us + 1 AS slots
                  FROM (SELECT s.id, s.measurement, s.field, s.tags,
                               (SELECT min(at) FROM (
                                    SELECT span_us + first * $step_us AS at FROM $packed WHERE series = s.id
                                    UNION ALL SELECT slot_us FROM $slot WHERE series = s.id)) AS first_us,
                               (SELECT max(at) FROM (
                                    SELECT span_us + (first + $last) * $step_us AS at FROM $packed WHERE series = s.id
                                    UNION ALL SELECT slot_us FROM $slot WHERE series = s.id)) AS last_us
                        FROM series s
                        UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL WHERE 0)
                  UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL WHERE 0)
            CROSS JOIN slot_place d ON d.i * 5832000 < slots
            CROSS JOIN slot_place c ON (d.i * 180 + c.i) * 32400 < slots
            CROSS JOIN slot_place b ON ((d.i * 180 + c.i) * 180 + b.i) * 180 < slots
            CROSS JOIN slot_place a ON ((d.i * 180 + c.i) * 180 + b.i) * 180 + a.i < slots))
WHERE place = 1;
