"""`up`: the whole control plane on this machine, from one command until Ctrl-C."""

import os
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.stack import address, locks, logs, programs, sshd
from controlplane.stack.datastores import start_datastores
from controlplane.stack.paths import StatePaths
from controlplane.stack.preparation import prepare_database
from controlplane.stack.process import die_with_parent
from controlplane.stack.programs import REPOSITORY
from controlplane.stack.supervisor import StopRequested, Supervisor

DEMO_STOPS_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class UpOptions:
    state_dir: Path
    host: str
    port: int
    is_opening_browser: bool
    demo_arguments: tuple[str, ...] | None  # None: no demo
    is_once: bool  # stop after the demo


def run_up(options: UpOptions, *, say: Callable[[str], None]) -> int:
    """Start everything and stay until asked to stop; the exit status. Raises `Problem` when it cannot start."""
    paths = StatePaths(options.state_dir)
    paths.make()
    held = locks.take_locks(paths, say=say)
    is_reached_by_ssh = options.demo_arguments is not None or (paths.sshd / sshd.ACCESS_FILE).exists()
    listening = address.listen(options.host, options.port)
    locks.note_running(paths, listening.url)
    logs.cap(paths.logs.glob("*.log"))
    with Supervisor(say) as supervisor:
        try:
            environment = _start(supervisor, paths, listening, held.inherited, say)
            say(f"Running at {listening.url}  State: {paths.root}  Stop with Ctrl-C or: kill {os.getpid()}")
            if is_reached_by_ssh:
                _start_sshd(supervisor, paths, say)
            if options.demo_arguments is not None:
                status = _run_demo(supervisor, options.demo_arguments, environment)
                if options.is_once:
                    return status
            if options.is_opening_browser:
                webbrowser.open(listening.url)
            supervisor.run()
            say("Stopping")
        except StopRequested:
            say("Stopping")
            return 1 if options.is_once else 0
    paths.running.unlink(missing_ok=True)
    return 0


def _start(
    supervisor: Supervisor,
    paths: StatePaths,
    listening: address.Listening,
    inherited: tuple[int, ...],
    say: Callable[[str], None],
) -> Mapping[str, str]:
    """Everything in order; the environment that our programs run with."""
    datastores = start_datastores(supervisor, paths, inherited_files=inherited, say=say)
    environment = {
        **datastores.environment,
        **listening.environment(os.environ),
        "CONTROLPLANE_STATE_DIR": str(paths.root),
        "PYTHONPATH": str(REPOSITORY),
    }
    prepared = prepare_database(paths, environment, is_embedded=datastores.is_postgres_embedded)
    if prepared.admin_password:
        say(f"First administrator: admin  Password (shown this once): {prepared.admin_password}")
    supervisor.pause(0)
    supervisor.start(
        programs.web(
            paths,
            environment,
            listening=listening.socket.fileno(),
            is_ready=listening.readiness(),
            inherited_files=inherited,
        ),
        programs.worker(paths, environment, is_ready=datastores.has_worker, inherited_files=inherited),
        programs.beat(paths, environment, inherited_files=inherited),
    )
    return environment


def _start_sshd(supervisor: Supervisor, paths: StatePaths, say: Callable[[str], None]) -> None:
    """The SSH server of the demonstration; without one this machine is reached directly."""
    try:
        supervisor.start(sshd.kept_program(paths.sshd, log=paths.logs / "sshd.log", stage=programs.STAGE))
    except sshd.SshdUnavailable as unavailable:
        say(f"{unavailable.sentence} This machine is reached directly instead.")


def _run_demo(supervisor: Supervisor, arguments: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Run `manage.py demo` to its end while everything else is kept running; its exit status.

    A stop signal meanwhile is passed on to it, and it gets time to stop the engines that it started.
    """
    parent = os.getpid()
    demo = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "manage.py"), "demo", *arguments],
        env={**os.environ, **environment, "CONTROLPLANE_PROCESS": "demo"},
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),  # noqa: PLW1509  # this process has one thread
    )
    supervisor.run(until=lambda: demo.poll() is not None)
    if demo.poll() is None:
        demo.send_signal(signal.SIGINT)
        try:
            demo.wait(DEMO_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            demo.kill()
        demo.wait()
        raise StopRequested
    return demo.returncode if demo.returncode >= 0 else 1
