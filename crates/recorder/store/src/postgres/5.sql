-- Indexes of slots by series, for the views; they are made with each retention.

-- The places of a span, for the views that unpack. The planner must know how few there are.
CREATE TABLE slot_place (i integer PRIMARY KEY);
INSERT INTO slot_place SELECT * FROM generate_series(0, 179);
ANALYZE slot_place;
