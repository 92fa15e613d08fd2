-- What webhooks must be told: written with what it tells of, sent by a thread beside the writer.
-- state: 0 waits, 1 sent, 2 given up. key is the same at each delivery, so that a receiver can tell
-- a repetition.
CREATE TABLE notices(
    id INTEGER PRIMARY KEY,
    webhook TEXT NOT NULL,
    key TEXT NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_us INTEGER NOT NULL,
    done_us INTEGER,
    answer TEXT NOT NULL,
    UNIQUE(webhook, key)
) STRICT;
CREATE INDEX notices_waiting ON notices(webhook, next_us) WHERE state = 0;

-- Datasets that an operator or a law asked for. state: 0 asked, 1 there, 2 failed. The numbers are
-- the file's: path on this machine, SHA-256 of its bytes, the rows and revisions in it.
CREATE TABLE datasets(
    id TEXT PRIMARY KEY,
    route TEXT NOT NULL,
    since_us INTEGER NOT NULL,
    until_us INTEGER NOT NULL,
    only_scored INTEGER NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    asked_us INTEGER NOT NULL,
    state INTEGER NOT NULL,
    done_us INTEGER,
    error TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    outputs INTEGER NOT NULL,
    without_text INTEGER NOT NULL,
    first_row INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    first_revision INTEGER NOT NULL,
    last_revision INTEGER NOT NULL
) STRICT;
CREATE INDEX datasets_asked ON datasets(asked_us) WHERE state = 0;
