"""Asking for a run."""

import secrets
from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.bench.models import Run, Workload
from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict
from controlplane.fleet.models import Instance, State

SEED_BITS = 31
"""Short enough to be read out and typed again."""


def request_run(*, instance: Instance, workload: Workload, note: str = "", seed: int | None = None, actor: str) -> Run:
    """Have the worker measure `instance` under `workload`; one run at a time, later ones wait for their turn.

    Without `seed` the run gets one of its own, so that no prompt repeats; give the same one to both arms of a
    comparison to send them the same prompts. Raises Conflict unless the instance is ready and wanted.
    """
    with transaction.atomic():
        fresh = _locked(instance.pk)
        _refuse_unless_serving(fresh)
        run = Run.objects.create(
            workload=workload,
            workload_digest=workload.digest,
            seed=secrets.randbits(SEED_BITS) if seed is None else seed,
            instance=fresh,
            config_version=fresh.config_version,
            config_digest=fresh.config_version.digest,
            engine_version=fresh.engine.version,
            engine_build=fresh.engine.build,
            host_id=fresh.host_id,
            job_id=f"run-{secrets.token_hex(8)}",
            planned=int(workload.spec.get("requests", 0)),
            note=note.strip(),
            created_by=actor,
        )
        events.record(
            "run.requested",
            actor=actor,
            subject=run,
            sentence=run.note,
            instance=fresh.name,
            workload=workload.name,
            seed=run.seed,
        )
        dispatch.after_commit("bench.advance", run_id=run.pk)
    return run


def measure_again(runs: Sequence[Run], *, actor: str) -> list[Run]:
    """Ask for one more run on the instance of each of `runs` (the newest of every side of a comparison), all with one
    fresh seed, so that they send the same prompts. Raises Conflict when one of the instances does not serve any more,
    and then asks for none."""
    seed = secrets.randbits(SEED_BITS)
    with transaction.atomic():
        return [_request_like(run, seed=seed, actor=actor) for run in runs]


def _request_like(run: Run, *, seed: int, actor: str) -> Run:
    if run.instance is None:
        raise Conflict(
            _("The instance that run %(number)s was measured on is gone.") % {"number": run.pk},
            remedy=_("Launch %(version)s again and benchmark it.") % {"version": run.config_version},
        )
    return request_run(instance=run.instance, workload=run.workload, note=run.note, seed=seed, actor=actor)


def _locked(instance_id: int) -> Instance:
    return (
        Instance.objects.select_for_update(of=("self",))
        .select_related("config_version__config", "engine")
        .get(pk=instance_id)
    )


def _refuse_unless_serving(instance: Instance) -> None:
    if instance.state == State.READY and instance.desired == Instance.Desired.RUNNING:
        return
    raise Conflict(
        _("%(instance)s is %(state)s, so there is nothing to measure.")
        % {"instance": instance, "state": instance.get_state_display().lower()}
        if instance.state != State.READY
        else _("%(instance)s is about to be stopped.") % {"instance": instance},
        remedy=_("Launch it and wait until it is ready."),
    )
