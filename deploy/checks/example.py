#!/usr/bin/env python3
"""A check of your own: share of the words in metadata "topic" that the answer uses.

milepost.yaml:
    checks:
      - {id: topic, kind: command, program: [/usr/bin/python3, /path/to/example.py], timeout_ms: 2000}

One JSON line comes in per output: id, prompt, response, finish_reason, metadata, with. One JSON line goes
out: the same id, and "pass": true or false, or "score": 0 to 1, or "unscored": a reason. Nothing else may
be written to standard output; standard error goes to the verifier's log.
"""

import json
import sys


def judge(question):
    words = (question.get("metadata") or {}).get("topic", "").lower().split()
    if not words:
        return {"unscored": "no_reference"}
    text = question["response"].lower()
    return {"score": sum(w in text for w in words) / len(words)}


for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps({"id": question["id"], **judge(question)}), flush=True)
