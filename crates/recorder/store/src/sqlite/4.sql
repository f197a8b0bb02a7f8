-- Indexes of slots by series, for the views; they are made with each partition.

-- 1: slots of another lane than 0 were written, so that a view must add lanes.
ALTER TABLE series ADD COLUMN laned INTEGER NOT NULL DEFAULT 0;
