"""Fixtures: a folder with a short path (Unix sockets), the tiny model, a system that is stopped and
checked for crashes after each test."""

import os
import shutil
import tempfile

import pytest

import tiny_model
from system import NAMES, System


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    tiny_model.write(path)
    return path


@pytest.fixture(scope="session")
def real_model():
    path = os.environ.get("MILEPOST_TEST_MODEL")
    if not path:
        pytest.skip("skipped: no model (set MILEPOST_TEST_MODEL)")
    return path


@pytest.fixture
def any_model(request):
    """The tiny model, or the real one with MILEPOST_E2E_MODEL=real."""
    is_real = os.environ.get("MILEPOST_E2E_MODEL") == "real"
    return request.getfixturevalue("real_model" if is_real else "tiny")


@pytest.fixture
def folder():
    path = tempfile.mkdtemp(prefix="mp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def make_system(folder, request):
    made = []

    def make(model, **values):
        made.append(System(folder, model, **values))
        return made[-1]

    yield make
    for system in made:
        system.stop()
        if getattr(request.node, "failed", False) or system.crashes:
            for name in NAMES:
                print(f"--- {name}\n{system.tail(name)}")
        assert not system.crashes, "\n".join(system.crashes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and report.failed:
        item.failed = True
    return report
