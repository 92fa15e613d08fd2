"""`milepost-verifier score` on a file, and `milepost rescore` on a controller's database."""

import json
import subprocess
from pathlib import Path

import pytest

from injector import Injector
from system import BIN, SLOW
from test_verifier import output

CHECKS = """\
routes:
  - name: default
    checks:
      - {id: words, kind: contains, all: [good]}
      - {id: rm, kind: reward_model, url: "http://127.0.0.1:1/", api: remote_rm, when: {ask: true},
         gate: true, retries: 0}
"""


@pytest.fixture
def checks(folder):
    path = Path(folder) / "new.yaml"
    path.write_text(CHECKS)
    return path


def test_score_keeps_the_order(checks):
    lines = [json.dumps(output(i, "good" if i % 3 else "bad", ask=i % 7 == 0)) for i in range(1, 301)]
    lines[10] = "junk"
    done = subprocess.run([BIN / "milepost-verifier", "score", "--config", checks],
                          input="\n".join(lines) + "\n", capture_output=True, text=True,
                          timeout=60 * SLOW)
    assert done.returncode == 0, done.stderr
    scores = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(scores) == 300 and scores.pop(10) is None
    assert [s["seq"] for s in scores] == [i for i in range(1, 301) if i != 11]
    for s in scores:
        if s["seq"] % 7 == 0:
            assert not s["scored"] and s["reason"] in ("unreachable", "breaker_open"), s
        else:
            assert s["reward"] == (1 if s["seq"] % 3 else 0)


def rescore(injector, checks, *more):
    done = subprocess.run([BIN / "milepost", "rescore", "--config", injector.system.config,
                           "--checks", checks, *more], capture_output=True, text=True,
                          timeout=60 * SLOW)
    return done.returncode, done.stdout, done.stderr


def test_rescore(folder, checks):
    injector = Injector(folder)
    try:
        injector.system.start("controller")
        frames = []
        for i in range(200):  # before: 100 pass, 50 fail, 50 unscored; after: by the text
            before = (1.0, 1.0, 0.0, None)[i % 4]
            text = "good" if i % 8 < 4 else "bad\u202e"
            frames.append(injector.frame("champion", 1, "", 1.0, before, text=text,
                                         metadata={"ask": i % 40 == 0}))
        injector.send_and_wait(frames)
        before = injector.system.rows("SELECT count(*), sum(row) FROM scores")
        code, out, error = rescore(injector, checks, "--json", "--since", "1h")
        assert code == 0, error
        report = json.loads(out)
        assert report["rows"] == 200 and report["unusable"] == 0
        assert report["versions_before"] == ["v1"] and len(report["version_after"]) == 64
        moves = report["moves"]
        assert sum(sum(row.values()) for row in moves.values()) == 200
        assert moves["pass"] == {"pass": 45, "value": 0, "fail": 50, "unscored": 5}
        assert moves["fail"] == {"pass": 25, "value": 0, "fail": 25, "unscored": 0}
        assert moves["unscored"] == {"pass": 25, "value": 0, "fail": 25, "unscored": 0}
        assert report["both"] == {"scored_by_both": 145, "mean_before": pytest.approx(95 / 145),
                                  "mean_after": pytest.approx(70 / 145)}
        assert report["revisions"][0]["revision"] == 1 and len(report["moved"]) == 20
        assert report["moved"][0]["before"] is None or report["moved"][0]["after"] is None
        assert injector.system.rows("SELECT count(*), sum(row) FROM scores") == before
        code, out, error = rescore(injector, checks, "--limit", "50")
        assert code == 0 and "50 outputs" in out and "Nothing was stored" in out, error
        assert "rescore" in error  # progress
        assert rescore(injector, checks, "--since", "tomorrow")[0] == 2
        assert rescore(injector, checks, "--route", "gone")[0] == 2
        code, _, error = rescore(injector, checks, "--since", "2999-01-01")
        assert code == 1 and "no stored outputs" in error
        checks.write_text(CHECKS.replace("contains", "contians"))
        code, _, error = rescore(injector, checks)
        assert code in (1, 2) and "contians" in error
    finally:
        injector.close()
