"""Requests as lines on stdin, answers as lines on stdout; each request in a thread of its own, so a slow one delays
no other.

When stdin ends (SSH cut, worker gone) the program ends at once. Launches do not notice: their keepers are processes
of their own.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path
from typing import BinaryIO

from controlplane.agent import verbs
from controlplane.agent.place import Place
from controlplane.protocol.shapes import ShapeError
from controlplane.protocol.wire import Request, VerbError, answer_line, read_request, refusal_line


def serve(place: Place, incoming: BinaryIO, outgoing: int) -> None:
    """Answer until `incoming` ends. `outgoing` is a file descriptor: lines are written whole, under a lock."""
    session = _Session(place, outgoing)
    for line in incoming:
        if line.strip():
            session.take(line)


def answer(place: Place, request: Request) -> bytes:
    """Carry out one request; whatever happens, the result is one answer line."""
    try:
        return answer_line(request.id, verbs.call(place, request.verb, request.params))
    except VerbError as error:
        return refusal_line(request.id, error)
    except ShapeError as error:
        return refusal_line(request.id, VerbError("bad_request", str(error), "Control plane and host program differ."))
    except Exception as error:
        # Kind and place only: the text of an unknown exception may repeat what it was given, secrets included.
        traceback.print_tb(error.__traceback__, file=sys.stderr)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{request.verb} failed: {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}."
        return refusal_line(request.id, VerbError("internal", message, "Report this with the host's Python version."))


class _Session:
    def __init__(self, place: Place, outgoing: int) -> None:
        self._place = place
        self._outgoing = outgoing
        self._writing = threading.Lock()

    def take(self, line: bytes) -> None:
        try:
            request = read_request(line)
        except ShapeError as error:
            self._write(refusal_line(0, VerbError("bad_request", str(error), "Send one JSON object a line.")))
            return
        threading.Thread(target=self._carry_out, args=(request,), name=request.verb, daemon=True).start()

    def _carry_out(self, request: Request) -> None:
        self._write(answer(self._place, request))

    def _write(self, line: bytes) -> None:
        with self._writing:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._outgoing, rest) :]
