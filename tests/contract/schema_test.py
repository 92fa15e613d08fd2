"""The examples in schemas/examples against the JSON Schemas, by a public validator.

unit.schemas.examples reads the same files with the C codecs: both must agree on every one. What the
codecs write is validated here too. Hashes are recomputed by an implementation of its own.
"""

import hashlib
import json
import os
import pathlib
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas"
NAMES = ["output", "score", "control", "feedback", "revision", "decision"]


def validator(name):
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


VALIDATORS = {name: validator(name) for name in NAMES}


def examples(kind):
    return sorted((SCHEMAS / "examples" / kind).glob("*/*.json"))


def label(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", examples("valid"), ids=label)
def test_valid(path):
    VALIDATORS[path.parent.name].validate(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", examples("invalid"), ids=label)
def test_invalid(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    assert not VALIDATORS[path.parent.name].is_valid(document)


def test_there_are_examples_of_each():
    for name in NAMES:
        assert sum(p.parent.name == name for p in examples("valid")) >= 3
        assert sum(p.parent.name == name for p in examples("invalid")) >= 5


def test_what_the_codecs_write_is_valid(tmp_path):
    build = os.environ.get("MILEPOST_TEST_DIR")
    assert build, "MILEPOST_TEST_DIR must name the folder of the unit tests"
    env = dict(os.environ, MILEPOST_ENCODED_DIR=str(tmp_path))
    program = pathlib.Path(build) / "schemas_examples_test"
    subprocess.run([program], cwd=ROOT, env=env, check=True, timeout=60)
    written = sorted(tmp_path.glob("*.json"))
    assert len(written) == len(examples("valid"))
    for path in written:
        name = path.name.split(".", 1)[0]
        document = json.loads(path.read_text(encoding="utf-8"))
        VALIDATORS[name].validate(document)


def canonical(value):
    """Keys sorted, no white space, reals as C's %.17g with a point or an exponent."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{canonical(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(v) for v in value) + "]"
    if isinstance(value, float):
        text = "%.17g" % value
        return text if any(c in text for c in ".e") else text + ".0"
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("name", ["revision", "decision"])
def test_hashes(name):
    for path in examples("valid"):
        if path.parent.name != name:
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        covered = document["params"] if name == "revision" else {
            k: v for k, v in document.items() if k != "hash"
        }
        assert hashlib.sha256(canonical(covered).encode()).hexdigest() == document["hash"], path
