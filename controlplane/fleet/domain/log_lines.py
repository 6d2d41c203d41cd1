"""Taking one line of a vLLM log apart: who wrote it, how bad it is, when, and what it says.

Forms seen from 0.8 to 0.33 (with or without ANSI colours):

    ERROR 03-20 11:02:03 [core.py:343] text                      0.8
    (VllmWorker rank=1 pid=71) ERROR 03-20 11:02:03 [...] text   0.8
    (EngineCore_DP0 pid=71) (Worker_TP0 pid=72) ERROR ...        0.10 to 0.17
    (EngineCore pid=71) ERROR 11-29 12:21:30 [core.py:1510] text 0.18 and later
    ERROR 03-20 11:02:03 worker.py:267] text                     before 0.8
    INFO:     Application startup complete.                      uvicorn
    W1129 12:18:49.043000 822 torch/_library/triton.py:53] text  torch
"""

import re
from dataclasses import dataclass
from typing import Literal

Level = Literal["debug", "info", "warning", "error"]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_PROCESS = re.compile(r"^\s*\((?P<name>[A-Za-z][\w-]*)(?P<rank> rank=\d+)? pid=(?P<pid>\d+)(?:, ip=[\w.:]+)?\) ?")
_BARE_PID = re.compile(r"^\s*\(pid=(?P<pid>\d+)(?:, ip=[\w.:]+)?\) ?")
_STAMPED = re.compile(
    r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?(?P<month>\d\d)-(?P<day>\d\d) "
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,]\d+)? (?:\[?[\w./-]+\.\w+:\d+\] ?)?"
)
_UVICORN = re.compile(r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s+")
_TORCH = re.compile(
    r"^\[?(?:rank\d+\]:\[)?(?P<level>[WEIF])\d{4} (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\.\d+ "
)
_RANK = re.compile(r"^\[rank\d+\]:\s?")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Timeout)\b(?::|$)")
_ARGPARSE = re.compile(r"^vllm(?: \w+)*: error: ")
_WARNS = re.compile(r"^(?:\S+:\d+: )?\w*Warning: |^\[?[Ww]arning\b|^WARNING\b")
_TRACEBACK = "Traceback (most recent call last):"

_LEVELS: dict[str, Level] = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
    "I": "info",
    "W": "warning",
    "E": "error",
    "F": "error",
}


@dataclass(frozen=True)
class LogLine:
    """One line taken apart. `stamp` is (month, day, hour, minute, second); vLLM writes no year."""

    process: str
    level: Level
    message: str
    stamp: tuple[int, int, int, int, int] | None = None


def without_colour(text: str) -> str:
    """Remove terminal escape sequences, and of a redrawn progress line keep the last drawing."""
    plain = _ANSI.sub("", text).rstrip("\r\n")
    return plain.rsplit("\r", 1)[-1] if "\r" in plain else plain


def parse(raw: str, *, previous: LogLine | None = None) -> LogLine:
    """Take a line apart. `previous` is the line before it: the frames of a traceback take its level."""
    process, rest = _process(without_colour(raw))
    rest = _RANK.sub("", rest)
    stamped = _STAMPED.match(rest)
    if stamped:
        stamp = tuple(int(stamped[part]) for part in ("month", "day", "hour", "minute", "second"))
        return LogLine(process, _LEVELS[stamped["level"]], rest[stamped.end() :], stamp)  # type: ignore[arg-type]
    for pattern in (_UVICORN, _TORCH):
        matched = pattern.match(rest)
        if matched:
            return LogLine(process, _LEVELS[matched["level"]], rest[matched.end() :].strip())
    return LogLine(process, _bare_level(rest, previous), rest)


def is_raised(message: str) -> bool:
    """Is this the line of a traceback that names the exception?"""
    return bool(_RAISED.match(message))


def _process(text: str) -> tuple[str, str]:
    """Split off one or more `(Name pid=N)` prefixes; the innermost names the process that wrote the line."""
    name = ""
    while True:
        matched = _PROCESS.match(text)
        if matched:
            name = matched["name"] + (matched["rank"] or "").replace(" rank=", "-")
        else:
            matched = _BARE_PID.match(text)
            if not matched:
                return name, text
        text = text[matched.end() :]


def _bare_level(text: str, previous: LogLine | None) -> Level:
    if text.startswith(_TRACEBACK) or _RAISED.match(text) or _ARGPARSE.match(text):
        return "error"
    if _WARNS.match(text):
        return "warning"
    follows_error = previous is not None and previous.level == "error" and previous.stamp is None
    return "error" if follows_error and text[:1] in {" ", "\t"} else "info"
