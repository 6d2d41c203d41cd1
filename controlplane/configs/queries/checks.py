"""Whether configs work with a vLLM, and the command line they become."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from controlplane.configs.domain import exports
from controlplane.configs.domain.argv import CannotRenderError, Managed, SecretRef, command_line, environment, variables
from controlplane.configs.domain.checking import check
from controlplane.configs.domain.document import Reading, read
from controlplane.configs.domain.problem import Problem
from controlplane.configs.models import ConfigVersion
from controlplane.configs.queries.readings import secret_problems, shown
from controlplane.configs.queries.targets import Target
from controlplane.core.errors import Conflict, NotFound

Content = Mapping[str, Mapping[str, Any]]
Shown = list[dict[str, Any]]

IMAGE = "vllm/vllm-openai"
# The ports published by compose lead to the container's own address, not to its loopback.
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # written into an export, bound by nobody here


@dataclass(frozen=True, slots=True)
class Command:
    """`argv` begins with the executable; `environment` says which secret a variable is filled from."""

    argv: tuple[str, ...]
    environment: dict[str, str]

    @property
    def shell(self) -> str:
        """One option a line, ready to be pasted."""
        groups: list[list[str]] = [[]]
        for part in self.argv:
            if part.startswith("--"):
                groups.append([])
            groups[-1].append(shlex.quote(part))
        return " \\\n  ".join(" ".join(group) for group in groups)


@dataclass(frozen=True, slots=True)
class Checked:
    """`found` are all problems in the order of the file, `problems` the same for showing; `command` is there without
    errors only. `is_readable`: it is a config, whatever this target says of it."""

    target: Target
    found: tuple[Problem, ...]
    problems: Shown
    command: Command | None
    is_readable: bool = True

    @property
    def is_ok(self) -> bool:
        return not any(problem.is_error for problem in self.found)

    @property
    def errors(self) -> Shown:
        return [problem for problem in self.problems if problem["severity"] == "error"]

    @property
    def remarks(self) -> Shown:
        return [problem for problem in self.problems if problem["severity"] != "error"]

    @property
    def fixes(self) -> dict[tuple[str, str], Any]:
        """Edits for `Document.with_values` that would solve what can be solved without a person."""
        return fixes_of(self.found)


def check_version(version: ConfigVersion, target: Target) -> Checked:
    """A stored version against an engine or release."""
    raw = bytes(version.toml)
    return check_text(raw, read(raw), target)


def check_text(raw: bytes, reading: Reading, target: Target) -> Checked:
    """Everything that is wrong with a text, at once: what reading it found, and what this vLLM would say."""
    found = check(reading, flags=target.flags, version=target.version)
    if reading.document is None:  # a model line that could not be read is told already
        found = tuple(problem for problem in found if problem.code != "no_model")
    problems = tuple(sorted((*reading.problems, *secret_problems(reading), *found), key=_place))
    command = None
    if reading.document is not None and not any(problem.is_error for problem in problems):
        in_clear = reading.document.secret_text is not None
        command = _command(reading.document.content, target, in_clear=in_clear)
    return Checked(target, problems, shown(problems, raw), command, reading.document is not None)


def command_for(version: ConfigVersion, target: Target) -> Command:
    """The command line of a version. Raises Conflict with every problem when this vLLM would refuse it."""
    _refuse_errors(version, target)
    return _command(version.content, target)


def export_for(version: ConfigVersion, target: Target, format: str) -> tuple[str, str]:
    """(file name, text) of `shell`, `systemd` or `compose`. Raises NotFound, and Conflict as `command_for`."""
    if format not in _EXPORTS:
        raise NotFound(_("There is no such export."), remedy=_("Ask for shell, systemd or compose."))
    _refuse_errors(version, target)
    try:
        return _EXPORTS[format](version, target)
    except (CannotRenderError, exports.CannotExportError) as error:
        raise Conflict(str(error), code="cannot_export") from None


def fixes_of(problems: Iterable[Problem]) -> dict[tuple[str, str], Any]:
    """The edits of all errors that know theirs."""
    return {(section, key): value for found in problems if found.is_error for section, key, value in found.fix}


def _place(problem: Problem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0


def _refuse_errors(version: ConfigVersion, target: Target) -> None:
    checked = check_version(version, target)
    if not checked.is_ok:
        sentence = _("%(target)s would refuse %(version)s.") % {"target": target.label, "version": version}
        remedy = _("Make a version without these keys, or choose another engine.")
        raise Conflict(sentence, code="engine_refuses", remedy=remedy, extra={"problems": checked.errors})


def _command(content: Content, target: Target, *, in_clear: bool = False) -> Command:
    try:
        line = command_line(content, flags=target.flags, managed=Managed())
    except CannotRenderError as error:
        raise Conflict(str(error), code="cannot_render", remedy=_("Check the version against this engine.")) from None
    secrets = {name: _("the api_key in the file") if in_clear else str(ref) for name, ref in _secrets(content).items()}
    return Command((target.executable, *line.own, *line.injected), secrets)


def _secrets(content: Content) -> dict[str, SecretRef]:
    return environment(content)


def _launch(version: ConfigVersion, target: Target, *, executable: str, managed: Managed) -> exports.Launch:
    line = command_line(version.content, flags=target.flags, managed=managed)
    return exports.Launch(
        name=f"{version.config.name} v{version.number}",
        argv=[*line.own, *line.injected],
        secrets=_secrets(version.content),
        environment=variables(version.content),
        executable=executable,
    )


def _shell(version: ConfigVersion, target: Target) -> tuple[str, str]:
    launch = _launch(version, target, executable=target.executable, managed=Managed())
    return f"{launch.slug}.sh", exports.shell_script(launch)


def _systemd(version: ConfigVersion, target: Target) -> tuple[str, str]:
    launch = _launch(version, target, executable=target.executable, managed=Managed())
    return f"{launch.slug}.service", exports.systemd_unit(launch)


def _compose(version: ConfigVersion, target: Target) -> tuple[str, str]:
    launch = _launch(version, target, executable="vllm", managed=Managed(host=ANY_ADDRESS))
    places = (version.value("model", "model_path"), version.value("model", "tokenizer_path"))
    folders = sorted({str(place) for place in places if str(place or "").startswith("/")})
    text = exports.compose_service(
        launch,
        image=f"{IMAGE}:v{target.release}",
        port=version.value("server", "port", 8000),
        gpus=_gpus(version),
        volumes=folders,
    )
    return f"{launch.slug}.compose.yaml", text


def _gpus(version: ConfigVersion) -> int:
    pipeline = version.value("engine", "pipeline_parallel_size", 1)
    tensor = version.value("model", "tensor_parallel_size", 1)
    return int(tensor) * (pipeline if isinstance(pipeline, int) else 1)


_EXPORTS: dict[str, Callable[[ConfigVersion, Target], tuple[str, str]]] = {
    "shell": _shell,
    "systemd": _systemd,
    "compose": _compose,
}
EXPORT_FORMATS = tuple(_EXPORTS)
