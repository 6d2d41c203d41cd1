"""The program as it is sent to hosts: one file, the same bytes every time, on the oldest Python it promises."""

from __future__ import annotations

import ast
import glob
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import controlplane
from controlplane.drivers import zipapp

SOURCES = sorted(
    source for name in ("agent", "protocol") for source in (Path(controlplane.__path__[0]) / name).glob("*.py")
)


def oldest_python() -> list[str]:
    """A Python 3.9 that works, from PATH or from pyenv; [] where there is none: the syntax check below always runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    installed = glob.glob(f"{pyenv}/versions/3.9.*/bin/python3.9")  # unlike Path.glob, silent about closed directories
    for candidate in [*sorted(installed), shutil.which("python3.9")]:
        if candidate and subprocess.run([str(candidate), "-c", ""], check=False, capture_output=True).returncode == 0:
            return [str(candidate)]
    return []


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return zipapp.place_in(tmp_path / "program")


def run(python: str, program: Path, *arguments: str, lines: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [python, "-I", str(program), *arguments, "--root", str(program.parent / "root")],
        input=lines,
        capture_output=True,
        timeout=30,
        check=False,
    )


def test_building_twice_gives_the_same_bytes(program: Path) -> None:
    once, again = zipapp.build(Path(controlplane.__path__[0])), zipapp.build(Path(controlplane.__path__[0]))

    assert once == again
    assert zipapp.program().digest == hashlib.sha256(program.read_bytes()).hexdigest()
    names = zipfile.ZipFile(io.BytesIO(again)).namelist()
    assert "__main__.py" in names
    assert not [name for name in names if "test" in name or name.endswith("ruff.toml")]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.parent.name}/{source.name}")
def test_every_source_parses_as_python_3_9_and_imports_the_standard_library_only(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))

    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= {*sys.stdlib_module_names, "controlplane"}


@pytest.mark.parametrize("executable", [sys.executable, *oldest_python()])
def test_a_session_answers_on_this_python_and_on_the_oldest_one(program: Path, executable: str) -> None:
    requests: list[dict[str, Any]] = [
        {"id": 1, "verb": "hello"},
        {"id": 2, "verb": "probe", "params": {"paths": ["/"]}},
        {"id": 3, "verb": "find_engines", "params": {"paths": []}},
        {"id": 4, "verb": "adoptable"},
        {"id": 5, "verb": "telemetry"},
        {"id": 6, "verb": "inspect_model", "params": {"path": "/nowhere"}},
        {"id": 7, "verb": "list"},
        {"id": 8, "verb": "put_file", "params": {"sha256": hashlib.sha256(b"x").hexdigest(), "content_base64": "eA=="}},
    ]
    with subprocess.Popen(
        [executable, "-I", str(program), "session", "--root", str(program.parent / "root")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as session:
        assert session.stdin
        assert session.stdout
        for request in requests:
            session.stdin.write(json.dumps(request).encode() + b"\n")
        session.stdin.flush()
        replies = {reply["id"]: reply for reply in (json.loads(session.stdout.readline()) for _ in requests)}
        session.stdin.close()
        assert session.wait(10) == 0

    assert [number for number, reply in replies.items() if not reply["ok"]] == [6]
    assert replies[1]["result"]["digest"] == zipapp.program().digest
    assert replies[6]["error"]["code"] == "no_such_path"


def test_lines_that_are_no_request_are_refused_and_the_session_goes_on(program: Path) -> None:
    done = run(sys.executable, program, "session", lines=b"nonsense\n\n[1]\n")

    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(reply["id"], reply["error"]["code"]) for reply in replies] == [(0, "bad_request")] * 2
    assert done.returncode == 0


def test_one_verb_can_be_called_without_a_session(program: Path) -> None:
    done = run(sys.executable, program, "check_port", lines=b'{"port": 1}')
    assert json.loads(done.stdout)["result"] == {"port": 1, "is_free": True, "holder": None}

    done = run(sys.executable, program, "check_port", lines=b'{"port": 0}')
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "bad_request")


def test_an_older_python_is_told_what_is_needed(program: Path) -> None:
    main = zipfile.ZipFile(program).read("__main__.py").decode()
    complaint = subprocess.run(
        [sys.executable, "-c", main.replace("(3, 9)", "(9, 9)")], capture_output=True, text=True, check=False
    )

    assert complaint.returncode == 3
    assert "needs Python 3.9 or later" in complaint.stderr
