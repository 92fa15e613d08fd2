"""An independent witness of figure 4: aiperf from PyPI loads both servers as our own client does
(16 clients, a prefix of 400 words that all share, 64 tokens), and its numbers stand beside ours.

It wants a tokenizer to make prompts; they are made here, so a vocabulary of a few words is enough,
and tokens are counted by the servers. Installed into the cache folder: 1.2 GB, some minutes."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path

from install import cache_base

PACKAGE, VERSION = "aiperf", "0.13.0"
CLIENTS, REQUESTS, PREFIX, OWN, OUTPUT = 16, 48, 400, 30, 64
TIMEOUT_S = 900
WORDS = "river stone lamp table wind paper glass road bridge cloud".split()


def install():
    """The program, or None when it cannot be had."""
    folder = cache_base() / f"witness-{PACKAGE}-{VERSION}"
    program = folder / "bin" / PACKAGE
    if program.exists():
        return program
    print(f"installing {PACKAGE} {VERSION} into {folder}", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True)
    done = subprocess.run(["nice", "-n", "19", folder / "bin" / "pip", "install", "-q",
                           f"{PACKAGE}=={VERSION}"], check=False)
    return program if done.returncode == 0 and program.exists() else None


def write_prompts(path, requests, seed):
    rng = random.Random(seed)
    prefix = " ".join(rng.choice(WORDS) for _ in range(PREFIX))
    lines = (json.dumps({"text": f"{prefix} {' '.join(rng.choice(WORDS) for _ in range(OWN))}",
                         "output_length": OUTPUT}) for _ in range(requests))
    path.write_text("\n".join(lines), encoding="utf-8")


def write_tokenizer(folder):
    folder.mkdir()
    vocab = {w: i for i, w in enumerate(["[UNK]", *WORDS])}
    (folder / "tokenizer.json").write_text(json.dumps(
        {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
         "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}))


def served_name(server):
    with urllib.request.urlopen(server.url + "/v1/models", timeout=10) as answer:
        return json.load(answer)["data"][0]["id"]


def run(words, folder):
    """The program with all the processes it starts, which an end before time takes with it."""
    with open(folder / "log", "wb") as log:
        p = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        p.wait(TIMEOUT_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def by_witness(program, server, requests, seed):
    with tempfile.TemporaryDirectory(prefix="mpwitness") as name:
        folder = Path(name)
        write_prompts(folder / "prompts.jsonl", requests, seed)
        write_tokenizer(folder / "tokenizer")
        run([program, "profile", "--model", served_name(server), "--url", server.url,
             "--endpoint-type", "chat", "--streaming",
             "--concurrency", str(min(CLIENTS, requests)),
             "--request-count", str(requests), "--tokenizer", folder / "tokenizer",
             "--use-server-token-count", "--input-file", folder / "prompts.jsonl",
             "--custom-dataset-type", "single_turn", "--extra-inputs", "ignore_eos:true",
             "--ui", "none", "--artifact-dir", folder / "out"], folder)
        found = folder / "out" / "profile_export_aiperf.json"
        if not found.exists():
            text = (folder / "log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{PACKAGE}: {text[-800:]}")
        r = json.loads(found.read_text(encoding="utf-8"))
    return {"ttft_p50_ms": r["time_to_first_token"]["p50"],
            "ttft_p95_ms": r["time_to_first_token"]["p95"],
            "tok_s": r["output_token_throughput"]["avg"], "requests": r["request_count"]["avg"]}


def by_us(client, server, requests, seed):
    r = client.load(server, "-n", requests, "--clients", min(CLIENTS, requests),
                    "--shared-prefix", PREFIX, "--prompt", OWN, "--output", OUTPUT, "--seed", seed)
    return {"ttft_p50_ms": r["ttft_ms"]["p50"], "ttft_p95_ms": r["ttft_ms"]["p95"],
            "tok_s": r["throughput"]["output_tok_s"], "requests": requests}


def measure(program, engines, client, options):
    """Yields (engine, client, numbers): each server fresh, with each of the two clients once."""
    for engine in engines:
        with engine.serve(options.model, CLIENTS) as server:
            yield engine.name, PACKAGE, by_witness(program, server, options.witness, 1)
            yield (engine.name, "milepost bench serve",
                   by_us(client, server, options.witness, 2))


def print_rows(rows, requests):
    print(f"\nwitness: {min(CLIENTS, requests)} clients, {requests} requests, {PREFIX} words shared and {OWN} own, "
          f"{OUTPUT} tokens out, prefix unknown at the start")
    for engine, client, v in rows:
        print(f"  {engine:10} by {client:21} TTFT p50 {v['ttft_p50_ms']:9.1f} ms, "
              f"p95 {v['ttft_p95_ms']:9.1f} ms, {v['tok_s']:8.1f} tok/s")
