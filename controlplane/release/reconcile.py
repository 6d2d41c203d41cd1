"""Carrying a promotion out: look where it stands, ask `domain.replacement` for the next move, make it.

Every move only writes rows; the fleet's own reconciler starts and stops what they ask for. So a move, and the note that
it was made, are one transaction under a lock on the promotion: a worker that dies in between has done nothing, and two
workers never make one move twice. docs/internals/release.md tells the whole story.
"""

from datetime import datetime

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import events
from controlplane.core.errors import Problem
from controlplane.fleet.domain.placing import gpus_needed
from controlplane.fleet.models import LIVE_STATES, Deployment, Instance, Preflight
from controlplane.fleet.services import relaunch, request_launch, request_preflight, request_stop
from controlplane.fleet.services.assigning import unassign
from controlplane.inventory.models import Accelerator, Engine
from controlplane.release.domain.replacement import Move, Strategy, next_move
from controlplane.release.domain.room import Gpus, strategy_of
from controlplane.release.models import UNDER_WAY, Promotion

ASK_AGAIN_S = 15.0
"""How soon a host that could not be asked whether there is room is asked again."""


def under_way() -> list[int]:
    """Promotions that are not over."""
    return list(Promotion.objects.filter(state__in=UNDER_WAY).order_by("id").values_list("pk", flat=True))


def advance(promotion_id: int, *, now: datetime | None = None) -> None:
    """Make moves until one has to be waited for."""
    for _step in range(len(Move)):
        with transaction.atomic():
            promotion = _locked(promotion_id)
            if promotion is None or not _make(promotion, now or timezone.now()):
                return


def _locked(promotion_id: int) -> Promotion | None:
    """The promotion, ours until the transaction ends; None when it is over or another worker is at it.

    It comes with what every decision reads. What only a move reads is read then: with all of it, Postgres spent 10 ms
    on planning twelve joins at every look.
    """
    return (
        Promotion.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("instance", "replaces", "preflight")
        .filter(pk=promotion_id, state__in=UNDER_WAY)
        .first()
    )


def _make(promotion: Promotion, now: datetime) -> bool:
    """Make one move; True when the next can be made at once."""
    move = next_move(promotion.standing(now))
    if move is Move.CHECK:
        return _check(promotion, now)
    if move is not Move.WAIT:
        _MOVES[move](promotion)
    return False


# -- Room ------------------------------------------------------------------------------------------------------------


def _check(promotion: Promotion, now: datetime) -> bool:
    """Is there room for both? The preflight of the new version, made while the old one runs, knows."""
    preflight = promotion.preflight
    if preflight is None:
        _ask_for_room(promotion)
        return False
    if preflight.state == Preflight.State.QUEUED:
        return False
    if preflight.state == Preflight.State.FAILED:  # the host could not be asked: that says nothing about room
        is_due = (now - preflight.created_at).total_seconds() >= ASK_AGAIN_S
        sentence = _("%(host)s cannot be asked whether there is room; it is asked again.")
        _update(
            promotion,
            reason=f"{sentence % {'host': promotion.engine.host}} {preflight.error}",
            preflight=None if is_due else preflight,
        )
        return is_due
    return _choose_strategy(promotion, preflight)


def _ask_for_room(promotion: Promotion) -> None:
    gpus = _gpus(promotion)
    needed = gpus_needed(promotion.config_version.content)
    try:
        preflight = request_preflight(
            config_version=promotion.config_version,
            engine=promotion.engine,
            gpu_uuids=[] if _is_cpu(promotion.engine) else gpus.for_new(needed, promotion.gpu_uuids),
            actor=promotion.created_by,
        )
    except Problem as problem:
        _nothing_changed(promotion, f"{problem.sentence} {problem.remedy}".strip())
    else:
        _update(promotion, preflight=preflight, reason=_("It is checked whether there is room for both."))


def _choose_strategy(promotion: Promotion, preflight: Preflight) -> bool:
    old, is_cpu = promotion.replaces, _is_cpu(promotion.engine)
    is_beside_old = old is not None and old.is_live and old.host_id == promotion.engine.host_id
    failed = [check for check in preflight.checks if check["outcome"] == "fail"]
    strategy = strategy_of(
        [check["code"] for check in failed],
        is_cpu=is_cpu,
        is_freed_by_old=is_beside_old and (is_cpu or _gpus(promotion).are_freed_by_old(preflight.gpu_uuids)),
    )
    if strategy is Strategy.UNDECIDED:
        _nothing_changed(promotion, f"{failed[0]['sentence']} {failed[0]['remedy']}".strip())
        return False
    if strategy is Strategy.STOP_FIRST:
        reason = _("There is no room for both (%(why)s) The old one is stopped first.") % {"why": failed[0]["sentence"]}
    elif old is not None and old.is_live:
        reason = _("There is room for both: the new one is started beside the old one.")
    else:
        reason = _("There is room: it is started.")
    _update(promotion, strategy=strategy, state=Promotion.State.ROLLING, reason=reason)
    return True


def _gpus(promotion: Promotion) -> Gpus:
    host_id, old = promotion.engine.host_id, promotion.replaces
    known = Accelerator.objects.filter(host=host_id, missing_since=None).order_by("index")
    live = Instance.objects.filter(host=host_id, state__in=LIVE_STATES)
    others = live.exclude(pk=old.pk) if old else live
    return Gpus(
        on_host=list(known.values_list("uuid", flat=True)),
        of_old=set(old.gpu_uuids) if old and old.is_live and old.host_id == host_id else set(),
        of_others={uuid for uuids in others.values_list("gpu_uuids", flat=True) for uuid in uuids},
    )


def _is_cpu(engine: Engine) -> bool:
    return engine.device == Engine.Device.CPU


# -- Moves -----------------------------------------------------------------------------------------------------------


def _launch_new(promotion: Promotion) -> None:
    """At the place that was checked. Its own launch is checked again, so what changed meanwhile is not overrun."""
    try:
        instance = request_launch(
            config_version=promotion.config_version,
            engine=promotion.engine,
            gpu_uuids=promotion.preflight.gpu_uuids if promotion.preflight else (promotion.gpu_uuids or None),
            deployment=promotion.deployment,
            actor=promotion.created_by,
        )
    except Problem as problem:  # for example maintenance, begun since: the same as one that does not come up
        _update(promotion, launched_at=timezone.now(), reason=f"{problem.sentence} {problem.remedy}".strip())
    else:
        _update(promotion, instance=instance, launched_at=timezone.now())


def _stop_old(promotion: Promotion) -> None:
    if promotion.replaces is not None:
        why = _("%(new)s takes its place.") % {"new": promotion.config_version}
        request_stop(promotion.replaces, actor=promotion.created_by, why=why)


def _stop_new(promotion: Promotion) -> None:
    if promotion.instance is not None:
        request_stop(promotion.instance, actor=promotion.created_by, why=_("Its promotion is given up."))


def _relaunch_old(promotion: Promotion) -> None:
    """The old version again, at its old place. When even that is refused, nothing more can be done here."""
    old = promotion.replaces
    if old is None:
        return
    try:
        relaunch(old, actor=promotion.created_by)
    except Problem as problem:
        _fail(promotion, why=f"{old}: {problem.sentence}")
    else:
        said = _("%(old)s is started again.") % {"old": old}
        _update(promotion, is_reverting=True, reason=f"{_why_new_failed(promotion)} {said}".strip())


def _finish(promotion: Promotion) -> None:
    new = promotion.instance
    if new is None:
        return
    Deployment.objects.filter(pk=promotion.deployment_id).update(
        config_version=promotion.config_version,
        engine=promotion.engine,
        host=promotion.engine.host,
        gpu_uuids=new.gpu_uuids,
        is_enabled=True,
        updated_at=timezone.now(),
    )
    Promotion.objects.filter(deployment=promotion.deployment, state=Promotion.State.LIVE).update(
        state=Promotion.State.SUPERSEDED, state_since=timezone.now()
    )
    _leave(*promotion.deployment.instances.exclude(pk=new.pk))
    _end(promotion, Promotion.State.LIVE, _("It serves."))


def _revert(promotion: Promotion) -> None:
    old = promotion.replaces
    _leave(promotion.instance)
    if promotion.is_abort_requested:
        what = _("%(old)s serves as before.") % {"old": old} if old else _("Nothing serves, as before.")
        _end(promotion, Promotion.State.REVERTED, _("Given up.") + f" {what}")
    else:
        what = _("The new one did not come up; %(old)s serves.") % {"old": old}
        _end(promotion, Promotion.State.REVERTED, f"{what} {_why_new_failed(promotion)}".strip())


def _fail(promotion: Promotion, *, why: str = "") -> None:
    old = promotion.replaces
    if old is None:
        sentence = _("It did not come up, and nothing served before.")
    else:
        _leave(promotion.instance)
        sentence = _("Neither the new nor the old version serves.")
        why = why or f"{old}: {old.reason}"
    said = " ".join(filter(None, [sentence, _why_new_failed(promotion), why]))
    _end(promotion, Promotion.State.FAILED, said)


def _why_new_failed(promotion: Promotion) -> str:
    new = promotion.instance
    return f"{new}: {new.reason}" if new is not None and not new.is_live else "" if new else promotion.reason


def _nothing_changed(promotion: Promotion, why: str) -> None:
    _end(promotion, Promotion.State.FAILED, _("Nothing was changed.") + f" {why}")


def _leave(*instances: Instance | None) -> None:
    """They serve the environment no more: its pages show only what does, and nothing starts them again."""
    for instance in instances:
        if instance is not None:
            unassign(instance, actor=events.SYSTEM)


def _end(promotion: Promotion, state: Promotion.State, reason: str) -> None:
    _update(promotion, state=state, reason=reason, ended_at=timezone.now())
    events.record(f"promotion.{_VERB_OF[state]}", actor=events.SYSTEM, subject=promotion, sentence=reason)


def _update(promotion: Promotion, **values: object) -> None:
    if "state" in values and values["state"] != promotion.state:
        values["state_since"] = timezone.now()
    for name, value in values.items():
        setattr(promotion, name, value)
    promotion.save(update_fields=list(values))


_MOVES = {
    Move.LAUNCH_NEW: _launch_new,
    Move.STOP_OLD: _stop_old,
    Move.STOP_NEW: _stop_new,
    Move.RELAUNCH_OLD: _relaunch_old,
    Move.FINISH: _finish,
    Move.REVERT: _revert,
    Move.FAIL: _fail,
}
_VERB_OF = {
    Promotion.State.LIVE: "finished",
    Promotion.State.REVERTED: "reverted",
    Promotion.State.FAILED: "failed",
}
