-- Versions of the desired state with the decisions of the batch that made them, and when which engine
-- said that it applies one: who served what, and since when.
CREATE TABLE desired_versions(
    version INTEGER PRIMARY KEY,
    first_decision INTEGER NOT NULL,
    last_decision INTEGER NOT NULL,
    at_us INTEGER NOT NULL
) STRICT;
CREATE INDEX desired_versions_by_decision ON desired_versions(last_decision);
CREATE TABLE applied(
    version INTEGER NOT NULL,
    engine TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY(version, engine)
) STRICT, WITHOUT ROWID;

-- What operators told engines to do, and what they answered.
CREATE TABLE engine_orders(
    id INTEGER PRIMARY KEY,
    engine TEXT NOT NULL,
    command TEXT NOT NULL,
    argument TEXT NOT NULL,
    actor TEXT NOT NULL,
    is_ok INTEGER NOT NULL,
    answer TEXT NOT NULL,
    at_us INTEGER NOT NULL
) STRICT;
