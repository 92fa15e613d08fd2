#!/usr/bin/env python3
"""From the commit of a decision to its being applied by the engine: real controller, verifier and
engine processes with a small model, while clients send requests without a pause and the parameters
are changed again and again. Usage: decision_latency.py MODEL.gguf [CHANGES]; MILEPOST_BIN says where
the programs are. Fails when the 99th percentile is not below 50 ms.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from system import Load, System, until  # noqa: E402

LIMIT_MS = 50
APPLIED = re.compile(rb"ev=engine\.applied engine=e1 version=(\d+) after_us=(\d+)")


def change(system, number):
    body = {"route": "default", "params": {"temperature": 0.5 + 0.001 * (number % 400)},
            "reason": "decision_latency"}
    status, _, answer = system.call("controller", "POST", "/api/params", body)
    assert status == 200, answer
    status, _, answer = system.call("controller", "POST", "/api/stop", {"route": "default"})
    assert status == 200, answer


def measure(model, changes):
    with tempfile.TemporaryDirectory(prefix="milepost-latency-") as folder:
        system = System(folder, model)
        system.config.write_text(system.config.read_text().replace("{kind: hold}", "{kind: canary}"))
        try:
            system.start()
            with Load(system, clients=4) as load:
                until(lambda: len(load.answered) > 5, 60, "answers")
                for number in range(changes):
                    change(system, number)
                    time.sleep(0.02)
            time.sleep(0.5)
            log = system.log("controller").read_bytes()
        finally:
            system.stop()
        assert not system.crashes, system.crashes
    return sorted(int(us) / 1000 for _, us in APPLIED.findall(log)), len(load.answered)


def main():
    changes = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    ms, answered = measure(sys.argv[1], changes)
    assert len(ms) >= changes, f"{len(ms)} of {2 * changes} changes were reported as applied"

    def at(share):
        return ms[min(len(ms) - 1, int(share * len(ms)))]
    print(f"decision_latency: {len(ms)} desired states applied under load ({answered} answers): "
          f"median {at(0.5):.2f} ms, p90 {at(0.9):.2f} ms, p99 {at(0.99):.2f} ms, "
          f"longest {ms[-1]:.2f} ms")
    return 0 if at(0.99) < LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
