"""The complete option list of a vLLM build, told by the build itself: its own Python runs the script below."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from controlplane.agent import engines
from controlplane.protocol.engines import EngineOptions, EngineOptionsRequest
from controlplane.protocol.shapes import ShapeError, from_wire
from controlplane.protocol.wire import VerbError

_LAST_WORDS = 400


def read(request: EngineOptionsRequest) -> EngineOptions:
    """Import vLLM in its own Python and list the options of `vllm serve`. Takes seconds to minutes."""
    python = engines.interpreter(Path(request.executable).expanduser())
    if python is None:
        raise VerbError(
            "no_engine", f"{request.executable} is no vLLM executable here.", "Find the host's engines again."
        )
    with tempfile.TemporaryDirectory(prefix="vcp-options-") as folder:
        # Into a file: vLLM and its dependencies print to stdout while they are imported.
        target = Path(folder) / "options.json"
        said = _run(python, target, folder, request.timeout_s)
        try:
            return from_wire(EngineOptions, json.loads(target.read_bytes()))
        except (OSError, ValueError, ShapeError) as error:
            last = " / ".join(said.strip().splitlines()[-3:])[-_LAST_WORDS:] or "it said nothing"
            raise VerbError(
                "engine_broken", f"This vLLM cannot list its options: {last}", "Run `vllm serve --help` there."
            ) from error


def _run(python: Path, target: Path, folder: str, timeout_s: float) -> str:
    quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    try:
        done = subprocess.run(
            [str(python), "-c", _SCRIPT, str(target)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **quiet},
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise VerbError(
            "engine_slow", f"vLLM did not list its options in {timeout_s:g} s.", "Try again: disks warm up."
        ) from error
    except OSError as error:
        raise VerbError(
            "engine_broken", f"{python} cannot be run: {error.strerror}.", "Repair that environment."
        ) from error
    return done.stdout.decode("utf-8", "replace")


# Reads the parser that `vllm serve` uses. Imports have moved between releases; each is tried in turn, newest first.
_SCRIPT = r"""
import argparse, dataclasses, importlib, json, sys

def first(*places):
    failed = None
    for place in places:
        module, name = place.split(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            failed = error
    raise failed

make_arg_parser = first(
    "vllm.entrypoints.launchers.cli_args:make_arg_parser", "vllm.entrypoints.openai.cli_args:make_arg_parser"
)
Parser = first("vllm.utils.argparse_utils:FlexibleArgumentParser", "vllm.utils:FlexibleArgumentParser")
from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs
import vllm

def plain(value):
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        try:
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        except Exception:
            return repr(value)
    try:
        json.dumps(value)
        return value
    except (TypeError, ValueError):
        return [plain(item) for item in value] if isinstance(value, (set, tuple, list)) else repr(value)

parser = make_arg_parser(Parser(prog="vllm serve"))
groups = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
engine = {field.name for field in dataclasses.fields(EngineArgs)}
hints = {field.name: field.type for field in dataclasses.fields(AsyncEngineArgs)}
entries = []
for action in parser._actions:
    if isinstance(action, argparse._HelpAction):
        continue
    name = action.dest
    entries.append({
        "dest": name,
        "flags": list(action.option_strings),
        "group": groups.get(id(action)),
        "action": type(action).__name__,
        "nargs": action.nargs,
        "is_bool_pair": isinstance(action, argparse.BooleanOptionalAction),
        "parser_type": (getattr(action.type, "__name__", None) or repr(action.type)) if action.type else None,
        "annotation": str(hints[name]).replace("typing.", "") if name in hints else None,
        "choices": None if action.choices is None else [plain(choice) for choice in action.choices],
        "default": plain(action.default),
        "required": action.required,
        "deprecated": bool(getattr(action, "deprecated", False)),
        "scope": "engine" if name in engine else "async_engine" if name in hints else "frontend",
        "help": (action.help or "").strip(),
    })
with open(sys.argv[1], "w") as target:
    json.dump({"vllm_version": vllm.__version__, "count": len(entries), "args": entries}, target)
"""
