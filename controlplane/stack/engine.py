"""A vLLM for demonstrations and end-to-end tests: the machine's own where it has a GPU, else the pinned CPU build.

The CPU build lives in a virtual environment of its own in the cache, outside the clone, keyed by its lock: every clone
of the same commit shares one installation, and a changed lock makes a new one. A folder counts as done only with its
marker file, so an interrupted installation is made again and never used. Two installers at once wait for each other.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.core.errors import Problem

RECIPE = Path(__file__).resolve().parents[2] / "engine-cpu"
PYTHON_VERSION = (3, 11)
MODEL_KINDS = ("tiny", "small")
_MARKER = ".complete"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Engine:
    """An installed vLLM: its command, and the Python that has its libraries."""

    vllm: Path
    python: Path
    is_cpu_build: bool


class EngineUnavailable(Problem):
    code = "engine_unavailable"


def find_own_vllm(given: str | None = None) -> Engine | None:
    """The machine's own vLLM, if it has a GPU that answers and a `vllm` command (`given`, else on PATH)."""
    command = shutil.which(given or "vllm")
    if command is None or not _has_gpu():
        return None
    vllm = Path(command).absolute()
    return Engine(vllm=vllm, python=_python_beside(vllm), is_cpu_build=False)


def ensure_engine(*, dest: Path | None = None, own_vllm: str | None = None, say: Say = lambda _: None) -> Engine:
    """The machine's own vLLM, or the CPU build in `dest` (default: the cache), installed now if it is not there yet.

    Takes about a minute and 2.3 GB of disk the first time. Raises `EngineUnavailable` with what to do about it.
    """
    own = find_own_vllm(own_vllm)
    if own is not None:
        say(f"Using the vLLM of this machine: {own.vllm}")
        return own
    folder = dest or cache_dir() / "engines" / recipe_key(RECIPE, "requirements.txt", "vllm-meta-shim/*")
    if not is_complete(folder):
        with _alone(folder):
            if not is_complete(folder):
                _install(folder, say)
    return Engine(vllm=folder / "bin" / "vllm", python=folder / "bin" / "python", is_cpu_build=True)


def ensure_model(engine: Engine, kind: str, *, dest: Path | None = None, say: Say = lambda _: None) -> Path:
    """The folder of a locally made model (`tiny` or `small`), made with the engine's Python if it is not there."""
    if kind not in MODEL_KINDS:
        raise EngineUnavailable(f"There is no recipe for a model called {kind!r}.", remedy=f"Use one of {MODEL_KINDS}.")
    folder = dest or cache_dir() / "models" / f"{kind}-{recipe_key(RECIPE, 'requirements.txt', 'make_model.py')}"
    if not is_complete(folder):
        with _alone(folder):
            if not is_complete(folder):
                say(f"Making the {kind} model in {folder}")
                _start_over(folder)
                argv = [str(engine.python), str(RECIPE / "make_model.py"), kind, str(folder)]
                _run(argv, "The model could not be made.")
                _mark_complete(folder)
    return folder


def cache_dir() -> Path:
    """Where engines and models are kept: `CONTROLPLANE_CACHE_DIR`, else the user's cache folder."""
    if named := os.environ.get("CONTROLPLANE_CACHE_DIR"):
        return Path(named).expanduser().resolve()
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "vllm-controlplane"


def recipe_key(recipe: Path, *patterns: str) -> str:
    """A short name for the exact content of the recipe's files that match these patterns: names and bytes."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in recipe.glob(pattern) if path.is_file()}):
        digest.update(f"{path.relative_to(recipe)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def is_complete(folder: Path) -> bool:
    return (folder / _MARKER).is_file()


def _install(folder: Path, say: Say) -> None:
    python = _find_python()
    say(f"Installing the CPU build of vLLM into {folder} (once; about a minute, 2.3 GB on disk)")
    _start_over(folder)
    _run([python, "-m", "venv", str(folder)], f"{python} cannot make a virtual environment.")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-input"]
    _install_torch(pip)
    _run([*pip, "-r", str(RECIPE / "requirements.txt")], "The packages of the CPU build could not be installed.")
    with _writable_copy(RECIPE / "vllm-meta-shim", folder / "shim") as shim:
        _run([*pip, "--no-build-isolation", str(shim)], "The version shim of the CPU build could not be installed.")
    version = _run(
        [str(folder / "bin" / "python"), "-c", "import vllm; print(vllm.__version__)"], "vLLM does not start."
    )
    say(f"vLLM {version.strip().splitlines()[-1]} is installed")
    _mark_complete(folder)


def _install_torch(pip: list[str]) -> None:
    """torch first and alone, so that its absence is told from every other failure."""
    requirement = next(
        line for line in (RECIPE / "requirements.txt").read_text().splitlines() if line.startswith("torch==")
    )
    done = subprocess.run([*pip, requirement], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if "No matching distribution" in done.stderr or "Could not find a version" in done.stderr:
        raise EngineUnavailable(
            f"pip found no {requirement} for this Python and machine.",
            remedy=(
                "PyTorch publishes it on its CPU wheel index: put that index's address into PIP_EXTRA_INDEX_URL"
                " (pip's --extra-index-url) and run this again; or install a GPU build of vLLM and have `vllm` on PATH."
            ),
        )
    raise EngineUnavailable("torch could not be installed.", remedy=_last_lines(done.stderr))


def _find_python() -> str:
    """A Python of the version that the lock is made for, found by running it (a pyenv shim may exist and yet fail)."""
    wanted = ".".join(map(str, PYTHON_VERSION))
    folders = os.environ.get("PATH", "").split(os.pathsep)
    candidates = [getattr(sys, "_base_executable", sys.executable)]
    candidates += [str(Path(folder) / f"python{wanted}") for folder in folders if folder]
    for candidate in dict.fromkeys(candidates):
        if _version_of(candidate) == wanted:
            return candidate
    raise EngineUnavailable(
        f"The CPU build of vLLM needs Python {wanted}, and no python{wanted} on PATH runs.",
        remedy=f"Install Python {wanted} with venv, or have a `vllm` of your own on PATH on a GPU machine.",
    )


def _version_of(python: str) -> str | None:
    probe = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _has_gpu() -> bool:
    """Whether `nvidia-smi` is there and lists a GPU; a driver that does not answer in 20 s counts as none."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "GPU" in done.stdout


def _python_beside(vllm: Path) -> Path:
    """The Python of a `vllm` script: the one in its folder, else the one its first line names, else our own."""
    beside = vllm.resolve().parent / "python"
    if beside.exists():
        return beside
    with vllm.open("rb") as file:
        first = file.readline(500).decode(errors="replace").strip()
    named = Path(first.removeprefix("#!").strip()) if first.startswith("#!/") else None
    return named if named and named.exists() else Path(sys.executable)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock file beside `folder`; it is let go when the process ends, however it ends."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _writable_copy(source: Path, copy: Path) -> Iterator[Path]:
    """setuptools writes into the folder that it builds from; the clone is left alone."""
    shutil.copytree(source, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def _start_over(folder: Path) -> None:
    """Remove what an interrupted try left. A folder that has other things in it is not ours to remove."""
    if folder.exists() and any(folder.iterdir()) and not (folder / ".in-progress").exists():
        raise EngineUnavailable(
            f"{folder} is not empty and holds no complete engine or model.", remedy="Name another folder."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / ".in-progress").touch()


def _mark_complete(folder: Path) -> None:
    (folder / _MARKER).touch()
    (folder / ".in-progress").unlink()


def _run(argv: list[str], failure: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise EngineUnavailable(failure, remedy=_last_lines(done.stderr or done.stdout))
    return done.stdout


def _last_lines(text: str, count: int = 5) -> str:
    return "\n".join(text.strip().splitlines()[-count:])
