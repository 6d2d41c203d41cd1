"""What the load generator is told for a run: its spec, and the command line that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

LOADGEN_NAME = "loadgen.pyz"
SPEC_NAME = "spec.json"

_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "localhost": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with


def own_url(bind: str, port: int) -> str:
    """Where the server that listens on `bind` is reached from its own machine."""
    address = _LOOPBACK_OF.get(bind, bind)
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def interpreter(executable: str, running: Sequence[str]) -> str:
    """The Python that has the engine's libraries (uvloop among them): the one that its process runs by, else the one
    beside its command.

    `running` is the main process's command line as the kernel shows it; a process that renamed itself shows none.
    """
    if running and running[0].startswith("/") and PurePosixPath(running[0]).name.startswith(("python", "pypy")):
        return running[0]
    return str(PurePosixPath(executable).with_name("python"))


def launch_folder(tool_path: str, launch_id: str) -> str:
    """The folder of a launch, from where the same host program keeps its tools (docs/internals/host-program.md)."""
    return str(PurePosixPath(tool_path).parent.parent / "launches" / launch_id)


def command(python: str, loadgen_path: str, spec_path: str) -> list[str]:
    """The job's command line. The server's key is not in it: it travels in the environment."""
    return [python, loadgen_path, spec_path]
