-- What the disjoint set of checks says of a sample of the outputs (NULL: not asked, or unscored).
ALTER TABLE scores ADD COLUMN reward_b REAL;

-- How often a process with this outbox ended without a clean stop, as far as was heard: one more is a
-- crash of the engine, and trips the canary it served.
ALTER TABLE engines ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
