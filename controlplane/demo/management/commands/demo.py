"""`manage.py demo [--json] [--once]` against a running stack: the whole loop, on a real vLLM."""

import json
import os
import signal
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.accounts.models import Role, User
from controlplane.accounts.services import create_token, revoke_token
from controlplane.core.errors import Problem
from controlplane.demo.client import Api, StepFailed
from controlplane.demo.story import Story, Told
from controlplane.stack.engine import Engine, ensure_engine, ensure_model
from controlplane.stack.locks import read_running
from controlplane.stack.paths import StatePaths
from controlplane.stack.sshd import ACCESS_FILE

HOST = "localhost"


class Command(BaseCommand):
    help = "Engine, model, config, launch, benchmark, one change, launch, benchmark, compare, promote."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="End with one line of JSON.")
        parser.add_argument(
            "--once", action="store_true", help="Stop everything that was started, also what was promoted."
        )
        parser.add_argument("--model", choices=("tiny", "small"), default="tiny", help="Which model to make and serve.")
        parser.add_argument("--vllm", help="A vllm executable to use instead of the CPU build (needs a GPU).")

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a stop tidies up, as Ctrl-C does
        told = Told()
        error = self._run(options, told)
        if told.table:
            self.stdout.write("\n" + told.table)
        if options["json"]:
            self.stdout.write(told.as_line(ok=not error, error=error))
        elif not error:
            self.stdout.write(f"Compare: {told.comparison_url}")
        if error:
            raise CommandError(error)

    def _run(self, options: dict[str, Any], told: Told) -> str:
        """Tell the story; returns what went wrong, or nothing."""
        admin = User.objects.filter(role=Role.ADMIN, is_active=True).order_by("id").first()
        if admin is None:
            return "There is no administrator yet. Start the control plane with bin/up first."
        token, text = create_token(user=admin, name="demo")
        story: Story | None = None
        try:
            story = self._prepare(options, text, told)
            story.tell()
            if options["once"]:
                story.tidy()
        except KeyboardInterrupt:
            self._tidy_after_failure(story)
            return "Interrupted."
        except (StepFailed, Problem) as failure:
            self._tidy_after_failure(story if options["once"] else None)
            return f"{failure.sentence} {failure.remedy}".strip()
        finally:
            revoke_token(token, actor=admin.username)
        return ""

    def _prepare(self, options: dict[str, Any], token: str, told: Told) -> Story:
        self.say("… engine and model")
        engine = ensure_engine(own_vllm=options["vllm"], say=self.say)
        model = ensure_model(engine, options["model"], say=self.say)
        self._reach_host(engine)
        api = Api(os.environ.get("CONTROLPLANE_PUBLIC_URL") or _noted_address(), token)
        return Story(api, host=HOST, executable=engine.vllm, model=model, say=self.say, told=told)

    def _reach_host(self, engine: Engine) -> None:
        """This machine as a host: over SSH where `up` runs an SSH server for that, else directly."""
        access = StatePaths(settings.STATE_DIR).sshd / ACCESS_FILE
        over_ssh = []
        if access.exists():
            way = json.loads(access.read_text())
            over_ssh = [
                f"--ssh-port={way['port']}",
                f"--ssh-user={way['user']}",
                f"--ssh-key-file={way['private_key']}",
                f"--host-key-file={access.with_name('host_key.pub')}",
            ]
        call_command("ensure_localhost", f"--engine-path={engine.vllm}", *over_ssh, stdout=self.stdout)
        self.say(f"  {HOST} is reached {'over SSH' if over_ssh else 'directly: there is no sshd at hand'}")

    def _tidy_after_failure(self, story: Story | None) -> None:
        if story is None:
            return
        try:
            story.tidy()
        except StepFailed as failure:  # said, and the first failure stays the one that is reported
            self.say(f"  {failure.sentence}")

    def say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _noted_address() -> str:
    """Where the `up` of this state directory listens, as it noted."""
    running = read_running(StatePaths(settings.STATE_DIR))
    if running is None:
        raise StepFailed("No running control plane is known.", "Start it with bin/up, or set CONTROLPLANE_PUBLIC_URL.")
    return running[1]
