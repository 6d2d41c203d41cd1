"""Command line of the stack; `manage.py up` and its siblings hand over to it.

Django is not imported here: the process that holds everything together stays small, and starts when Django cannot.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from controlplane.core import env
from controlplane.core.errors import Problem
from controlplane.stack import engine, sshd, usage
from controlplane.stack.paths import StatePaths
from controlplane.stack.up import UpOptions, run_up
from controlplane.stack.with_services import run_with_services

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8700


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except Problem as problem:
        sys.stderr.write(f"{problem.sentence}\n{problem.remedy}\n" if problem.remedy else f"{problem.sentence}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manage.py")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_add_up, _add_with_services, _add_install_cpu_engine, _add_run_sshd, _add_stack_usage):
        add(commands)
    return parser


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    up = commands.add_parser("up", help="start the control plane on this machine", description=_up.__doc__)
    up.add_argument("--host", default=os.environ.get("CONTROLPLANE_HOST", DEFAULT_HOST), help="address to listen on")
    up.add_argument("--port", type=int, default=os.environ.get("CONTROLPLANE_PORT", DEFAULT_PORT), help="0: a free one")
    up.add_argument("--state-dir", type=Path, help="where everything is kept (default: CONTROLPLANE_STATE_DIR)")
    up.add_argument("--no-open", action="store_true", help="do not open the browser")
    up.add_argument("--demo", action="store_true", help="then run the demonstration on a real vLLM")
    up.add_argument("--once", action="store_true", help="with --demo: stop everything after it, exit with its status")
    up.add_argument("--json", action="store_true", help="with --demo: its last line is a JSON summary")
    up.set_defaults(run=_up)


def _up(options: argparse.Namespace) -> int:
    """Start Postgres and Valkey (unless DATABASE_URL and BROKER_URL name others), the web pages, a worker and the
    clock; stay until Ctrl-C, then stop all of them."""
    if (options.once or options.json) and not options.demo:
        raise Problem("--once and --json belong to --demo.", remedy="Run: bin/up --demo --once --json")
    talk = sys.stderr if options.json else sys.stdout

    def say(line: str) -> None:
        try:
            talk.write(f"{line}\n")
            talk.flush()
        except OSError:  # the terminal is gone; there is still everything to stop
            return

    return run_up(
        UpOptions(
            state_dir=_state_dir(options),
            host=options.host,
            port=options.port,
            is_opening_browser=not options.no_open and _has_desktop(),
            demo_arguments=_demo_arguments(options) if options.demo else None,
            is_once=options.once,
        ),
        say=say,
    )


def _demo_arguments(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(f"--{name}" for name in ("once", "json") if getattr(options, name))


def _add_with_services(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    with_services = commands.add_parser(
        "with_services", help="run a command with its own Postgres and Valkey", description=_with_services.__doc__
    )
    with_services.add_argument("command", nargs=argparse.REMAINDER, help="-- COMMAND ARGUMENT…")
    with_services.set_defaults(run=_with_services)


def _with_services(options: argparse.Namespace) -> int:
    """Run COMMAND with DATABASE_URL and BROKER_URL of servers that live as long as it does."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise Problem("No command was given.", remedy="Run: manage.py with_services -- COMMAND ARGUMENT…")
    return run_with_services(command, say=_complain)


def _add_install_cpu_engine(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    install = commands.add_parser(
        "install_cpu_engine", help="have a vLLM to demonstrate with", description=_install_cpu_engine.__doc__
    )
    install.add_argument("--dest", type=Path, help="folder of the installation (default: the cache)")
    install.add_argument(
        "--own-vllm", metavar="COMMAND", help="a vLLM to use if this machine has a GPU (default: vllm)"
    )
    install.add_argument("--model", action="append", choices=engine.MODEL_KINDS, default=[], help="make this model too")
    install.add_argument("--json", action="store_true", help="print paths as one JSON line")
    install.set_defaults(run=_install_cpu_engine)


def _install_cpu_engine(options: argparse.Namespace) -> int:
    """Use the vLLM of this machine if it has a GPU, else install the CPU build into the cache (once; 2.3 GB)."""
    installed = engine.ensure_engine(dest=options.dest, own_vllm=options.own_vllm, say=_complain)
    models = {kind: str(engine.ensure_model(installed, kind, say=_complain)) for kind in options.model}
    if options.json:
        answer = {
            "vllm": str(installed.vllm),
            "python": str(installed.python),
            "is_cpu_build": installed.is_cpu_build,
            "models": models,
        }
        _tell(json.dumps(answer))
    else:
        _tell("\n".join([f"vllm: {installed.vllm}", *(f"{kind} model: {path}" for kind, path in models.items())]))
    return 0


def _add_run_sshd(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run_sshd = commands.add_parser("run_sshd", help="serve SSH to this user", description=_run_sshd.__doc__)
    run_sshd.add_argument("--dir", type=Path, required=True, help="folder for its keys and log")
    run_sshd.set_defaults(run=_run_sshd)


def _run_sshd(options: argparse.Namespace) -> int:
    """Serve SSH on loopback to the user who runs this, until standard input closes. Prints host, port, user and keys as
    one JSON line."""
    sshd.serve_until_input_ends(options.dir.resolve())
    return 0


def _add_stack_usage(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    stack_usage = commands.add_parser("stack_usage", help="memory and CPU of what `up` started")
    stack_usage.add_argument("--seconds", type=float, default=30.0, help="how long to watch the CPU")
    stack_usage.add_argument("--state-dir", type=Path)
    stack_usage.set_defaults(run=_stack_usage)


def _stack_usage(options: argparse.Namespace) -> int:
    _tell(usage.render(usage.measure(StatePaths(_state_dir(options)), seconds=options.seconds)))
    return 0


def _state_dir(options: argparse.Namespace) -> Path:
    named: Path | None = options.state_dir
    return named.expanduser().resolve() if named else env.state_dir()


def _has_desktop() -> bool:
    """Whether a browser window can appear: a text browser in this terminal is not wanted."""
    return sys.stdout.isatty() and (sys.platform == "darwin" or bool(os.environ.get("DISPLAY")))


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _complain(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
