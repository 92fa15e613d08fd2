#!/usr/bin/env python3
"""Receives Milepost's webhooks, checks their signature, and appends each event once to a file.

    python3 deploy/webhook_receiver.py --port 9000 --secret-file webhook.secret --output events.jsonl

An example to start from; needs only Python. Signatures are those of Standard Webhooks, so any
library for them does as well. What to copy: check the signature over the bytes as they came, refuse
old timestamps, remember the ids (each event comes at least once), answer 2xx only after it is kept.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_AGE_S = 300
MAX_BODY_BYTES = 4 * 1024 * 1024


def key_of(secret):
    """whsec_BASE64, or the text itself."""
    if secret.startswith("whsec_"):
        return base64.b64decode(secret[len("whsec_"):])
    return secret.encode()


def is_signed(key, headers, body, now):
    """Whether one of the signatures is HMAC-SHA256 of ID.TIMESTAMP.BODY, and not too old."""
    identity, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not stamp.isdigit() or abs(now - int(stamp)) > MAX_AGE_S:
        return False
    content = f"{identity}.{stamp}.".encode() + body
    want = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    signatures = [s.partition(",")[2] for s in headers.get("webhook-signature", "").split(" ")]
    return any(hmac.compare_digest(want, s) for s in signatures)


class Events:
    """The file: one line per id, on the disk before the sender hears of it."""

    def __init__(self, path):
        self.file = open(path, "a+", encoding="utf-8")
        self.file.seek(0)
        self.seen = {json.loads(line)["id"] for line in self.file}

    def keep(self, event):
        if event["id"] in self.seen:
            return False
        self.file.write(json.dumps(event) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.seen.add(event["id"])
        return True


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        if size > MAX_BODY_BYTES:
            return self.answer(413)
        body = self.rfile.read(size)
        if self.server.key and not is_signed(self.server.key, self.headers, body, time.time()):
            return self.answer(401)
        if self.server.refusals > 0:
            self.server.refusals -= 1
            return self.answer(500)
        if self.server.events.keep(json.loads(body)):
            print(json.loads(body)["text"], flush=True)
        time.sleep(self.server.delay)
        return self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--secret-file", help="none: signatures are not checked")
    parser.add_argument("--output", default="events.jsonl")
    parser.add_argument("--refuse", type=int, default=0, help="answer 500 so many times first")
    parser.add_argument("--delay", type=float, default=0, help="seconds before each answer")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Receiver)
    server.key = None
    if options.secret_file:
        with open(options.secret_file, encoding="utf-8") as file:
            server.key = key_of(file.read().strip())
    server.events, server.refusals, server.delay = Events(options.output), options.refuse, options.delay
    server.serve_forever()


if __name__ == "__main__":
    main()
