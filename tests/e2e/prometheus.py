"""A real Prometheus (Debian's) with the files of deploy/, scraping a real system.

The files are used as they are but for ports and times: MILEPOST_ALERTS_LONG=1 leaves the times of
the alerts alone and takes as long as they say (an hour and a half).
"""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from system import SLOW, free_ports, until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
IS_LONG = os.environ.get("MILEPOST_ALERTS_LONG") == "1"
WINDOW_S, HOUR_S = (600, 3600) if IS_LONG else (3, 6)  # what [10m] and an hour become
SHORT = [(r"for: \d+s", "for: 1s"), (r"for: \d+m", "for: 0s"), (r"\[10m\]", f"[{WINDOW_S}s]"),
         (r"\[5m\]", "[3s]"),
         (r"offset 1h", f"offset {HOUR_S}s"), (r"_seconds > 60", "_seconds > 2"),
         (r"> 30\b", "> 2")]
RULES = (DEPLOY / "alerts.yml").read_text()
ALERTS = re.findall(r"- alert: (\w+)", RULES)
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text())


def rules():
    text = RULES
    for pattern, value in [] if IS_LONG else SHORT:
        text, n = re.subn(pattern, value, text)
        assert n, f"alerts.yml has no {pattern} any more: mend the table of the test"
    return text


def panels():
    """[(where, expression)] of the Grafana dashboard, with its variables filled in."""
    found = [(p["title"], t["expr"]) for p in DASHBOARD["panels"] for t in p.get("targets", [])]
    found += [("annotation " + a["name"], a["expr"]) for a in DASHBOARD["annotations"]["list"]]
    return [(where, expr.replace("$__rate_interval", "4s")) for where, expr in found]


class Prometheus:
    def __init__(self, folder, system):
        self.folder, self.port = Path(folder), free_ports(1)[0]
        config = (DEPLOY / "prometheus.yml").read_text()
        for default, name in ((8090, "controller"), (8091, "verifier"), (8000, "engine")):
            assert f'["127.0.0.1:{default}"]' in config
            config = config.replace(f'["127.0.0.1:{default}"]', f'["127.0.0.1:{system.port[name]}"]')
        config = re.sub(r"_interval: 5s", "_interval: 500ms", config)
        config = config.replace("global:", "global:\n  scrape_timeout: 450ms")
        (self.folder / "prometheus.yml").write_text(config)
        (self.folder / "alerts.yml").write_text(rules())
        self.log = open(self.folder / "prometheus.log", "ab")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml",
             f"--storage.tsdb.path={self.folder}/tsdb", f"--web.listen-address=127.0.0.1:{self.port}"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.fired = {}
        until(self.is_ready, 30, "Prometheus is ready")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.log.close()

    def get(self, path, **query):
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as r:
                return json.load(r)["data"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{query}: {e.read().decode()}") from e

    def is_ready(self):
        try:
            targets = self.get("/api/v1/targets")["activeTargets"]
            return len(targets) == 3 and all(t["health"] == "up" for t in targets)
        except (OSError, AssertionError):  # not up, or up and not ready
            return False

    def query(self, expr):
        return self.get("/api/v1/query", query=expr)["result"]

    def firing(self):
        """Names that fire now; remembers all that ever did."""
        now = {a["labels"]["alertname"]: a for a in self.get("/api/v1/alerts")["alerts"]
               if a["state"] == "firing"}
        for name, alert in now.items():
            self.fired.setdefault(name, alert)
        return set(now)

    def wait_firing(self, name, seconds=20):
        until(lambda: self.firing() and name in self.fired, 7200 if IS_LONG else seconds,
              f"alert {name} fires")

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.firing()
            time.sleep(0.2)
