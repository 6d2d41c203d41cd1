"""Getting a vLLM release's source distribution and reading the arguments of `vllm serve` from it."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

PROBE = Path(__file__).with_name("argument_probe.py")
DOWNLOAD_TIMEOUT_S = 900
PROBE_TIMEOUT_S = 120

# pip asks an sdist for its metadata by running its build backend, which would want torch. This backend answers with the
# metadata that the archive already carries, so no code of the release runs and nothing is built.
_BACKEND = """
from pathlib import Path


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = Path(metadata_directory, "vllm.dist-info")
    info.mkdir()
    info.joinpath("METADATA").write_bytes(Path("PKG-INFO").read_bytes())
    return info.name
"""


class HarvestError(Exception):
    """A release could not be fetched or read; the text says which step and what it printed."""


def arguments_of(version: str, workspace: Path) -> list[dict[str, Any]]:
    """Every argument of `vllm serve` in `version`, as the probe prints them.

    `workspace` is an empty directory of the caller's, for some 100 MB; it can be deleted afterwards.
    Raises HarvestError.
    """
    return probe(unpack(fetch(version, workspace / "downloads"), workspace / "source"))


def fetch(version: str, into: Path) -> Path:
    """Download the source distribution with pip: its indexes, certificates and hash checks are the user's own."""
    backend = into / "backend" / "setuptools"
    backend.mkdir(parents=True, exist_ok=True)
    (backend / "__init__.py").touch()
    (backend / "build_meta.py").write_text(_BACKEND)
    options = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--quiet", "--dest", str(into)]
    _run(
        [*_pip(), "download", *options, f"vllm=={version}"],
        what=f"fetching the source distribution of vLLM {version}",
        timeout_s=DOWNLOAD_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(backend.parent)},
    )
    archives = sorted(into.glob("vllm-*.tar.gz"))
    if len(archives) != 1:
        raise HarvestError(f"pip left {len(archives)} archives for vLLM {version}, not one.")
    return archives[0]


def unpack(archive: Path, into: Path) -> Path:
    """Unpack the Python files of the package; returns the directory that contains `vllm/`."""
    with tarfile.open(archive) as packed:
        members = [
            member
            for member in packed.getmembers()
            if member.isfile()
            and member.name.endswith(".py")
            and member.name.split("/")[1:2] == ["vllm"]
            # extractall(filter="data") would see to this; Python 3.11.2, which Debian 12 has, does not know it.
            and not member.name.startswith("/")
            and ".." not in member.name.split("/")
        ]
        packed.extractall(into, members)  # noqa: S202  # plain files below `into` only, see above
    roots = [path.parent for path in into.glob("*/vllm")]
    if len(roots) != 1:
        raise HarvestError(f"{archive.name} holds no vllm package.")
    return roots[0]


def probe(root: Path) -> list[dict[str, Any]]:
    """Run the probe over an unpacked source in a process of its own, with an empty environment."""
    printed = _run(
        [sys.executable, "-I", str(PROBE), str(root)],
        what=f"reading the arguments in {root.name}",
        timeout_s=PROBE_TIMEOUT_S,
        env={},
    )
    records: list[dict[str, Any]] = json.loads(printed)
    if not records:
        raise HarvestError(f"{root.name} shows no argument at all: the probe does not understand this release.")
    return records


def _pip() -> list[str]:
    """pip of this Python, or the one on PATH (environments made by uv have none)."""
    own = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if own.returncode == 0:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise HarvestError("There is no pip: install it into this environment or put it on PATH.")
    return [found]


def _run(argv: list[str], *, what: str, timeout_s: int, env: dict[str, str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, env=env, check=False)
    if done.returncode != 0:
        last_lines = "\n".join(line[:300] for line in done.stderr.strip().splitlines()[-8:])
        raise HarvestError(f"Failed {what}:\n{last_lines}")
    return done.stdout
