-- What the dashboard's lines need of the last scores of a route, beside one another: read from
-- scores and outputs, each of thousands of rows would be a page of its own.
CREATE TABLE route_rows(
    route TEXT NOT NULL,
    row INTEGER NOT NULL,
    is_counted INTEGER NOT NULL,
    reward REAL,
    committed_us INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    arm TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    queue_us INTEGER NOT NULL,
    ttft_us INTEGER NOT NULL,
    decode_us INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    PRIMARY KEY(route, row)
) STRICT, WITHOUT ROWID;
INSERT INTO route_rows
    SELECT s.route, s.row, s.is_counted, s.reward, s.committed_us, o.revision, o.arm, o.created_us,
           o.queue_us, o.ttft_us, o.decode_us, o.prompt_tokens, o.cached_tokens, o.completion_tokens
    FROM scores s JOIN outputs o ON o.id = s.output;
DROP INDEX scores_by_route;
