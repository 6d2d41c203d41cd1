"""How runs end: with numbers, or with the reason why there are none."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.bench.domain import reading
from controlplane.bench.domain.following import state_after
from controlplane.bench.domain.validity import INVALID
from controlplane.bench.models import Metric, Run, RunData
from controlplane.bench.reconcile.files import read_json, read_requests
from controlplane.bench.services.states import move
from controlplane.drivers.errors import HostRefused
from controlplane.fleet.models import Attempt
from controlplane.inventory.models import Host
from controlplane.inventory.services import call_host

LOG_TAIL_BYTES = 4000


def collect(run: Run, host: Host, launch: Mapping[str, Any]) -> None:
    """Read what the load generator left, and close the run with it."""
    result = read_json(host, run.job_id, "result.json")
    if result is None and run.is_cancel_requested:  # it was killed before it could write
        cancel_unfinished(run)
        return
    if result is None:
        fail(run, "no_result", detail=_last_words(host, run.job_id, launch))
        return
    keep(run, result, read_requests(host, run.job_id))


def keep(run: Run, result: Mapping[str, Any], requests: bytes | None) -> bool:
    """Close the run with its result. Only a finished or gated run keeps numbers; every run keeps its counts and its
    raw result."""
    after = Run.State(state_after(result["exit_code"]))
    has_numbers = after in {Run.State.FINISHED, Run.State.INVALID}
    fields = reading.counts_of(result)
    if after == Run.State.FAILED:
        fields["reasons"] = [_reason("loadgen_failed", result["sentence"]), *fields["reasons"]]
    if has_numbers:
        fields |= reading.headlines_of(result)
    fields["workload_digest"] = result["workload_hash"]  # what was really sent, should the workload have changed since
    with transaction.atomic():
        won = move(run, after, sentence=_first_sentence(fields["reasons"], after, result), progress={}, **fields)
        if won:
            _store(run, result, requests, has_numbers=has_numbers)
    return won


def fail(run: Run, reason: str, *, detail: str = "") -> bool:
    """Close the run without numbers. `reason` is a code of `_SENTENCES`."""
    sentence = _SENTENCES[reason]()
    if reason == "engine_ended":
        detail = detail or _why_the_engine_ended(run.attempt)
    whole = f"{sentence} {detail}".strip()
    return move(
        run,
        Run.State.FAILED,
        sentence=whole,
        reasons=[_reason(reason, whole)],
        **_counts_so_far(run),
    )


def cancel_unfinished(run: Run) -> bool:
    """A run that leaves no result, because it never started or had to be killed, ends as asked for."""
    return move(run, Run.State.CANCELLED, **_counts_so_far(run))


def _counts_so_far(run: Run) -> dict[str, Any]:
    """What the last progress said; requests that nobody can account for were cancelled with the run."""
    ok, failed = int(run.progress.get("ok", 0)), int(run.progress.get("failed", 0))
    return {"ok": ok, "failed": failed, "cancelled": max(0, run.planned - ok - failed)}


def _store(run: Run, result: Mapping[str, Any], requests: bytes | None, *, has_numbers: bool) -> None:
    RunData.objects.create(
        run=run,
        series=reading.series_of(result) if result["metrics"] else {},
        requests=requests,
        result=dict(result),
    )
    if has_numbers:
        rows = reading.metric_rows(result)
        Metric.objects.bulk_create(
            Metric(run=run, definition=row.definition, statistic=row.statistic, value=row.value, n=row.n, unit=row.unit)
            for row in rows
        )


def _last_words(host: Host, job_id: str, launch: Mapping[str, Any]) -> str:
    """How the job ended, and the last line it wrote: the cause of a traceback."""
    ended = launch.get("exit") or {}
    how = ended.get("signal") or (
        _("exit code %(code)s") % {"code": ended["rc"]} if ended.get("rc") is not None else ""
    )
    try:
        request = {"launch_id": job_id, "name": "log", "offset": -LOG_TAIL_BYTES}
        lines = call_host(host, "read_file", request)["text"].split("\n")
    except HostRefused:  # its folder is gone
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return " ".join(part for part in (f"({how})" if how else "", last) if part).replace("\x00", "")


def _why_the_engine_ended(attempt: Attempt | None) -> str:
    if attempt is None:
        return ""
    attempt.refresh_from_db(fields=["failure"])
    return attempt.failure


def _first_sentence(reasons: list[dict[str, Any]], after: Run.State, result: Mapping[str, Any]) -> str:
    if after == Run.State.FINISHED:
        return str(result["sentence"])
    against = (each["sentence"] for each in reasons if each["severity"] == INVALID)
    return str(next(against, result["sentence"]))


def _reason(code: str, sentence: str) -> dict[str, str]:
    return {"code": code, "sentence": sentence, "severity": INVALID}


_SENTENCES = {
    "instance_removed": lambda: _("The instance is not there any more."),
    "instance_not_serving": lambda: _("The instance does not serve any more, so there was nothing to measure."),
    "engine_ended": lambda: _("The engine ended during the run, so there are no numbers."),
    "job_vanished": lambda: _("The load generator is gone from the host without a trace."),
    "start_refused": lambda: _("The host did not start the load generator."),
    "spec_refused": lambda: _("The run cannot be carried out as it is described."),
    "no_result": lambda: _("The load generator ended without a result."),
}
