"""`milepost bench`: serve against a real engine and a server whose times are known, kernel."""

import http.server
import json
import math
import statistics
import subprocess
import threading
import time

from system import BIN, SLOW

PAUSE_S = 0.03


def bench(*arguments, code=0):
    done = subprocess.run([BIN / "milepost", "bench", "serve", *map(str, arguments)],
                          capture_output=True, text=True, timeout=60 * SLOW, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def test_engine(make_system, tiny, folder):
    system = make_system(tiny)
    system.start("engine")
    url = f"http://127.0.0.1:{system.port['engine']}"
    load = ("--url", url, "-n", 6, "--clients", 3, "--turns", 2, "--shared-prefix", 12,
            "--prompt", 5, "--output", 8, "--slo-e2e-ms", 60000, "--json")
    plot = f"{folder}/plot.html"
    first = json.loads(bench(*load, "--plot", plot).stdout)
    assert first["requests"] == {"sent": 12, "ok": 12, "failed": 0}
    assert first["tokens"]["completion"] == 12 * 8
    assert first["goodput"]["requests"] == 12
    assert [t["n"] for t in first["turns"]] == [6, 6]
    assert first["ttft_ms"]["n"] == 12 and first["ttft_ms"]["p50"] <= first["e2e_ms"]["p50"]
    page = open(plot, encoding="utf-8").read()
    assert page.count("class='s'") == 12 and "<script" not in page and "http-equiv" not in page
    again = json.loads(bench(*load).stdout)
    assert again["answers_digest"] == first["answers_digest"]
    other = json.loads(bench(*load, "--seed", 2, "--prefix-seed", 1).stdout)
    assert other["answers_digest"] != first["answers_digest"]
    assert other["tokens"]["cached"] > 0
    refused = bench("--url", url, "-n", 2, "--prompt", 4000, code=1)
    assert "2 of 2 requests failed" in refused.stderr and "tokens" in refused.stderr
    assert "--lengths" in bench("--url", url, "--lengths", "x", code=2).stderr


class Slow(http.server.BaseHTTPRequestHandler):
    """Streams max_tokens words, one every PAUSE_S; one request at a time has the word."""

    protocol_version = "HTTP/1.1"
    turn = threading.Lock()
    gaps = []  # seconds as this process saw them: a busy machine sleeps longer

    def log_message(self, *_):
        pass

    def event(self, value):
        raw = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode())
        raw += b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        n = body["max_tokens"]
        with self.turn:
            for i in range(n):
                started = time.monotonic()
                time.sleep(PAUSE_S)
                self.gaps.append(time.monotonic() - started)
                self.event({"choices": [{"delta": {"content": f" {i}"}}]})
        self.event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": n}})
        self.event(b"[DONE]")
        self.wfile.write(b"0\r\n\r\n")


def test_times_are_true():
    """The known server is busy: in an open loop the time a request waits for it counts."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    alone = json.loads(bench("--url", url, "-n", 3, "--output", 5, "--json").stdout)
    ms = PAUSE_S * 1e3
    seen_ms = statistics.median(Slow.gaps) * 1e3
    assert ms <= alone["ttft_ms"]["min"] and ms * 0.9 <= alone["itl_ms"]["p50"] < seen_ms * 2
    assert alone["itl_ms"]["n"] == 3 * 4 and alone["e2e_ms"]["min"] >= 5 * ms
    assert alone["throughput"]["output_tok_s"] <= 1 / PAUSE_S
    crowd = json.loads(bench("--url", url, "-n", 6, "--rate", 1000, "--clients", 2, "--output", 5,
                             "--json", "--slo-e2e-ms", int(12 * ms)).stdout)
    assert crowd["load"]["mode"] == "open"
    assert crowd["e2e_ms"]["max"] >= 6 * 5 * ms - 10  # the last one's queue of five is in it
    assert crowd["goodput"]["requests"] <= 2  # the third ends after 15 pauses at the earliest
    # which arrivals lie in the first second is the seed's, not the clock's
    cut = json.loads(bench("--url", url, "-n", 60, "--rate", 30, "--seconds", 1, "--output", 1,
                           "--json").stdout)
    assert 15 <= cut["requests"]["sent"] == cut["requests"]["ok"] <= 45
    server.shutdown()


def test_kernels(tiny):
    done = subprocess.run([BIN / "milepost", "bench", "kernel", "--model", tiny, "--quick", "--json"],
                          capture_output=True, text=True, timeout=120 * SLOW, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["limits"]["read_gb_s"] > 0.5 and report["limits"]["fp32_gflop_s"] > 0.5
    everything = {r["tokens"]: r for r in report["rows"] if r["what"].startswith("all matrices")}
    assert sorted(everything) == [1, 4, 8, 16, 32, 64, 512]
    assert everything[512]["us"] > 0 and everything[1]["us"] > 0
    for row in report["rows"]:
        assert row["us"] > 0 and row["gb_s"] >= 0, row
    peak = report["limits"]["int8_gop_s"]
    for row in everything.values():
        # The share is of the peak measured in turn with the row; others may have taken the machine since.
        assert peak == 0 or 0.1 < row["of_peak"] * peak / row["gop_s"] < 10, row
        executed = row["executed_of_peak"]  # 11 dot products where the model has 8
        assert executed == 0 or math.isclose(executed, row["of_peak"] * 11 / 8, rel_tol=1e-6)
    bad = subprocess.run([BIN / "milepost", "bench", "kernel", "--model", "/nonexistent"],
                         capture_output=True, text=True, timeout=60, check=False)
    assert bad.returncode != 0 and "/nonexistent" in bad.stderr
