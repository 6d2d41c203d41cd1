"""Whether what was measured still speaks for what is promoted."""

from collections.abc import Sequence
from dataclasses import dataclass

VALID = "finished"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run was measured on. An empty build or host is not known and not compared."""

    label: str
    state: str
    config_digest: str
    engine_build: str
    host: str
    is_instrument_limited: bool = False


@dataclass(frozen=True, slots=True)
class Promoted:
    """What the environment runs, or is to run. `had_runs`: it was promoted on runs, still there or not."""

    config_digest: str
    engine_build: str
    host: str
    had_runs: bool = False


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why runs are weaker evidence than they look, or none. `code` is stable; `subjects` name the runs, `found` and
    `expected` what they differ in."""

    code: str
    subjects: tuple[str, ...] = ()
    found: str = ""
    expected: str = ""


def mismatches(runs: Sequence[Measured], promoted: Promoted) -> tuple[Mismatch, ...]:
    """What the runs and the promoted thing do not have in common, each kind once with all the runs it concerns."""
    if not runs:
        return (Mismatch("runs_gone" if promoted.had_runs else "no_evidence"),)
    found: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        for code, value, expected in _of_run(run, promoted):
            found.setdefault((code, value, expected), []).append(run.label)
    return tuple(Mismatch(code, tuple(labels), value, expected) for (code, value, expected), labels in found.items())


def _of_run(run: Measured, promoted: Promoted) -> list[tuple[str, str, str]]:
    differing = []
    if run.state != VALID:
        differing.append(("run_not_valid", run.state, VALID))
    if run.config_digest != promoted.config_digest:
        differing.append(("other_config", run.config_digest, promoted.config_digest))
    if run.engine_build and promoted.engine_build and run.engine_build != promoted.engine_build:
        differing.append(("other_engine", run.engine_build, promoted.engine_build))
    if run.host and promoted.host and run.host != promoted.host:
        differing.append(("other_host", run.host, promoted.host))
    if run.is_instrument_limited:
        differing.append(("instrument_limited", "", ""))
    return differing
