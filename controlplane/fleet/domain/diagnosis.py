"""Why an engine is not running: the earliest telling line of its log, a plain sentence, and the change that fixes it.

The last line of a vLLM log is seldom the cause. A worker fails, the engine core reports that the worker failed, the API
server reports that the engine core failed, and each adds a traceback. So the log is read from the top and the first
line that a known cause matches is the evidence. Warnings and deprecations are passed over; what only wraps another
failure is used when nothing better is there. The table of causes is `failures`, listed in docs/reference/failures.md.
"""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .config_values import Content
from .failures import RULES, Fix, Rule, Scene
from .failures.rule import Gpu
from .log_lines import LogLine, is_raised, parse
from .log_reading import STARTED, read_whole
from .redaction import redact
from .texts import gettext_noop as _

__all__ = ["Diagnosis", "Fix", "Gpu", "explain", "redact"]

# Lines that only say that something else failed.
_WRAPPERS = re.compile(
    r"Engine core initialization failed|EngineDeadError|Executor failed|WorkerProc (?:hit an exception|failed to start|"
    r"initialization failed)|EngineCore (?:failed to start|encountered a|hit an exception)|Worker failed with error|"
    r"output_handler failed|validation errors? for|KeyboardInterrupt|CancelledError|SystemExit"
    r"|leaked \w+ objects|Failed core proc"
)
# What the C and C++ runtimes, Python and vLLM's own handler write when a process crashes.
_CRASH = re.compile(
    r"^Fatal Python error: |Segfault encountered|^terminate called |^free\(\): |^malloc\(\): "
    r"|^double free or corruption|^corrupted size vs|Assertion `.*' failed\.|^\*\*\* SIG\w+ received"
)
_PROGRESS_BAR = re.compile(r"\b\d{1,3}% Completed|\d{1,3}%\|")
_SIGKILL, _SIGTERM, _SIGINT, _SIGSEGV, _SIGABRT = 9, 15, 2, 11, 6
_USAGE_ERROR = 2
_LONGEST_EVIDENCE = 600

_STEP_WORDS = {
    None: _("before it wrote anything"),
    "started": _("before the weights were loaded"),
    "weights": _("after the weights, while measuring memory"),
    "kv_cache": _("in warm-up, after the KV cache was made"),
    "graphs": _("after the graphs, before it listened"),
    "listening": _("while it was listening"),
}


@dataclass(frozen=True)
class Diagnosis:
    """What happened, in words for people and in values for scripts.

    `template`, `remedy_template` and `params` are what a page translates; `sentence` and `remedy` are the English.
    `line_number` counts from 1 in the log that was given; None when the exit code alone tells.
    """

    code: str
    template: str
    remedy_template: str
    params: Mapping[str, str] = field(default_factory=dict)
    evidence_line: str = ""
    line_number: int | None = None
    fixes: tuple[Fix, ...] = ()

    @property
    def sentence(self) -> str:
        return self.template.format_map(self.params)

    @property
    def remedy(self) -> str:
        return self.remedy_template.format_map(self.params)

    @property
    def is_failure(self) -> bool:
        return self.code != "stopped"


def explain(
    *,
    log_text: str,
    exit_code: int | None,
    stop_requested: bool,
    content: Content | None = None,
    gpus: Sequence[Gpu] = (),
    timed_out_after_s: float | None = None,
) -> Diagnosis:
    """Say why the process ended, or why its launch was given up (`timed_out_after_s`).

    `exit_code` is the process's own: negative or 128+n for a signal, None while it runs or when nobody saw it end.
    `content` and `gpus` sharpen the fixes and may be left out. Whatever was asked for (`stop_requested`) is no failure,
    and whatever was not is one, even with exit code 0: vLLM's API process exits 0 when its engine was killed.
    """
    if stop_requested:
        return _stopped(exit_code)
    scene = scene_of(log_text, content, tuple(gpus))
    since = _start_of_interest(scene)
    cause = _first(scene, since, symptoms=False)
    if cause:
        return cause
    if timed_out_after_s is not None:
        return _first(scene, since, symptoms=True) or _timed_out(scene, timed_out_after_s)
    return (
        _killed(scene, since, exit_code) or _first(scene, since, symptoms=True) or _unexplained(scene, since, exit_code)
    )


def exit_code_of_signal(name: str | None) -> int | None:
    """-9 of "SIGKILL", as Python writes the code of a process that a signal ended; None for no (known) signal."""
    return -signal.Signals[name] if name is not None and name in signal.Signals.__members__ else None


def scene_of(log_text: str, content: Content | None = None, gpus: tuple[Gpu, ...] = ()) -> Scene:
    """A log as the rules look at it: redacted, in lines taken apart."""
    lines: list[LogLine] = []
    for raw in redact(log_text).split("\n"):
        lines.append(parse(raw, previous=lines[-1] if lines else None))
    return Scene(tuple(lines), read_whole(log_text), content or {}, gpus)


def _start_of_interest(scene: Scene) -> int:
    """Once the server was up, earlier errors did not end it."""
    up = [index for index, line in enumerate(scene.lines) if "Application startup complete" in line.message]
    return up[-1] + 1 if up else 0


def _first(scene: Scene, since: int, *, symptoms: bool) -> Diagnosis | None:
    rules = [rule for rule in RULES if rule.is_symptom == symptoms]
    for index in range(since, len(scene.lines)):
        for rule in rules:
            if found := rule.match(scene, index):
                return _diagnosis(rule, found, scene, index)
    return None


def _is_wrapper(line: LogLine) -> bool:
    return bool(_WRAPPERS.search(line.message))


def _diagnosis(rule: Rule, found: re.Match[str], scene: Scene, index: int) -> Diagnosis:
    groups = {name: text or "" for name, text in found.groupdict().items()}
    number, evidence = _shown(scene, index)
    return Diagnosis(
        code=rule.code,
        template=rule.template,
        remedy_template=rule.remedy,
        params={**groups, **rule.params(found, scene)},
        evidence_line=evidence,
        line_number=number,
        fixes=tuple(rule.fixes(found, scene)),
    )


def _stopped(exit_code: int | None) -> Diagnosis:
    shown = "" if exit_code is None else f" (exit code {exit_code})"
    return Diagnosis("stopped", _("Stopped, as asked{shown}."), "", {"shown": shown})


def _timed_out(scene: Scene, after_s: float) -> Diagnosis:
    where = _STEP_WORDS[scene.facts.reached]
    number, text = _last_written(scene)
    return Diagnosis(
        "launch_timeout",
        _("The server did not get ready within {seconds} s; it was stopped {where}."),
        _("If the last lines show progress, allow more time; otherwise they name what hangs."),
        {"seconds": f"{after_s:g}", "where": where},
        text,
        number,
    )


def _signal(exit_code: int | None) -> int | None:
    if exit_code is None or 0 <= exit_code <= 128:
        return None
    return -exit_code if exit_code < 0 else exit_code - 128


def _killed(scene: Scene, since: int, exit_code: int | None) -> Diagnosis | None:
    number_sent = _signal(exit_code)
    if number_sent is None:
        return None
    template, remedy = _SIGNALS.get(number_sent, _OTHER_SIGNAL)
    number, text = _evidence_of_a_kill(scene, since)
    where = _STEP_WORDS[scene.facts.reached]
    return Diagnosis("killed", template, remedy, {"signal": str(number_sent), "where": where}, text, number)


def _evidence_of_a_kill(scene: Scene, since: int) -> tuple[int | None, str]:
    """Words of a crash, or a symptom; of a server that was starting also an error, and else how far it was.

    What a killed process happened to write last has nothing to do with its end, and the errors of a server that was up
    are its clients'.
    """
    for index in range(since, len(scene.lines)):
        if _CRASH.search(scene.lines[index].message):
            return _shown(scene, index)
    if symptom := _first(scene, since, symptoms=True):
        return symptom.line_number, symptom.evidence_line
    if scene.facts.startup_complete:
        return None, ""
    error = _first_error(scene, since)
    return _progress(scene) if error is None else _shown(scene, error)


def _progress(scene: Scene) -> tuple[int | None, str]:
    """How far a start was: a progress bar at the end of the log, else the line of the last step that says something."""
    number, text = _last_written(scene)
    if _PROGRESS_BAR.search(text):
        return number, text
    step = scene.facts.steps[-1] if scene.facts.steps else None
    return _shown(scene, step.at_line - 1) if step and step.name != STARTED else (None, "")


_SIGNALS = {
    _SIGKILL: (
        _("The process was killed from outside (signal 9) {where}; nobody here asked for it."),
        _(
            "Most often the host or container ran out of memory: see `dmesg` or the container's "
            "limit, and give it more."
        ),
    ),
    _SIGTERM: (
        _("The process was told to end (signal 15) {where}; nobody here asked for it."),
        _("Look for who did: a service manager, a probe that was too impatient, a shutdown of the host."),
    ),
    _SIGINT: (
        _("The process was interrupted (signal 2) {where}; nobody here asked for it."),
        _("Look for who did, for example Ctrl-C in a terminal it was started from."),
    ),
    _SIGSEGV: (
        _("The process crashed (segmentation fault, signal 11) {where}."),
        _("Use another vLLM release, and check that its libraries belong together."),
    ),
    _SIGABRT: (
        _("The process aborted itself (signal 6) {where}."),
        _("The lines above the end of the log say what it checked; use another vLLM release."),
    ),
}
_OTHER_SIGNAL = (
    _("The process ended on signal {signal} {where}; nobody here asked for it."),
    _("Look for who sent it."),
)


def _unexplained(scene: Scene, since: int, exit_code: int | None) -> Diagnosis:
    number, text = _best_candidate(scene, since)
    params = {"code": "unknown" if exit_code is None else str(exit_code)}
    if exit_code == 0:
        return Diagnosis(
            "exited",
            _("The server ended by itself (exit code 0) without being asked to."),
            _("The end of the log says what it did last; exit code 0 also follows a killed engine."),
            params,
            text,
            number,
        )
    return Diagnosis(
        "unknown",
        _("The server ended (exit code {code}), and no known cause is in its log. This line is the likeliest."),
        _("Read the log around the line. When you know the cause, tell us, so that it gets a rule."),
        params,
        text,
        number,
    )


def _best_candidate(scene: Scene, since: int) -> tuple[int | None, str]:
    """The likeliest line: an error, else what only wraps one, else the last."""
    error = _first_error(scene, since)
    if error is not None:
        return _shown(scene, error)
    # Only wrappers are left when the beginning of the log is missing: still better than the last line.
    for index in range(since, len(scene.lines)):
        if is_raised(scene.lines[index].message):
            return _shown(scene, index)
    return _last_written(scene)


def _first_error(scene: Scene, since: int) -> int | None:
    """The first exception of an inner process, then of any process, then any error; wrappers are passed over."""
    telling = [(index, line) for index, line in enumerate(scene.lines) if index >= since and not _is_wrapper(line)]
    inner = ("EngineCore", "Worker", "VllmWorker", "RayWorker")
    for wanted in (
        lambda line: is_raised(line.message) and line.process.startswith(inner),
        lambda line: is_raised(line.message),
        lambda line: line.level == "error" and not line.message.startswith(("Traceback", " ", "\t")) and line.message,
    ):
        for index, line in telling:
            if wanted(line):
                return index
    return None


def _shown(scene: Scene, index: int) -> tuple[int, str]:
    """A line as evidence, its number counted from 1."""
    return index + 1, scene.lines[index].message.strip()[:_LONGEST_EVIDENCE]


def _last_written(scene: Scene) -> tuple[int | None, str]:
    for index in range(len(scene.lines) - 1, -1, -1):
        if scene.lines[index].message.strip():
            return _shown(scene, index)
    return None, ""
