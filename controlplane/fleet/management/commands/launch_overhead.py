"""How much later a server is ready when this product launches it than when a shell does.

manage.py launch_overhead --model DIR [--host localhost] [--executable VLLM] [--rounds 5] [--together] [--json]

Wants a running stack (`manage.py up`, or a worker, a clock and both servers). Launches the model through the services
and the worker, then the very same command line by itself, in turns, and compares: from the call to the first answered
one-token request. On a machine that others use, `--together` starts both at the same moment, so that what else runs
slows both; a first launch, not counted, makes the words and the key.
"""

import http.client
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Max

from controlplane.configs.models import Config, ConfigVersion
from controlplane.fleet import queries, services
from controlplane.fleet.domain import placing
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.inventory.models import Engine

NAME = "launch-overhead"
PATIENCE_S = 300.0
LOOK_EVERY_S = 0.05
ASK_EVERY_S = 0.05
SERVED_AS = "overhead"
OTHER_PORT = 8977
# The worker's own environment does not reach an engine either (drivers.local).
HIDDEN = ("DATABASE_URL", "BROKER_URL", "CONTROLPLANE_", "DJANGO_", "SECRET_KEY")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds from the call to the first answered request."""

    product_s: float
    shell_s: float

    @property
    def overhead_s(self) -> float:
        return self.product_s - self.shell_s


class Command(BaseCommand):
    help = "Compare launches through the product with the same command line in a shell."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="a model directory on the host; a small one")
        parser.add_argument("--host", default="localhost", help="must be this machine: the shell runs here")
        parser.add_argument("--executable", default="", help="which vllm of the host; the first when not named")
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--together", action="store_true", help="start both at once, for a machine others use")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        engine = _engine(options["host"], options["executable"])
        version = _version(options["model"])
        numbers = range(1, options["rounds"] + 1)
        if options["together"]:
            _took, attempt = _through_product(version, engine)
            rounds = [_together(version, engine, attempt) for _ in numbers]
        else:
            rounds = [_round(number, version, engine) for number in numbers]
        difference_s = statistics.median(one.overhead_s for one in rounds)
        if options["json"]:
            figures = [{"product_s": one.product_s, "shell_s": one.shell_s} for one in rounds]
            self.stdout.write(json.dumps({"rounds": figures, "median_overhead_s": difference_s}))
            return
        self.stdout.write("| round | through the product (s) | in a shell (s) | difference (s) |")
        self.stdout.write("|---|---|---|---|")
        for number, one in enumerate(rounds, start=1):
            self.stdout.write(f"| {number} | {one.product_s:.2f} | {one.shell_s:.2f} | {one.overhead_s:+.2f} |")
        self.stdout.write(f"Median difference: {difference_s:+.2f} s")


def _engine(host: str, executable: str) -> Engine:
    """The engine, once the worker has read its options."""

    def found() -> Engine | None:
        engines = Engine.objects.select_related("host").filter(host__name=host, missing_since=None)
        engines = engines.filter(executable=executable) if executable else engines
        return engines.exclude(option_list=None).first()

    engine = _eventually(found)
    if engine is None:
        raise CommandError(f"No vLLM with known options on {host}: is it registered, and does a worker run?")
    return engine


def _version(model: str) -> ConfigVersion:
    content = {
        "server": {"host": "127.0.0.1", "served_model_name": SERVED_AS},
        "model": {"model_path": model, "max_model_len": 2048},
        "batching": {"max_num_seqs": 64},
        "engine": {"enforce_eager": True, "kv_cache_memory_bytes": "64M"},
    }
    config, _made = Config.objects.get_or_create(name=NAME, defaults={"created_by": NAME})
    number = (config.versions.aggregate(last=Max("number"))["last"] or 0) + 1
    return ConfigVersion.objects.create(
        config=config, number=number, toml=b"", content=content, digest="", file_digest=f"{number}", author=NAME
    )


def _round(number: int, version: ConfigVersion, engine: Engine) -> Round:
    """Both, the one that goes first changing from round to round: the second finds files in the page cache."""
    # The shell needs the words and the key that a launch made; the first launch is measured first for that reason.
    earlier = Attempt.objects.filter(instance__config_version=version).exclude(ready_at=None).first()
    if earlier is None or number % 2:
        product_s, attempt = _through_product(version, engine)
        return Round(product_s, _in_shell(attempt))
    shell_s = _in_shell(earlier)
    return Round(_through_product(version, engine)[0], shell_s)


def _together(version: ConfigVersion, engine: Engine, earlier: Attempt) -> Round:
    """Both at the same moment; the shell's on a port that the product does not choose."""
    with ThreadPoolExecutor(1) as aside:
        shell = aside.submit(_in_shell, earlier, port=OTHER_PORT)
        product_s, _attempt = _through_product(version, engine)
        return Round(product_s, shell.result())


def _through_product(version: ConfigVersion, engine: Engine) -> tuple[float, Attempt]:
    began = time.monotonic()
    instance = services.request_launch(config_version=version, engine=engine, actor=NAME)
    ended = _eventually(lambda: _fresh(instance, State.READY, State.FAILED))
    took_s = time.monotonic() - began
    if ended is None or ended.state != State.READY:
        raise CommandError(f"{instance.name} did not get ready: {ended.reason if ended else 'still starting'}")
    services.request_stop(instance, actor=NAME)
    stopped = _eventually(lambda: _fresh(instance, State.STOPPED, State.FAILED))
    if stopped is None or stopped.state != State.STOPPED:
        raise CommandError(f"{instance.name} was not stopped: {stopped.reason if stopped else 'still draining'}")
    attempt = queries.newest_attempt(stopped)
    if attempt is None:
        raise CommandError(f"{instance.name} has no attempt")
    return took_s, attempt


def _in_shell(attempt: Attempt, *, port: int | None = None) -> float:
    """The same words and environment, started by hand; on another port where one is given."""
    key, port = services.key_of(attempt.instance), port or attempt.instance.port
    argv, environment = list(attempt.argv), dict(attempt.environment)
    if port != attempt.instance.port:
        argv[argv.index("--port") + 1] = str(port)
        environment["VLLM_PORT"] = str(placing.internal_port(port))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
    with tempfile.TemporaryFile() as log:
        began = time.monotonic()
        process = subprocess.Popen(
            argv,
            env={**inherited, **environment, "VLLM_API_KEY": key},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            is_ready = _eventually(lambda: _answers(port, key) or None, every_s=ASK_EVERY_S)
            took_s = time.monotonic() - began
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            _wait_for_group(process)
    if not is_ready:
        raise CommandError("The command line did not get ready by itself.")
    return took_s


def _answers(port: int, key: str) -> bool:
    body = json.dumps({"model": SERVED_AS, "prompt": "ready?", "max_tokens": 1, "temperature": 0})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", "/v1/completions", body, headers)
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:  # it does not listen yet
        return False
    finally:
        connection.close()


def _wait_for_group(process: subprocess.Popen[bytes]) -> None:
    """Until the last process of the group is gone; what takes too long is killed."""
    deadline = time.monotonic() + 20
    process.wait(60)
    while _lives(process.pid):
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(ASK_EVERY_S)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _fresh(instance: Instance, *states: State) -> Instance | None:
    """The instance once it is in one of `states`; asked often, so the row is only read then."""
    if not Instance.objects.filter(pk=instance.pk, state__in=states).exists():
        return None
    return Instance.objects.get(pk=instance.pk)


def _eventually(look: Callable[[], T | None], *, every_s: float = LOOK_EVERY_S) -> T | None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(every_s)
    return found
