-- For tens of millions of outputs: texts apart from columns, no query that must walk everything.

-- The output as it came: TEXT as it is, BLOB a zstd frame of it. Kept for a while only (retention);
-- raw_hash (SHA-256; empty in rows of an earlier version) stays, and with it the rows' chain.
CREATE TABLE bodies(
    output INTEGER PRIMARY KEY REFERENCES outputs(id),
    packed ANY NOT NULL
) STRICT;
INSERT INTO bodies SELECT id, raw FROM outputs;
ALTER TABLE outputs DROP COLUMN raw;
ALTER TABLE outputs ADD COLUMN raw_hash BLOB NOT NULL DEFAULT x'';

-- Found through scores (request_id, choice, ...) and tallies.
DROP INDEX outputs_by_request;
DROP INDEX outputs_by_revision;

-- How many rows there are and were, so that nobody counts them.
CREATE TABLE totals(
    what TEXT PRIMARY KEY,
    n INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO totals SELECT 'outputs', count(*) FROM outputs
    UNION ALL SELECT 'scores', count(*) FROM scores
    UNION ALL SELECT 'unscored', count(*) FROM scores WHERE reward IS NULL
    UNION ALL SELECT 'feedback', count(*) FROM feedback;

-- Counted rows by the hour of their commit, written with them.
CREATE TABLE rollups(
    route TEXT NOT NULL,
    hour_us INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    arm TEXT NOT NULL,
    n INTEGER NOT NULL,
    n_unscored INTEGER NOT NULL,
    reward_sum REAL NOT NULL,
    reward_squares REAL NOT NULL,
    n_length INTEGER NOT NULL,
    n_invalid INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    first_row INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    PRIMARY KEY(route, hour_us, revision, arm)
) STRICT, WITHOUT ROWID;
INSERT INTO rollups
    SELECT o.route, s.committed_us - s.committed_us % 3600000000, o.revision, o.arm, count(*),
           sum(s.reward IS NULL), total(s.reward), total(s.reward * s.reward),
           sum(o.finish_reason = 'length'), sum(o.is_invalid), sum(o.prompt_tokens),
           sum(o.completion_tokens), min(s.row), max(s.row)
    FROM scores s JOIN outputs o ON o.id = s.output WHERE s.is_counted = 1
    GROUP BY 1, 2, 3, 4;

-- What people see of an arm (mean, interval), after the last row that was fed.
CREATE TABLE tallies(
    route TEXT NOT NULL,
    revision INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY(route, revision)
) STRICT, WITHOUT ROWID;
