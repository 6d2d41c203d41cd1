"""Arguments are read from a release's sources without importing the release or anything that it needs."""

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.configs.domain import harvest
from controlplane.configs.domain.flags import Flag
from controlplane.configs.management import engine_source
from controlplane.configs.management.engine_source import HarvestError, arguments_of, probe, unpack

# A release in miniature: heavy imports, pydantic defaults, lazily needed names, a hidden registry.
SOURCES = {
    "__init__.py": "import torch\nraise RuntimeError('the package itself must not run')\n",
    "platforms.py": "raise RuntimeError('no platform must be looked for')\n",
    "kinds.py": "from typing import Literal\nPolicy = Literal['fcfs', 'priority']\nBROKEN = 1 / 0\n",
    "config.py": """
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from vllm.kinds import BROKEN, Policy
import enum

class Level(enum.Enum):
    LOW = "low"

@dataclass
class Inner:
    size: int = 3

@dataclass
class Config:
    policy: Policy = "fcfs"
    share: float = Field(default=0.9, gt=0)
    names: list[str] = Field(default_factory=list)
    level: Level = Level.LOW
    inner: Inner = Field(default_factory=Inner)
    dtype: torch.dtype | None = None

    def __post_init__(self):
        raise RuntimeError("defaults must not be validated")
""",
    "arguments.py": """
import argparse
import json
from vllm.config import Config, Level

class FlexibleArgumentParser(argparse.ArgumentParser):
    pass

def optional(kind):
    def convert(text):
        return None if text == "None" else kind(text)
    return convert

def size(text):
    return int(text[:-1]) * 1000 if text.endswith("k") else int(text)

def size_or_auto(text):
    return -1 if text == "auto" else size(text)

def make(parser):
    made = Config()
    parser.add_argument("--policy", choices=["fcfs", "priority"], default=made.policy, help="Policy.\\nMore. Much.")
    parser.add_argument("--share", "-s", type=float, default=made.share)
    parser.add_argument("--names", nargs="+", type=optional(str), default=made.names)
    parser.add_argument("--level", default=Level.LOW)
    parser.add_argument("--inner", type=json.loads, default=made.inner)
    parser.add_argument("--size", type=size)
    parser.add_argument("--len", type=optional(size_or_auto), dest="length")
    parser.add_argument("--caching", action=argparse.BooleanOptionalAction, default=True, help="[DEPRECATED] Old.")
    parser.add_argument("--plugin", action="append", default=[])
    return parser
""",
    "entrypoints/__init__.py": "",
    "entrypoints/cli/__init__.py": "",
    "entrypoints/cli/serve.py": """
import uvloop
from vllm.arguments import FlexibleArgumentParser, make
from vllm.platforms import current_platform

class Base(uvloop.Something):
    pass

class ServeSubcommand(Base):
    def subparser_init(self, subparsers):
        if current_platform.is_cuda():
            raise RuntimeError("there is no platform here")
        return make(subparsers.add_parser("serve"))
""",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "vllm-9.9.9" / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "vllm-9.9.9"


def test_the_releases_own_parser_is_read_to_the_letter(root: Path) -> None:
    assert harvest.options_of(probe(root)) == {
        flag.dest: flag
        for flag in (
            Flag("policy", ("--policy",), "str", choices=("fcfs", "priority"), default="fcfs", help_line="Policy."),
            Flag("share", ("--share", "-s"), "float", default=0.9),
            Flag("names", ("--names",), "list[str]", nargs="+", default=[]),
            Flag("level", ("--level",), "str", default="low"),
            Flag("inner", ("--inner",), "json", default="<Inner>"),
            Flag("size", ("--size",), "size"),
            Flag("length", ("--len",), "size_or_auto"),
            Flag(
                "caching",
                ("--caching", "--no-caching"),
                "bool",
                nargs=0,
                default=True,
                help_line="[DEPRECATED] Old.",
                deprecated=True,
            ),
            Flag("plugin", ("--plugin",), "list[str]", default=[]),
        )
    }


def test_a_release_that_cannot_be_read_is_told_with_its_last_lines(root: Path) -> None:
    (root / "vllm" / "arguments.py").write_text(
        "raise RuntimeError('new ways')\nFlexibleArgumentParser = make = None\n"
    )
    with pytest.raises(HarvestError, match="Failed reading the arguments in vllm-9"):
        probe(root)


def test_only_the_packages_python_files_are_unpacked(root: Path, tmp_path: Path) -> None:
    (root / "vllm" / "kernel.cu").write_text("x")
    (root / "setup.py").write_text("raise SystemExit")
    archive = tmp_path / "vllm-9.9.9.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(root, arcname=root.name)
    found = unpack(archive, tmp_path / "out")
    files = {str(path.relative_to(found)) for path in found.rglob("*") if path.is_file()}
    assert files == {f"vllm/{name}" for name in SOURCES}


@pytest.fixture
def fake_pip(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `pip` on PATH that serves one archive, 9.9.9, and writes down how it was called."""
    archive = tmp_path / "vllm-9.9.9.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(root, arcname=root.name)
    pip = tmp_path / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
for word; do [ "$last" = --dest ] && dest=$word; last=$word; done
case "$last" in
  vllm==9.9.9) cp {archive} "$dest" ;;
  *) echo "No matching distribution found for $last" >&2; exit 1 ;;
esac
"""
    )
    pip.chmod(0o755)
    monkeypatch.setattr(engine_source, "_pip", lambda: [str(pip)])
    return tmp_path / "calls"


def test_a_release_is_fetched_as_a_source_distribution_and_never_built(fake_pip: Path, tmp_path: Path) -> None:
    assert len(arguments_of("9.9.9", tmp_path / "work")) == 9
    call = fake_pip.read_text().split()
    assert call[:6] == ["download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--quiet"]
    assert call[-1] == "vllm==9.9.9"


def test_the_command_adds_releases_and_keeps_what_it_has_when_one_fails(fake_pip: Path, tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text(harvest.dumps(harvest.fold({"0.9.0": {"a": Flag("a", ("--a",), "int")}})))
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError, match=r"Not harvested: 8\.8\.8"):
        call_command("harvest_engine_args", "8.8.8", "9.9.9", catalogue=path, stdout=out, stderr=err)
    assert out.getvalue() == "9.9.9: 9 arguments\n"
    assert "No matching distribution found for vllm==8.8.8" in err.getvalue()
    stored: dict[str, Any] = json.loads(path.read_text())
    assert stored["releases"] == ["0.9.0", "9.9.9"]
    assert set(stored["options"]) == {
        "a",
        "policy",
        "share",
        "names",
        "level",
        "inner",
        "size",
        "length",
        "caching",
        "plugin",
    }


def test_the_command_wants_to_know_what_to_read() -> None:
    with pytest.raises(CommandError, match="Name at least one release"):
        call_command("harvest_engine_args")


def test_the_backend_that_pip_is_given_only_copies_metadata(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "PKG-INFO").write_text("Name: vllm\n")
    code = f"{engine_source._BACKEND}\nprint(prepare_metadata_for_build_wheel({str(tmp_path)!r}))"
    done = subprocess.run(["python3", "-c", code], cwd=source, capture_output=True, text=True, check=True)
    assert (tmp_path / done.stdout.strip() / "METADATA").read_text() == "Name: vllm\n"
