-- Packed slots. Their tables are made with each partition; see docs/packing.md.

-- The places of a span, for the views that unpack.
CREATE TABLE slot_place (i INTEGER PRIMARY KEY) STRICT;
WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i < 179)
INSERT INTO slot_place SELECT i FROM place;
