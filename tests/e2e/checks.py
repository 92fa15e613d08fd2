"""What must hold of a database after any storm: every answered request is there exactly once, with
its score; sequence numbers have no gap; replay agrees."""

import subprocess
import time

from system import BIN, SLOW, until


def finished_ids(system):
    return [r[0] for r in system.rows("SELECT request_id FROM outputs")]


def everything_is_stored_once(system, answered, seconds=60):
    """Waits until all answered requests are in SQLite, then checks each is there once, scored."""
    wanted = set(answered)
    assert len(wanted) == len(answered), "two answers had the same id"

    def all_there():
        return wanted <= set(finished_ids(system))

    until(all_there, seconds, f"{len(wanted)} answered requests are committed")
    time.sleep(1)  # whatever is sent twice has arrived too
    ids = finished_ids(system)
    assert len(ids) == len(set(ids)), "an output is stored twice"
    unscored = system.rows(
        "SELECT o.request_id FROM outputs o LEFT JOIN scores s ON s.output = o.id "
        "GROUP BY o.id HAVING count(s.row) <> 1")
    assert not unscored, f"{len(unscored)} outputs have no score, or two"


def sequences_have_no_gap(system):
    for engine, epoch, lowest, highest, count in system.rows(
            "SELECT engine, epoch, min(seq), max(seq), count(*) FROM outputs GROUP BY 1, 2"):
        assert (lowest, highest) == (1, count), f"gap in {engine} epoch {epoch}: " \
            f"{count} rows from {lowest} to {highest}"


def replay_agrees(system):
    done = subprocess.run([BIN / "milepost", "replay", "--config", system.config],
                          capture_output=True, text=True, timeout=120 * SLOW)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
