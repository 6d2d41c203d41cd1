"""Asking for a version to become what an environment runs. The worker carries it out, move by move."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict, Invalid
from controlplane.fleet.models import Deployment, Environment, Instance
from controlplane.fleet.services import placement
from controlplane.fleet.services.assigning import assign
from controlplane.inventory.models import Engine
from controlplane.release import queries
from controlplane.release.domain.replacement import Strategy
from controlplane.release.models import WENT_LIVE, Promotion


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to serve where, on which evidence. `gpu_uuids` empty: free ones, else those of what serves now.
    `instance`: a ready one of that very version and engine, which is taken over instead of launching another."""

    config_version: ConfigVersion
    engine: Engine
    gpu_uuids: Sequence[str] = ()
    instance: Instance | None = None
    runs: Sequence[Run] = ()
    why: str = ""
    is_rollback: bool = field(default=False)


def promote(
    *,
    environment: Environment,
    config_version: ConfigVersion,
    engine: Engine,
    gpu_uuids: Sequence[str] = (),
    instance: Instance | None = None,
    runs: Sequence[Run] = (),
    why: str = "",
    actor: str,
) -> Promotion:
    """Have `environment` run `config_version` on `engine`; `runs` are the evidence, `why` the reason.

    Raises Invalid when runs are of another config or not valid, when there is neither evidence nor a reason, or the
    place does not exist; Conflict when a promotion of this config is under way there, the version serves there already,
    or the host takes nothing.
    """
    wish = Wish(config_version, engine, tuple(gpu_uuids), instance, tuple(runs), why.strip())
    _check_evidence(wish)
    _check_place(wish)
    with transaction.atomic():
        deployment = _deployment(environment, wish)
        serving = queries.serving(deployment)
        if serving is not None and _is_same(serving, wish):
            raise Conflict(
                _("%(version)s serves %(environment)s already.")
                % {"version": config_version, "environment": environment},
                remedy=_("Choose another version or another place."),
            )
        return _open(deployment, wish, serving, actor=actor)


def roll_back(deployment: Deployment, *, why: str = "", actor: str) -> Promotion:
    """Bring back what served before, on the engine where it did, with the evidence it had then: the version before the
    current one, or the last one when nothing serves. It need not get the same GPUs: going back must work when others
    have them. Raises Conflict when there is none, a promotion is under way, or the host takes nothing."""
    with transaction.atomic():
        deployment = Deployment.objects.select_for_update().select_related("environment").get(pk=deployment.pk)
        back = queries.way_back(deployment)
        if back is None:
            raise Conflict(
                _("Nothing served as %(deployment)s before.") % {"deployment": deployment},
                remedy=_("Promote the version that you want."),
            )
        wish = Wish(
            back.to.config_version,
            back.to.engine,
            why=why.strip() or _("Back to what served before."),
            runs=tuple(back.to.runs.all()),
            is_rollback=True,
        )
        _check_place(wish)
        return _open(deployment, wish, queries.serving(deployment), actor=actor)


def abort(promotion: Promotion, *, actor: str) -> None:
    """Give up: the new instance is stopped, what ran before serves (again). Raises Conflict when it is over, or when
    the new one serves already in place of the old one."""
    with transaction.atomic():
        fresh = Promotion.objects.select_for_update(of=("self",)).select_related("instance", "replaces")
        promotion = fresh.get(pk=promotion.pk)
        if not promotion.is_under_way:
            raise Conflict(_("This promotion is over: %(state)s.") % {"state": promotion.get_state_display().lower()})
        if promotion.has_changed_over:
            raise Conflict(
                _("The new version serves already; giving up now would drop what it serves."),
                remedy=_("Wait until it is live, then go back."),
            )
        if not promotion.is_abort_requested:
            Promotion.objects.filter(pk=promotion.pk).update(is_abort_requested=True)
            events.record("promotion.abort_requested", actor=actor, subject=promotion)
        dispatch.after_commit("release.advance_one", promotion_id=promotion.pk)


def _check_evidence(wish: Wish) -> None:
    if not wish.runs and not wish.why:
        raise _invalid(
            "why",
            _("There is neither evidence nor a reason."),
            _("Choose runs that measured this version, or write down why it is promoted without any."),
        )
    for run in wish.runs:
        if run.config_digest != wish.config_version.digest:
            raise _invalid(
                "runs",
                _("Run %(run)s measured another config than %(version)s.")
                % {"run": run.pk, "version": wish.config_version},
                _("Choose runs of this version."),
            )
        if run.state != Run.State.FINISHED:
            raise _invalid(
                "runs",
                _("Run %(run)s is %(state)s and proves nothing.")
                % {"run": run.pk, "state": run.get_state_display().lower()},
                _("Choose finished, valid runs."),
            )


def _check_place(wish: Wish) -> None:
    """Refuse at once what cannot work; what only the host knows is checked by the worker."""
    instance = wish.instance
    if instance is None:
        placement.refuse_unusable(wish.engine.host, wish.engine)
        if wish.gpu_uuids:
            placement.gpus_for(wish.config_version, wish.engine, wish.gpu_uuids)
    elif instance.config_version_id != wish.config_version.pk or instance.engine_id != wish.engine.pk:
        raise _invalid(
            "instance",
            _("%(instance)s does not run %(version)s on this engine.")
            % {"instance": instance, "version": wish.config_version},
            _("Choose an instance of that version, or none: then one is launched."),
        )


def _deployment(environment: Environment, wish: Wish) -> Deployment:
    """The deployment, locked. A new one is not in service before its first version serves."""
    locked = Deployment.objects.select_for_update(of=("self",)).select_related("environment", "config_version")
    deployment, _is_new = locked.get_or_create(
        environment=environment,
        name=wish.config_version.config.name,
        defaults={
            "config_version": wish.config_version,
            "host_id": wish.engine.host_id,
            "engine": wish.engine,
            "gpu_uuids": list(wish.gpu_uuids),
            "is_enabled": False,
        },
    )
    return deployment


def _is_same(serving: Instance, wish: Wish) -> bool:
    is_same_place = serving.engine_id == wish.engine.pk and (
        not wish.gpu_uuids or sorted(wish.gpu_uuids) == sorted(serving.gpu_uuids)
    )
    return serving.config_version_id == wish.config_version.pk and is_same_place and wish.instance is None


def _open(deployment: Deployment, wish: Wish, replaces: Instance | None, *, actor: str) -> Promotion:
    last = deployment.promotions.filter(state__in=WENT_LIVE).order_by("-id").first()
    try:
        with transaction.atomic():
            promotion = Promotion.objects.create(
                environment=deployment.environment,
                deployment=deployment,
                config_version=wish.config_version,
                previous_version_id=last.config_version_id if last else None,
                engine=wish.engine,
                gpu_uuids=list(wish.gpu_uuids),
                instance=wish.instance,
                is_taken_over=wish.instance is not None,
                strategy=Strategy.START_FIRST if wish.instance else Strategy.UNDECIDED,
                replaces=replaces,
                is_rollback=wish.is_rollback,
                why=wish.why,
                evidence_digest=wish.runs[0].config_digest if wish.runs else "",
                evidence_engine_build=wish.runs[0].engine_build if wish.runs else "",
                reason=_("Waiting for a worker."),
                created_by=actor,
            )
    except IntegrityError:
        raise Conflict(
            _("A promotion of %(deployment)s is under way.") % {"deployment": deployment},
            code="promotion_under_way",
            remedy=_("Wait until it is over, or abort it."),
        ) from None
    if wish.instance is not None:
        assign(wish.instance, deployment, actor=actor)
        Promotion.objects.filter(pk=promotion.pk).update(launched_at=timezone.now())
    promotion.runs.set(wish.runs)
    _record(promotion, wish, actor=actor)
    return promotion


def _record(promotion: Promotion, wish: Wish, *, actor: str) -> None:
    events.record(
        "promotion.rolled_back" if wish.is_rollback else "promotion.requested",
        actor=actor,
        subject=promotion,
        sentence=wish.why,
        environment=promotion.environment.name,
        version=str(wish.config_version),
        runs=[run.pk for run in wish.runs],
    )
    dispatch.after_commit("release.advance_one", promotion_id=promotion.pk)


def _invalid(field: str, sentence: str, remedy: str) -> Invalid:
    fault = {"field": field, "where": field, "message": sentence, "remedy": remedy}
    return Invalid(sentence, remedy=remedy, extra={"problems": [fault]})
