"""`manage.py render_config FILE --engine VERSION`: check a config and print its command line. Needs no database."""

import dataclasses
import json
import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.configs.domain.argv import Managed, environment, render
from controlplane.configs.domain.catalogue import Resolution, UnsupportedReleaseError, catalogue
from controlplane.configs.domain.checking import check
from controlplane.configs.domain.document import Document, Reading, read
from controlplane.configs.domain.problem import Problem
from controlplane.configs.domain.versions import NotAVersionError


class Command(BaseCommand):
    """For people who keep configs in git: exit code 0 and a command line, or 1 and every problem."""

    help = "Check a config file against a vLLM release and print the command line, or every problem with its place."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a config in TOML; - reads standard input")
        parser.add_argument("--engine", required=True, metavar="VERSION", help="the vLLM it is to run on, as 0.32.0")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            engine = catalogue().resolve(options["engine"])
        except (NotAVersionError, UnsupportedReleaseError) as error:
            raise CommandError(str(error)) from None
        reading = read(_bytes_of(options["file"]))
        problems = tuple(sorted((*reading.problems, *_engine_problems(reading, engine)), key=_place))
        document = None if any(problem.is_error for problem in problems) else reading.document
        write = self._write_json if options["json"] else self._write_text
        write(document, problems, engine, options["file"])
        if document is None:
            sys.exit(1)

    def _write_json(
        self, document: Document | None, problems: tuple[Problem, ...], engine: Resolution, _file: str
    ) -> None:
        said = {
            "ok": document is not None,
            "engine": engine.release,
            "note": engine.note,
            "argv": None if document is None else _command(document, engine),
            "environment": {} if document is None else _environment(document),
            "problems": [dataclasses.asdict(problem) for problem in problems],
        }
        self.stdout.write(json.dumps(said, ensure_ascii=False))

    def _write_text(
        self, document: Document | None, problems: tuple[Problem, ...], engine: Resolution, file: str
    ) -> None:
        if engine.note:
            self.stderr.write(engine.note)
        for problem in problems:
            self.stderr.write(f"{file}:{problem}")
        if document is None:
            return
        for variable, secret in _environment(document).items():
            self.stderr.write(f"{variable} is passed in the environment, from {secret}")
        self.stdout.write(shlex.join(_command(document, engine)))


def _bytes_of(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None


def _place(problem: Problem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0


def _engine_problems(reading: Reading, engine: Resolution) -> tuple[Problem, ...]:
    found = check(reading, flags=catalogue().flags(engine.release), version=engine.release)
    # A model line that could not be read is told already.
    return found if reading.document else tuple(problem for problem in found if problem.code != "no_model")


def _command(document: Document, engine: Resolution) -> list[str]:
    return ["vllm", *render(document.content, flags=catalogue().flags(engine.release), managed=Managed())]


def _environment(document: Document) -> dict[str, str]:
    """Which secret each variable comes from; a key that stands in the file itself is not shown."""
    in_clear = document.secret_text is not None
    return {
        variable: "the api_key in the file" if in_clear else str(secret)
        for variable, secret in environment(document.content).items()
    }
