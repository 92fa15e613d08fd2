-- The controller's database. One writer. Everything the statistics use is a row here, in one global
-- order: scores.row and events.ord count from one counter, and replay walks both in that order.

-- One finished generation, as it came (raw) and with the columns that queries and statistics need.
CREATE TABLE outputs(
    id INTEGER PRIMARY KEY,
    engine TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    choice INTEGER NOT NULL,
    route TEXT NOT NULL,
    revision INTEGER NOT NULL,
    arm TEXT NOT NULL,
    experiment TEXT NOT NULL,
    propensity REAL,
    stratum TEXT NOT NULL,
    unit TEXT NOT NULL,
    admission INTEGER NOT NULL,
    desired_version INTEGER NOT NULL,
    finish_reason TEXT NOT NULL,
    is_invalid INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    queue_us INTEGER NOT NULL,
    ttft_us INTEGER NOT NULL,
    decode_us INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    raw TEXT NOT NULL,
    UNIQUE(engine, epoch, seq)
) STRICT;
CREATE INDEX outputs_by_request ON outputs(request_id, choice);
CREATE INDEX outputs_by_revision ON outputs(route, revision);

-- What one check set says of one output. reward NULL = unscored. is_counted: the statistics use it
-- (the first score of its output; a later version of the checks does not count twice).
CREATE TABLE scores(
    row INTEGER PRIMARY KEY,
    output INTEGER NOT NULL REFERENCES outputs(id),
    request_id TEXT NOT NULL,
    choice INTEGER NOT NULL,
    check_set TEXT NOT NULL,
    version TEXT NOT NULL,
    verifier TEXT NOT NULL,
    route TEXT NOT NULL,
    is_counted INTEGER NOT NULL,
    reward REAL,
    reason TEXT NOT NULL,
    duration_us INTEGER NOT NULL,
    committed_us INTEGER NOT NULL,
    checks TEXT NOT NULL,
    UNIQUE(request_id, choice, check_set, version)
) STRICT;
CREATE INDEX scores_by_route ON scores(route, row);
CREATE INDEX scores_by_output ON scores(output);

CREATE TABLE feedback(
    id INTEGER PRIMARY KEY,
    engine TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    value REAL,
    corrected TEXT NOT NULL,
    comment TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    committed_us INTEGER NOT NULL,
    UNIQUE(engine, epoch, seq)
) STRICT;
CREATE INDEX feedback_by_request ON feedback(request_id);

-- Frames with a readable key whose rest cannot be used: kept, so that nothing is lost silently.
CREATE TABLE rejects(
    engine TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    reason TEXT NOT NULL,
    raw TEXT NOT NULL,
    committed_us INTEGER NOT NULL,
    PRIMARY KEY(engine, epoch, seq)
) STRICT;

-- Everything else a control law was fed: operators, proposals, settings, time.
CREATE TABLE events(
    ord INTEGER PRIMARY KEY,
    route TEXT NOT NULL,
    kind TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    payload TEXT NOT NULL
) STRICT;

CREATE TABLE revisions(
    number INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    route TEXT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    hash TEXT NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE INDEX revisions_by_route ON revisions(route, number);

CREATE TABLE decisions(
    number INTEGER PRIMARY KEY,
    ord INTEGER NOT NULL,
    route TEXT NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    experiment TEXT NOT NULL,
    from_revision INTEGER NOT NULL,
    to_revision INTEGER NOT NULL,
    test TEXT NOT NULL,
    log_e REAL,
    log_threshold REAL,
    at_us INTEGER NOT NULL,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE INDEX decisions_by_route ON decisions(route, number);

CREATE TABLE experiments(
    id TEXT PRIMARY KEY,
    route TEXT NOT NULL,
    champion INTEGER NOT NULL,
    challenger INTEGER NOT NULL,
    actor TEXT NOT NULL,
    started_us INTEGER NOT NULL,
    ended_us INTEGER,
    outcome TEXT NOT NULL,
    last_decision INTEGER NOT NULL
) STRICT;

-- A law's state after ord; a cache: replay of the rows gives the same.
CREATE TABLE policy_state(
    route TEXT PRIMARY KEY,
    ord INTEGER NOT NULL,
    law TEXT NOT NULL,
    phase TEXT NOT NULL,
    experiment TEXT NOT NULL,
    champion INTEGER NOT NULL,
    challenger INTEGER NOT NULL,
    share REAL NOT NULL,
    settings TEXT NOT NULL,
    state TEXT NOT NULL
) STRICT;

CREATE TABLE engines(
    engine TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    model TEXT NOT NULL,
    weights TEXT NOT NULL,
    version TEXT NOT NULL,
    desired_version INTEGER NOT NULL,
    seen_us INTEGER NOT NULL
) STRICT;

-- Everything up to seq of this outbox is committed, or known to be dropped by the engine (gaps).
CREATE TABLE marks(
    engine TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY(engine, epoch)
) STRICT;
CREATE TABLE gaps(
    engine TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY(engine, epoch, first_seq)
) STRICT;

CREATE TABLE quarantine(
    route TEXT NOT NULL,
    hash TEXT NOT NULL,
    revision INTEGER NOT NULL,
    decision INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY(route, hash)
) STRICT;

CREATE TABLE settings(
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- History is only ever added to.
CREATE TRIGGER decisions_keep BEFORE UPDATE ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END;
CREATE TRIGGER decisions_stay BEFORE DELETE ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END;
CREATE TRIGGER revisions_keep BEFORE UPDATE ON revisions
    BEGIN SELECT RAISE(ABORT, 'revisions are immutable'); END;
CREATE TRIGGER revisions_stay BEFORE DELETE ON revisions
    BEGIN SELECT RAISE(ABORT, 'revisions are immutable'); END;
CREATE TRIGGER events_keep BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
