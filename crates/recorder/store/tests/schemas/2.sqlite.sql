-- The points of 1.sqlite.sql in schema 2, as a version that wrote this schema brought them to it.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE slots_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO slots_schema VALUES(2);
CREATE TABLE retention (
    step_us      INTEGER PRIMARY KEY,
    age_us       INTEGER,               -- NULL: kept for ever
    partition_us INTEGER NOT NULL,
    horizon_us   INTEGER NOT NULL       -- slots before it have been dropped
) STRICT;
INSERT INTO retention VALUES(10000000,86400000000,10800000000,-9223372036854775808);
INSERT INTO retention VALUES(60000000,604800000000,75600000000,-9223372036854775808);
CREATE TABLE slot_partition (
    step_us  INTEGER NOT NULL REFERENCES retention (step_us),
    start_us INTEGER NOT NULL,
    PRIMARY KEY (step_us, start_us)
) STRICT, WITHOUT ROWID;
INSERT INTO slot_partition VALUES(10000000,1767214800000000);
INSERT INTO slot_partition VALUES(10000000,1767225600000000);
INSERT INTO slot_partition VALUES(10000000,1767236400000000);
INSERT INTO slot_partition VALUES(60000000,1767150000000000);
INSERT INTO slot_partition VALUES(60000000,1767225600000000);
CREATE TABLE series (
    id           INTEGER PRIMARY KEY,
    measurement  TEXT NOT NULL,
    field        TEXT NOT NULL,
    tags         TEXT NOT NULL,         -- a JSON object, its keys sorted
    kind         TEXT NOT NULL,         -- gauge, counter, derive, absolute, count, level
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
INSERT INTO series VALUES(1,'shop.sold','value','{"customer":"acme"}','gauge',0,10000000,20000000,600000000,NULL,NULL,0.5,NULL);
INSERT INTO series VALUES(2,'shop.sold','value','{"customer":"bolt"}','gauge',0,10000000,20000000,600000000,NULL,NULL,0.5,NULL);
CREATE TABLE lane (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO lane VALUES(0,'');
CREATE TABLE lane_state (
    series INTEGER NOT NULL REFERENCES series (id),
    lane   INTEGER NOT NULL,
    state  TEXT NOT NULL,               -- JSON
    PRIMARY KEY (series, lane)
) STRICT, WITHOUT ROWID;
INSERT INTO lane_state VALUES(1,0,'{"points":[{"at_us":1767225640000000,"reading":{"level":6.5}},{"at_us":1767240010000000,"reading":{"level":1.0}}],"forgotten":true}');
INSERT INTO lane_state VALUES(2,0,'{"points":[{"at_us":1767225607000000,"reading":{"level":100.0}},{"at_us":1767225615000000,"reading":{"level":3.0}}],"forgotten":false}');
CREATE TABLE writer (
    id  TEXT PRIMARY KEY,
    seq INTEGER NOT NULL                -- the last batch that was applied
) STRICT, WITHOUT ROWID;
INSERT INTO writer VALUES('0431cdc8-f196-8813-855f-9c393008a530',1);
INSERT INTO writer VALUES('2b8cbe71-7c26-80ef-af42-bd6ace4f9236',1);
INSERT INTO writer VALUES('71ed4124-dc05-8fab-859d-75726fee8309',1);
INSERT INTO writer VALUES('84e0f636-bfc2-8671-953c-fc7e498783e3',1);
INSERT INTO writer VALUES('a0f0927a-4760-8bb0-b84e-b00a246de054',1);
INSERT INTO writer VALUES('c4e39bcb-d0b7-8cd4-9598-5a0dfdc738a4',1);
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
CREATE TABLE slot_10s_1767214800 (
                slot_us     INTEGER NOT NULL,   -- the slot's start
                series      INTEGER NOT NULL,
                lane        INTEGER NOT NULL,
                integral    REAL    NOT NULL,   -- sum of counts, or of value * seconds
                covered_us  INTEGER NOT NULL,   -- for how long something is known
                vmin        REAL,
                vmax        REAL,
                n           INTEGER NOT NULL,   -- updates
                last_us     INTEGER,            -- the latest update
                last_val    REAL,
                approximate INTEGER NOT NULL,   -- 1: vmin, vmax and the latest may be those of what was taken back
                PRIMARY KEY (slot_us, series, lane)
            ) STRICT, WITHOUT ROWID;
INSERT INTO slot_10s_1767214800 VALUES(1767225590000000,1,0,0.0,0,NULL,NULL,1,1767225600000000,5.0,0);
CREATE TABLE slot_1m_1767150000 (
                slot_us     INTEGER NOT NULL,   -- the slot's start
                series      INTEGER NOT NULL,
                lane        INTEGER NOT NULL,
                integral    REAL    NOT NULL,   -- sum of counts, or of value * seconds
                covered_us  INTEGER NOT NULL,   -- for how long something is known
                vmin        REAL,
                vmax        REAL,
                n           INTEGER NOT NULL,   -- updates
                last_us     INTEGER,            -- the latest update
                last_val    REAL,
                approximate INTEGER NOT NULL,   -- 1: vmin, vmax and the latest may be those of what was taken back
                PRIMARY KEY (slot_us, series, lane)
            ) STRICT, WITHOUT ROWID;
INSERT INTO slot_1m_1767150000 VALUES(1767225540000000,1,0,0.0,0,NULL,NULL,1,1767225600000000,5.0,0);
CREATE TABLE slot_10s_1767225600 (
                slot_us     INTEGER NOT NULL,   -- the slot's start
                series      INTEGER NOT NULL,
                lane        INTEGER NOT NULL,
                integral    REAL    NOT NULL,   -- sum of counts, or of value * seconds
                covered_us  INTEGER NOT NULL,   -- for how long something is known
                vmin        REAL,
                vmax        REAL,
                n           INTEGER NOT NULL,   -- updates
                last_us     INTEGER,            -- the latest update
                last_val    REAL,
                approximate INTEGER NOT NULL,   -- 1: vmin, vmax and the latest may be those of what was taken back
                PRIMARY KEY (slot_us, series, lane)
            ) STRICT, WITHOUT ROWID;
INSERT INTO slot_10s_1767225600 VALUES(1767225600000000,1,0,72.5,10000000,7.25,7.25,1,1767225610000000,7.25,0);
INSERT INTO slot_10s_1767225600 VALUES(1767225600000000,2,0,9.0,3000000,3.0,3.0,1,1767225607000000,100.0,0);
INSERT INTO slot_10s_1767225600 VALUES(1767225610000000,2,0,15.0,5000000,3.0,3.0,1,1767225615000000,3.0,0);
INSERT INTO slot_10s_1767225600 VALUES(1767225630000000,1,0,0.0,0,NULL,NULL,1,1767225640000000,6.5,0);
CREATE TABLE slot_1m_1767225600 (
                slot_us     INTEGER NOT NULL,   -- the slot's start
                series      INTEGER NOT NULL,
                lane        INTEGER NOT NULL,
                integral    REAL    NOT NULL,   -- sum of counts, or of value * seconds
                covered_us  INTEGER NOT NULL,   -- for how long something is known
                vmin        REAL,
                vmax        REAL,
                n           INTEGER NOT NULL,   -- updates
                last_us     INTEGER,            -- the latest update
                last_val    REAL,
                approximate INTEGER NOT NULL,   -- 1: vmin, vmax and the latest may be those of what was taken back
                PRIMARY KEY (slot_us, series, lane)
            ) STRICT, WITHOUT ROWID;
INSERT INTO slot_1m_1767225600 VALUES(1767225600000000,1,0,72.5,10000000,7.25,7.25,2,1767225640000000,6.5,0);
INSERT INTO slot_1m_1767225600 VALUES(1767225600000000,2,0,24.0,8000000,3.0,3.0,2,1767225615000000,3.0,0);
INSERT INTO slot_1m_1767225600 VALUES(1767240000000000,1,0,0.0,0,NULL,NULL,1,1767240010000000,1.0,0);
CREATE TABLE slot_10s_1767236400 (
                slot_us     INTEGER NOT NULL,   -- the slot's start
                series      INTEGER NOT NULL,
                lane        INTEGER NOT NULL,
                integral    REAL    NOT NULL,   -- sum of counts, or of value * seconds
                covered_us  INTEGER NOT NULL,   -- for how long something is known
                vmin        REAL,
                vmax        REAL,
                n           INTEGER NOT NULL,   -- updates
                last_us     INTEGER,            -- the latest update
                last_val    REAL,
                approximate INTEGER NOT NULL,   -- 1: vmin, vmax and the latest may be those of what was taken back
                PRIMARY KEY (slot_us, series, lane)
            ) STRICT, WITHOUT ROWID;
INSERT INTO slot_10s_1767236400 VALUES(1767240000000000,1,0,0.0,0,NULL,NULL,1,1767240010000000,1.0,0);
CREATE TABLE slot_place (i INTEGER PRIMARY KEY) STRICT;
INSERT INTO slot_place VALUES(0);
INSERT INTO slot_place VALUES(1);
INSERT INTO slot_place VALUES(2);
INSERT INTO slot_place VALUES(3);
INSERT INTO slot_place VALUES(4);
INSERT INTO slot_place VALUES(5);
INSERT INTO slot_place VALUES(6);
INSERT INTO slot_place VALUES(7);
INSERT INTO slot_place VALUES(8);
INSERT INTO slot_place VALUES(9);
INSERT INTO slot_place VALUES(10);
INSERT INTO slot_place VALUES(11);
INSERT INTO slot_place VALUES(12);
INSERT INTO slot_place VALUES(13);
INSERT INTO slot_place VALUES(14);
INSERT INTO slot_place VALUES(15);
INSERT INTO slot_place VALUES(16);
INSERT INTO slot_place VALUES(17);
INSERT INTO slot_place VALUES(18);
INSERT INTO slot_place VALUES(19);
INSERT INTO slot_place VALUES(20);
INSERT INTO slot_place VALUES(21);
INSERT INTO slot_place VALUES(22);
INSERT INTO slot_place VALUES(23);
INSERT INTO slot_place VALUES(24);
INSERT INTO slot_place VALUES(25);
INSERT INTO slot_place VALUES(26);
INSERT INTO slot_place VALUES(27);
INSERT INTO slot_place VALUES(28);
INSERT INTO slot_place VALUES(29);
INSERT INTO slot_place VALUES(30);
INSERT INTO slot_place VALUES(31);
INSERT INTO slot_place VALUES(32);
INSERT INTO slot_place VALUES(33);
INSERT INTO slot_place VALUES(34);
INSERT INTO slot_place VALUES(35);
INSERT INTO slot_place VALUES(36);
INSERT INTO slot_place VALUES(37);
INSERT INTO slot_place VALUES(38);
INSERT INTO slot_place VALUES(39);
INSERT INTO slot_place VALUES(40);
INSERT INTO slot_place VALUES(41);
INSERT INTO slot_place VALUES(42);
INSERT INTO slot_place VALUES(43);
INSERT INTO slot_place VALUES(44);
INSERT INTO slot_place VALUES(45);
INSERT INTO slot_place VALUES(46);
INSERT INTO slot_place VALUES(47);
INSERT INTO slot_place VALUES(48);
INSERT INTO slot_place VALUES(49);
INSERT INTO slot_place VALUES(50);
INSERT INTO slot_place VALUES(51);
INSERT INTO slot_place VALUES(52);
INSERT INTO slot_place VALUES(53);
INSERT INTO slot_place VALUES(54);
INSERT INTO slot_place VALUES(55);
INSERT INTO slot_place VALUES(56);
INSERT INTO slot_place VALUES(57);
INSERT INTO slot_place VALUES(58);
INSERT INTO slot_place VALUES(59);
INSERT INTO slot_place VALUES(60);
INSERT INTO slot_place VALUES(61);
INSERT INTO slot_place VALUES(62);
INSERT INTO slot_place VALUES(63);
INSERT INTO slot_place VALUES(64);
INSERT INTO slot_place VALUES(65);
INSERT INTO slot_place VALUES(66);
INSERT INTO slot_place VALUES(67);
INSERT INTO slot_place VALUES(68);
INSERT INTO slot_place VALUES(69);
INSERT INTO slot_place VALUES(70);
INSERT INTO slot_place VALUES(71);
INSERT INTO slot_place VALUES(72);
INSERT INTO slot_place VALUES(73);
INSERT INTO slot_place VALUES(74);
INSERT INTO slot_place VALUES(75);
INSERT INTO slot_place VALUES(76);
INSERT INTO slot_place VALUES(77);
INSERT INTO slot_place VALUES(78);
INSERT INTO slot_place VALUES(79);
INSERT INTO slot_place VALUES(80);
INSERT INTO slot_place VALUES(81);
INSERT INTO slot_place VALUES(82);
INSERT INTO slot_place VALUES(83);
INSERT INTO slot_place VALUES(84);
INSERT INTO slot_place VALUES(85);
INSERT INTO slot_place VALUES(86);
INSERT INTO slot_place VALUES(87);
INSERT INTO slot_place VALUES(88);
INSERT INTO slot_place VALUES(89);
INSERT INTO slot_place VALUES(90);
INSERT INTO slot_place VALUES(91);
INSERT INTO slot_place VALUES(92);
INSERT INTO slot_place VALUES(93);
INSERT INTO slot_place VALUES(94);
INSERT INTO slot_place VALUES(95);
INSERT INTO slot_place VALUES(96);
INSERT INTO slot_place VALUES(97);
INSERT INTO slot_place VALUES(98);
INSERT INTO slot_place VALUES(99);
INSERT INTO slot_place VALUES(100);
INSERT INTO slot_place VALUES(101);
INSERT INTO slot_place VALUES(102);
INSERT INTO slot_place VALUES(103);
INSERT INTO slot_place VALUES(104);
INSERT INTO slot_place VALUES(105);
INSERT INTO slot_place VALUES(106);
INSERT INTO slot_place VALUES(107);
INSERT INTO slot_place VALUES(108);
INSERT INTO slot_place VALUES(109);
INSERT INTO slot_place VALUES(110);
INSERT INTO slot_place VALUES(111);
INSERT INTO slot_place VALUES(112);
INSERT INTO slot_place VALUES(113);
INSERT INTO slot_place VALUES(114);
INSERT INTO slot_place VALUES(115);
INSERT INTO slot_place VALUES(116);
INSERT INTO slot_place VALUES(117);
INSERT INTO slot_place VALUES(118);
INSERT INTO slot_place VALUES(119);
INSERT INTO slot_place VALUES(120);
INSERT INTO slot_place VALUES(121);
INSERT INTO slot_place VALUES(122);
INSERT INTO slot_place VALUES(123);
INSERT INTO slot_place VALUES(124);
INSERT INTO slot_place VALUES(125);
INSERT INTO slot_place VALUES(126);
INSERT INTO slot_place VALUES(127);
INSERT INTO slot_place VALUES(128);
INSERT INTO slot_place VALUES(129);
INSERT INTO slot_place VALUES(130);
INSERT INTO slot_place VALUES(131);
INSERT INTO slot_place VALUES(132);
INSERT INTO slot_place VALUES(133);
INSERT INTO slot_place VALUES(134);
INSERT INTO slot_place VALUES(135);
INSERT INTO slot_place VALUES(136);
INSERT INTO slot_place VALUES(137);
INSERT INTO slot_place VALUES(138);
INSERT INTO slot_place VALUES(139);
INSERT INTO slot_place VALUES(140);
INSERT INTO slot_place VALUES(141);
INSERT INTO slot_place VALUES(142);
INSERT INTO slot_place VALUES(143);
INSERT INTO slot_place VALUES(144);
INSERT INTO slot_place VALUES(145);
INSERT INTO slot_place VALUES(146);
INSERT INTO slot_place VALUES(147);
INSERT INTO slot_place VALUES(148);
INSERT INTO slot_place VALUES(149);
INSERT INTO slot_place VALUES(150);
INSERT INTO slot_place VALUES(151);
INSERT INTO slot_place VALUES(152);
INSERT INTO slot_place VALUES(153);
INSERT INTO slot_place VALUES(154);
INSERT INTO slot_place VALUES(155);
INSERT INTO slot_place VALUES(156);
INSERT INTO slot_place VALUES(157);
INSERT INTO slot_place VALUES(158);
INSERT INTO slot_place VALUES(159);
INSERT INTO slot_place VALUES(160);
INSERT INTO slot_place VALUES(161);
INSERT INTO slot_place VALUES(162);
INSERT INTO slot_place VALUES(163);
INSERT INTO slot_place VALUES(164);
INSERT INTO slot_place VALUES(165);
INSERT INTO slot_place VALUES(166);
INSERT INTO slot_place VALUES(167);
INSERT INTO slot_place VALUES(168);
INSERT INTO slot_place VALUES(169);
INSERT INTO slot_place VALUES(170);
INSERT INTO slot_place VALUES(171);
INSERT INTO slot_place VALUES(172);
INSERT INTO slot_place VALUES(173);
INSERT INTO slot_place VALUES(174);
INSERT INTO slot_place VALUES(175);
INSERT INTO slot_place VALUES(176);
INSERT INTO slot_place VALUES(177);
INSERT INTO slot_place VALUES(178);
INSERT INTO slot_place VALUES(179);
CREATE TABLE packed_10s_1767214800 (
            span_us INTEGER NOT NULL,   -- the span's start
            series  INTEGER NOT NULL,
            lane    INTEGER NOT NULL,
            format  INTEGER NOT NULL,   -- of what follows
            first   INTEGER NOT NULL,   -- the place of the first slot in the span
            count   INTEGER NOT NULL,   -- places from the first slot to the last
            shape   INTEGER NOT NULL,   -- bits: what columns are found from
            flags_base INTEGER, flags BLOB, covered_base INTEGER, covered BLOB, n_base INTEGER, n BLOB, last_at_base INTEGER, last_at BLOB, integral_base INTEGER, integral BLOB, integral_rest_base INTEGER, integral_rest BLOB, vmin_base INTEGER, vmin BLOB, vmin_rest_base INTEGER, vmin_rest BLOB, vmax_base INTEGER, vmax BLOB, vmax_rest_base INTEGER, vmax_rest BLOB, last_val_base INTEGER, last_val BLOB, last_val_rest_base INTEGER, last_val_rest BLOB, integral_div REAL, integral_rest_div REAL, vmin_div REAL, vmin_rest_div REAL, vmax_div REAL, vmax_rest_div REAL, last_val_div REAL, last_val_rest_div REAL,
            PRIMARY KEY (span_us, series, lane)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE packed_10s_1767225600 (
            span_us INTEGER NOT NULL,   -- the span's start
            series  INTEGER NOT NULL,
            lane    INTEGER NOT NULL,
            format  INTEGER NOT NULL,   -- of what follows
            first   INTEGER NOT NULL,   -- the place of the first slot in the span
            count   INTEGER NOT NULL,   -- places from the first slot to the last
            shape   INTEGER NOT NULL,   -- bits: what columns are found from
            flags_base INTEGER, flags BLOB, covered_base INTEGER, covered BLOB, n_base INTEGER, n BLOB, last_at_base INTEGER, last_at BLOB, integral_base INTEGER, integral BLOB, integral_rest_base INTEGER, integral_rest BLOB, vmin_base INTEGER, vmin BLOB, vmin_rest_base INTEGER, vmin_rest BLOB, vmax_base INTEGER, vmax BLOB, vmax_rest_base INTEGER, vmax_rest BLOB, last_val_base INTEGER, last_val BLOB, last_val_rest_base INTEGER, last_val_rest BLOB, integral_div REAL, integral_rest_div REAL, vmin_div REAL, vmin_rest_div REAL, vmax_div REAL, vmax_rest_div REAL, last_val_div REAL, last_val_rest_div REAL,
            PRIMARY KEY (span_us, series, lane)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE packed_10s_1767236400 (
            span_us INTEGER NOT NULL,   -- the span's start
            series  INTEGER NOT NULL,
            lane    INTEGER NOT NULL,
            format  INTEGER NOT NULL,   -- of what follows
            first   INTEGER NOT NULL,   -- the place of the first slot in the span
            count   INTEGER NOT NULL,   -- places from the first slot to the last
            shape   INTEGER NOT NULL,   -- bits: what columns are found from
            flags_base INTEGER, flags BLOB, covered_base INTEGER, covered BLOB, n_base INTEGER, n BLOB, last_at_base INTEGER, last_at BLOB, integral_base INTEGER, integral BLOB, integral_rest_base INTEGER, integral_rest BLOB, vmin_base INTEGER, vmin BLOB, vmin_rest_base INTEGER, vmin_rest BLOB, vmax_base INTEGER, vmax BLOB, vmax_rest_base INTEGER, vmax_rest BLOB, last_val_base INTEGER, last_val BLOB, last_val_rest_base INTEGER, last_val_rest BLOB, integral_div REAL, integral_rest_div REAL, vmin_div REAL, vmin_rest_div REAL, vmax_div REAL, vmax_rest_div REAL, last_val_div REAL, last_val_rest_div REAL,
            PRIMARY KEY (span_us, series, lane)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE packed_1m_1767150000 (
            span_us INTEGER NOT NULL,   -- the span's start
            series  INTEGER NOT NULL,
            lane    INTEGER NOT NULL,
            format  INTEGER NOT NULL,   -- of what follows
            first   INTEGER NOT NULL,   -- the place of the first slot in the span
            count   INTEGER NOT NULL,   -- places from the first slot to the last
            shape   INTEGER NOT NULL,   -- bits: what columns are found from
            flags_base INTEGER, flags BLOB, covered_base INTEGER, covered BLOB, n_base INTEGER, n BLOB, last_at_base INTEGER, last_at BLOB, integral_base INTEGER, integral BLOB, integral_rest_base INTEGER, integral_rest BLOB, vmin_base INTEGER, vmin BLOB, vmin_rest_base INTEGER, vmin_rest BLOB, vmax_base INTEGER, vmax BLOB, vmax_rest_base INTEGER, vmax_rest BLOB, last_val_base INTEGER, last_val BLOB, last_val_rest_base INTEGER, last_val_rest BLOB, integral_div REAL, integral_rest_div REAL, vmin_div REAL, vmin_rest_div REAL, vmax_div REAL, vmax_rest_div REAL, last_val_div REAL, last_val_rest_div REAL,
            PRIMARY KEY (span_us, series, lane)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE packed_1m_1767225600 (
            span_us INTEGER NOT NULL,   -- the span's start
            series  INTEGER NOT NULL,
            lane    INTEGER NOT NULL,
            format  INTEGER NOT NULL,   -- of what follows
            first   INTEGER NOT NULL,   -- the place of the first slot in the span
            count   INTEGER NOT NULL,   -- places from the first slot to the last
            shape   INTEGER NOT NULL,   -- bits: what columns are found from
            flags_base INTEGER, flags BLOB, covered_base INTEGER, covered BLOB, n_base INTEGER, n BLOB, last_at_base INTEGER, last_at BLOB, integral_base INTEGER, integral BLOB, integral_rest_base INTEGER, integral_rest BLOB, vmin_base INTEGER, vmin BLOB, vmin_rest_base INTEGER, vmin_rest BLOB, vmax_base INTEGER, vmax BLOB, vmax_rest_base INTEGER, vmax_rest BLOB, last_val_base INTEGER, last_val BLOB, last_val_rest_base INTEGER, last_val_rest BLOB, integral_div REAL, integral_rest_div REAL, vmin_div REAL, vmin_rest_div REAL, vmax_div REAL, vmax_rest_div REAL, last_val_div REAL, last_val_rest_div REAL,
            PRIMARY KEY (span_us, series, lane)
        ) STRICT, WITHOUT ROWID;
CREATE VIEW slot_1m AS
 SELECT * FROM slot_1m_1767150000
 UNION ALL SELECT * FROM slot_1m_1767225600;
CREATE VIEW every_1m AS
SELECT strftime('%Y-%m-%dT%H:%M:%SZ', slot_us / 1000000, 'unixepoch') AS slot, slot_us, series, measurement, field, tags,
       CASE WHEN covered_us > 0 AND covered_us >= (1 - xff) * 60000000
            THEN integral / ((CASE WHEN flow THEN min(covered_us, 60000000) ELSE covered_us END) / 1e6)
       END AS rate,
       CASE WHEN NOT void THEN integral END AS total,
       CASE WHEN NOT void THEN vmin END AS min,
       CASE WHEN NOT void THEN vmax END AS max,
       n,
       max(0, min(covered_us, 60000000)) / (60000000 + 0.0) AS known,
       approximate
FROM (SELECT slot_us, series, sum(integral) AS integral, sum(covered_us) AS covered_us,
             min(vmin) AS vmin, max(vmax) AS vmax, sum(n) AS n, max(approximate) AS approximate,
             sum(covered_us) = 0 AND sum(n) = 0 AND sum(integral) = 0 AS void
      FROM slot_1m GROUP BY slot_us, series)
JOIN (SELECT id, measurement, field, tags, flow, xff FROM series) ON id = series;
CREATE VIEW every_1m_filled AS
WITH RECURSIVE
ends AS MATERIALIZED (
    SELECT series, min(slot_us) AS first_us, max(slot_us) AS last_us FROM slot_1m GROUP BY series),
times (series, slot_us, last_us) AS (
    SELECT series, first_us, last_us FROM ends
    UNION ALL
    SELECT series, slot_us + 60000000, last_us FROM times WHERE slot_us < last_us),
slots AS (SELECT slot_us, series FROM times)
SELECT strftime('%Y-%m-%dT%H:%M:%SZ', slots.slot_us / 1000000, 'unixepoch') AS slot, slots.slot_us, slots.series, s.measurement, s.field, s.tags,
       e.rate, e.total, e.min, e.max, e.n, coalesce(e.known, 0.0) AS known, e.approximate
FROM slots
JOIN series s ON s.id = slots.series
LEFT JOIN every_1m e ON e.slot_us = slots.slot_us AND e.series = slots.series;
CREATE VIEW slot_10s AS
 SELECT * FROM slot_10s_1767214800
 UNION ALL SELECT * FROM slot_10s_1767225600
 UNION ALL SELECT * FROM slot_10s_1767236400;
CREATE VIEW every_10s AS
SELECT strftime('%Y-%m-%dT%H:%M:%SZ', slot_us / 1000000, 'unixepoch') AS slot, slot_us, series, measurement, field, tags,
       CASE WHEN covered_us > 0 AND covered_us >= (1 - xff) * 10000000
            THEN integral / ((CASE WHEN flow THEN min(covered_us, 10000000) ELSE covered_us END) / 1e6)
       END AS rate,
       CASE WHEN NOT void THEN integral END AS total,
       CASE WHEN NOT void THEN vmin END AS min,
       CASE WHEN NOT void THEN vmax END AS max,
       n,
       max(0, min(covered_us, 10000000)) / (10000000 + 0.0) AS known,
       approximate
FROM (SELECT slot_us, series, sum(integral) AS integral, sum(covered_us) AS covered_us,
             min(vmin) AS vmin, max(vmax) AS vmax, sum(n) AS n, max(approximate) AS approximate,
             sum(covered_us) = 0 AND sum(n) = 0 AND sum(integral) = 0 AS void
      FROM slot_10s GROUP BY slot_us, series)
JOIN (SELECT id, measurement, field, tags, flow, xff FROM series) ON id = series;
CREATE VIEW every_10s_filled AS
WITH RECURSIVE
ends AS MATERIALIZED (
    SELECT series, min(slot_us) AS first_us, max(slot_us) AS last_us FROM slot_10s GROUP BY series),
times (series, slot_us, last_us) AS (
    SELECT series, first_us, last_us FROM ends
    UNION ALL
    SELECT series, slot_us + 10000000, last_us FROM times WHERE slot_us < last_us),
slots AS (SELECT slot_us, series FROM times)
SELECT strftime('%Y-%m-%dT%H:%M:%SZ', slots.slot_us / 1000000, 'unixepoch') AS slot, slots.slot_us, slots.series, s.measurement, s.field, s.tags,
       e.rate, e.total, e.min, e.max, e.n, coalesce(e.known, 0.0) AS known, e.approximate
FROM slots
JOIN series s ON s.id = slots.series
LEFT JOIN every_10s e ON e.slot_us = slots.slot_us AND e.series = slots.series;
COMMIT;
