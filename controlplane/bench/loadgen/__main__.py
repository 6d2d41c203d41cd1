"""`python loadgen.pyz SPEC.json`: run one load. The exit code says how it ended (domain/outcome.py)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from controlplane.bench.domain import outcome
from controlplane.bench.domain.outcome import ExitCode
from controlplane.bench.domain.spec import KEY_VARIABLE, InvalidSpec, RunSpec, parse_spec
from controlplane.bench.loadgen.output import OutputFolder
from controlplane.bench.loadgen.run import LoadRun
from controlplane.protocol.keys import is_sendable

PRIORITY = -10  # as `nice` counts: lower goes first
AUTOGROUP = Path("/proc/self/autogroup")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        return _refuse(f"usage: loadgen SPEC.json (the API key, if any, in ${KEY_VARIABLE})")
    try:
        spec = parse_spec(Path(arguments[0]).read_text(encoding="utf-8"))
        output = OutputFolder(spec.output_dir)
    except (OSError, UnicodeDecodeError, InvalidSpec) as error:
        return _refuse(f"{arguments[0]}: {error}")
    # Taken out of the environment at once: nothing this process starts shall inherit it.
    api_key = os.environ.pop(KEY_VARIABLE, "").strip() or None
    if api_key and not is_sendable(api_key):
        return _refuse(f"${KEY_VARIABLE} holds a line end or a character outside ASCII, which no client can send")
    _go_first()
    return _run_loop(spec, api_key, output)


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"loadgen: {sentence}\n")
    return ExitCode.BAD_SPEC


def _go_first() -> None:
    """Ask for a better priority: on a machine that the server keeps busy, a late clock is a wrong clock.

    The client needs a few per cent of a core. Where the user may not (no root), it stays as it is; result.json tells.

    Nice counts only within a session where Linux groups processes by session (sched_autogroup), and a group that mostly
    sleeps can wait for seconds beside a busy one (seen with 6.18; docs/explain/benchmarking.md): so the group asks too,
    when it is this process's own.
    """
    with contextlib.suppress(OSError):
        os.nice(PRIORITY)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(PRIORITY))


def _run_loop(spec: RunSpec, api_key: str | None, output: OutputFolder) -> int:
    try:
        import uvloop  # noqa: PLC0415 - optional on the host; half the CPU where it is there
    except ImportError:
        return asyncio.run(_execute(spec, api_key, output))
    uvloop.install()
    return asyncio.run(_execute(spec, api_key, output))


async def _execute(spec: RunSpec, api_key: str | None, output: OutputFolder) -> int:
    run = LoadRun(spec, api_key=api_key, output=output)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, run.stop, outcome.STOPPED)
    code = await run.execute()
    sys.stdout.write(f"loadgen: {outcome.SENTENCES[code]}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
