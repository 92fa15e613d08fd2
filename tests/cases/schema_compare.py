"""Compares `json_schema` with the PyPI package jsonschema on generated schemas and values.

usage: schema_compare.py [ROUNDS [SEED [VERIFIER]]]. Numbers are small, patterns are the same in both
dialects, so that only the keywords' meaning is compared. Prints pairs, agreements, disagreements."""
import json
import random
import re
import subprocess
import sys
import tempfile

from jsonschema import Draft202012Validator


def value(r, depth=0):
    kind = r.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return r.choice([None, True, False])
    if kind < 4:
        return r.choice([0, 1, 2, 3, 5, -1, 2.5, 1.0, 4, "", "a", "ab", "b1", "äö"])
    if kind < 6:
        return r.choice(["a", "abc", "2", 7, -2.5])
    if kind == 6:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    return {r.choice("abcd"): value(r, depth + 1) for _ in range(r.randrange(4))}


def sub(r, depth):
    return r.choice([True, False]) if r.random() < 0.15 else schema(r, depth + 1)


def subs(r, depth):
    return [sub(r, depth) for _ in range(1 + r.randrange(3))]


SIMPLE = {
    "type": lambda r: r.choice(["null", "boolean", "object", "array", "number", "string", "integer", ["integer", "string"]]),
    "enum": lambda r: [value(r, 2) for _ in range(1 + r.randrange(4))],
    "const": lambda r: value(r, 2),
    "multipleOf": lambda r: r.choice([1, 2, 0.5, 2.5]),
    "maximum": lambda r: r.choice([0, 2, 2.5]), "minimum": lambda r: r.choice([0, 1, 2.5]),
    "exclusiveMaximum": lambda r: r.choice([1, 3]), "exclusiveMinimum": lambda r: r.choice([0, 2]),
    "maxLength": lambda r: r.randrange(3), "minLength": lambda r: r.randrange(3),
    "pattern": lambda r: r.choice(["^a", "b$", "[0-9]", "^.?$", "a|ö"]),
    "maxItems": lambda r: r.randrange(3), "minItems": lambda r: r.randrange(3),
    "uniqueItems": lambda r: r.random() < 0.8,
    "maxProperties": lambda r: r.randrange(3), "minProperties": lambda r: r.randrange(3),
    "required": lambda r: r.sample("abcd", r.randrange(3)),
    "dependentRequired": lambda r: {r.choice("abcd"): r.sample("abcd", r.randrange(3))},
}
NESTED = {
    "allOf": subs, "anyOf": subs, "oneOf": subs, "not": sub, "if": sub, "then": sub, "else": sub,
    "dependentSchemas": lambda r, d: {r.choice("abcd"): sub(r, d)},
    "prefixItems": subs, "items": sub, "contains": sub,
    "properties": lambda r, d: {k: sub(r, d) for k in r.sample("abcd", 1 + r.randrange(3))},
    "patternProperties": lambda r, d: {r.choice(["^a", "[bc]", "d$"]): sub(r, d)},
    "additionalProperties": sub, "propertyNames": sub, "unevaluatedItems": sub, "unevaluatedProperties": sub,
    "$ref": lambda r, d: "#/$defs/" + r.choice(["x", "y"]),
}


def schema(r, depth=0):
    out = {k: SIMPLE[k](r) for k in r.sample(sorted(SIMPLE), r.randrange(2))}
    if depth < 3:
        out |= {k: NESTED[k](r, depth) for k in r.sample(sorted(NESTED), r.randrange(4))}
    if "contains" in out and r.random() < 0.5:
        out |= {"minContains": r.randrange(3), "maxContains": 1 + r.randrange(3)}
    return out


def whole(r):
    """Definitions go only into the value, so that no reference runs in a circle."""
    leaf = {k: SIMPLE[k](r) for k in r.sample(sorted(SIMPLE), 1)}
    return schema(r) | {"$defs": {"x": leaf, "y": {"items": {"$ref": "#/$defs/y"}, "properties": {"a": {"$ref": "#/$defs/x"}}}}}


def escape(s):
    return s.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def main():
    rounds, seed = (int(x) for x in (sys.argv[1:3] + ["2000", "1"][len(sys.argv[1:3]):]))
    verifier = (sys.argv[3:] or ["build/release/bin/milepost-verifier"])[0]
    r = random.Random(seed)
    rows, kept = ["kind\toutput\treference\texpected\tsource"], []
    for _ in range(rounds):
        s = whole(r)
        check = Draft202012Validator(s)
        for v in [value(r) for _ in range(8)]:
            kept.append((s, v, "pass" if check.is_valid(v) else "fail"))
            rows.append("\t".join(["jsonschema", escape(json.dumps(v, ensure_ascii=False)), escape(json.dumps(s, ensure_ascii=False)), kept[-1][2], "generated"]))
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", newline="\n", encoding="utf-8") as f:
        f.write("\n".join(rows) + "\n")
        f.flush()
        p = subprocess.run([verifier, "check", "--cases", f.name], capture_output=True, text=True)
    if "total:" not in p.stdout:
        sys.exit(p.stderr)
    for line in re.findall(r"^line (\d+):", p.stdout, re.M):
        s, v, want = kept[int(line) - 2]
        print(f"jsonschema says {want}: {json.dumps(v, ensure_ascii=False)} against {json.dumps(s, ensure_ascii=False)}")
    print(p.stdout.splitlines()[-1], f"({sum(k[2] == 'pass' for k in kept)} pass)")


main()
