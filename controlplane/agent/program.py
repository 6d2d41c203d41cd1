"""Command line of the host program: `session`, a single verb, or (started by itself) `keep`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Optional

OLDEST_PYTHON = (3, 9)


def main(arguments: Optional[list[str]] = None) -> int:
    """Run one mode; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # The modes import what they need: a keeper is on the path of every launch and needs a third of the program.
    if arguments[:1] == ["keep"]:
        from controlplane.agent.keeper import keep  # noqa: PLC0415

        keep(Path(arguments[1]))
        return 0
    return _talk(arguments)


def _talk(arguments: list[str]) -> int:
    from controlplane.agent.place import DEFAULT_ROOT, Place  # noqa: PLC0415
    from controlplane.agent.session import answer, serve  # noqa: PLC0415
    from controlplane.protocol.wire import Request, read_reply  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="agent.pyz", description="Host program of vLLM control plane.")
    parser.add_argument(
        "mode", help="'session' (JSON lines on stdin and stdout), or one verb with its parameters on stdin"
    )
    parser.add_argument(
        "--root", default=DEFAULT_ROOT, help=f"directory for launches and logs (default {DEFAULT_ROOT})"
    )
    chosen = parser.parse_args(arguments)

    outgoing = os.dup(1)
    os.dup2(2, 1)  # a stray print must not end up between the answers
    root = Path(chosen.root).expanduser().absolute()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Place(root=root, program=Path(sys.argv[0]).absolute())
    if chosen.mode == "session":
        serve(place, sys.stdin.buffer, outgoing)
        sys.stdout.flush()
        os._exit(0)  # not waiting for requests under way: nobody is left to hear their answers
    params = json.loads(sys.stdin.buffer.read() or b"{}")
    line = answer(place, Request(id=0, verb=chosen.mode, params=params))
    os.write(outgoing, line)
    return 0 if read_reply(line).ok else 1
