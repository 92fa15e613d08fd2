-- Hash chain over everything a law was fed up to ord. Empty in a database of an earlier version: the
-- state is then made again from the rows.
ALTER TABLE policy_state ADD COLUMN rows_hash TEXT NOT NULL DEFAULT '';
