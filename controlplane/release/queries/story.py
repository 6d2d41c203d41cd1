"""The steps of a promotion with their times: what happened, what is going on, what is still to come."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from controlplane.fleet.models import Instance, State, Transition
from controlplane.release.domain.replacement import Strategy
from controlplane.release.models import Promotion

Passages = Mapping[int, Sequence[Transition]]
"""Instance → its changes of state, oldest first."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step as `{% steps %}` shows it. `state`: done, running, waiting, skipped or failed; `seconds` it took."""

    name: str
    state: str
    seconds: float | None = None
    summary: str = ""
    detail: str = ""
    at: datetime | None = None


def passages_of(promotions: Iterable[Promotion]) -> Passages:
    """The changes of state of all their instances; one query."""
    ids = {pk for one in promotions for pk in (one.instance_id, one.replaces_id) if pk is not None}
    found: dict[int, list[Transition]] = defaultdict(list)
    for passage in Transition.objects.filter(instance__in=ids).order_by("id") if ids else ():
        found[passage.instance_id].append(passage)
    return found


def story_of(promotion: Promotion, passages: Passages) -> list[Step]:
    """The steps in the order in which this promotion takes them."""
    seen = _Seen(promotion, passages)
    new, old = _new(promotion, seen), _old(promotion, seen)
    order = [old, new] if promotion.strategy == Strategy.STOP_FIRST else [new, old]
    return [step for step in (_room(promotion), *order, _back(promotion, seen), _end(promotion)) if step is not None]


class _Seen:
    """When the instances of a promotion changed, while it was under way."""

    def __init__(self, promotion: Promotion, passages: Passages) -> None:
        self._promotion, self._passages = promotion, passages

    def first(self, instance: Instance | None, *states: State, after: datetime | None = None) -> datetime | None:
        start, end = after or self._promotion.created_at, self._promotion.ended_at
        for passage in self._passages.get(instance.pk, ()) if instance else ():
            if passage.after in states and passage.at >= start and (end is None or passage.at <= end):
                return passage.at
        return None


def _room(promotion: Promotion) -> Step | None:
    name = _("Room for both")
    if promotion.is_taken_over:
        return None
    if promotion.strategy == Strategy.START_FIRST:
        beside = promotion.replaces is not None
        return Step(
            name, "done", summary=_("There is: nothing is stopped before the new one serves.") if beside else ""
        )
    if promotion.strategy == Strategy.STOP_FIRST:
        return Step(name, "done", summary=_("There is not: the old one is stopped first, and comes back if need be."))
    if promotion.is_under_way:
        return Step(name, "running", summary=promotion.reason)
    return Step(name, "failed" if promotion.state == Promotion.State.FAILED else "skipped")


def _new(promotion: Promotion, seen: _Seen) -> Step:
    new, version = promotion.instance, promotion.config_version
    if promotion.is_taken_over:
        name = _("Take over %(instance)s") % {"instance": new or version}
        return Step(name, "done", summary=_("It ran already and was measured as it is."), at=promotion.created_at)
    name = _("Start %(version)s") % {"version": version}
    if promotion.launched_at is None:
        return Step(name, "waiting" if promotion.is_under_way else "skipped")
    ready_at = seen.first(new, State.READY)
    if ready_at:
        return Step(name, "done", _seconds(promotion.launched_at, ready_at), _where(new), at=ready_at)
    if new is not None and new.is_live and promotion.is_under_way:
        return Step(name, "running", summary=f"{_where(new)} {new.reason}".strip(), at=promotion.launched_at)
    state = "skipped" if promotion.is_abort_requested else "failed"
    failed_at = seen.first(new, State.FAILED, State.STOPPED)
    detail = new.reason if new is not None and state == "failed" else ""
    return Step(name, state, _seconds(promotion.launched_at, failed_at), detail=detail, at=failed_at)


def _old(promotion: Promotion, seen: _Seen) -> Step | None:
    old = promotion.replaces
    if old is None:
        return None
    name = _("Drain and stop %(instance)s") % {"instance": old}
    asked_at = seen.first(old, State.DRAINING)
    gone_at = seen.first(old, State.STOPPED, State.FAILED)
    if gone_at:
        return Step(name, "done", _seconds(asked_at, gone_at), at=gone_at)
    if asked_at or (promotion.is_under_way and old.desired == Instance.Desired.STOPPED):
        return Step(name, "running" if promotion.is_under_way else "failed", summary=old.reason, at=asked_at)
    return Step(name, "waiting" if promotion.is_under_way and not promotion.is_abort_requested else "skipped")


def _back(promotion: Promotion, seen: _Seen) -> Step | None:
    """Only where the way back was taken."""
    old = promotion.replaces
    if not promotion.is_reverting or old is None:
        return None
    name = _("Start %(instance)s again") % {"instance": old}
    gone_at = seen.first(old, State.STOPPED, State.FAILED)
    ready_at = seen.first(old, State.READY, after=gone_at)
    if ready_at:
        return Step(name, "done", _seconds(gone_at, ready_at), at=ready_at)
    return Step(name, "running" if promotion.is_under_way else "failed", summary=old.reason, at=gone_at)


def _end(promotion: Promotion) -> Step:
    took_s = _seconds(promotion.created_at, promotion.ended_at)
    if promotion.went_live:
        return Step(_("Live"), "done", took_s, at=promotion.ended_at)
    if promotion.state == Promotion.State.REVERTED:
        return Step(_("As before"), "done", took_s, at=promotion.ended_at)
    if promotion.state == Promotion.State.FAILED:
        return Step(_("Failed"), "failed", took_s, at=promotion.ended_at)
    return Step(_("As before") if promotion.is_abort_requested or promotion.is_reverting else _("Live"), "waiting")


def _where(instance: Instance | None) -> str:
    if instance is None:
        return ""
    return _("%(instance)s on port %(port)s.") % {"instance": instance, "port": instance.port}


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
