-- Counted rows by the minute of their commit, for charts of hours; older than two days: see rollups.
CREATE TABLE minutes(
    route TEXT NOT NULL,
    minute_us INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    arm TEXT NOT NULL,
    n INTEGER NOT NULL,
    n_unscored INTEGER NOT NULL,
    reward_sum REAL NOT NULL,
    PRIMARY KEY(route, minute_us, revision, arm)
) STRICT, WITHOUT ROWID;
INSERT INTO minutes
    SELECT route, committed_us - committed_us % 60000000, revision, arm, count(*),
           sum(reward IS NULL), total(reward)
    FROM route_rows
    WHERE is_counted = 1
        AND committed_us > (SELECT max(committed_us) FROM scores) - 172800000000
    GROUP BY 1, 2, 3, 4;
