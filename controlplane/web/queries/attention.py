"""What needs somebody: failures, silence, reverted promotions, unusable numbers, better versions waiting."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, F, Model, OuterRef, Q, QuerySet, Subquery, Window
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Attempt, Deployment, Instance, State
from controlplane.inventory.models import Host
from controlplane.inventory.queries import is_blind
from controlplane.release.models import Promotion
from controlplane.web.queries.links import page_url

SHOWN_EACH = 5
"""At most this many of one kind, the newest: a hundred failures have few causes."""
FRESH = timedelta(days=3)
"""What concerns no deployment is old news after this long."""

_COUNT = Window(Count("pk"))
"""How many there are, told by each of the few that are read."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that waits for a person: what (a sentence), since when, where, and what to press there."""

    state: str
    subject: str
    sentence: str
    at: datetime | None
    url: str
    action: str


def needs(now: datetime | None = None) -> list[Need]:
    """Everything that waits, the most urgent kind first."""
    now = now or timezone.now()
    return [*_silent_hosts(now), *_failed_instances(now), *_bad_promotions(), *_newer_versions(), *_unusable_runs(now)]


def _silent_hosts(now: datetime) -> Iterator[Need]:
    silent = Host.objects.filter(state__in=[Host.State.UNREACHABLE, Host.State.REFUSED])
    newest = silent.only("name", "state", "state_since", "error").order_by(F("state_since").desc(nulls_last=True))
    if is_blind(now):
        sentence = _(
            "More than half of all SSH hosts fell silent within a minute: perhaps it is this machine that is cut off."
            " Until they answer, nothing is started, stopped or killed unless a person asks."
        )
        yield Need("warning", _("Cut off?"), sentence, None, page_url("inventory:host_list"), _("See the hosts"))
    shown = newest.annotate(count=_COUNT)[:SHOWN_EACH]
    for host in shown:
        sentence = host.error or _("The host does not answer.")
        yield _need(host.state, host, sentence, host.state_since, "inventory:host_detail", _("See the host"))
    if more := _left_out(shown):
        subject = ngettext("%(more)d more host", "%(more)d more hosts", more) % {"more": more}
        url = page_url("inventory:host_list") + "?sort=-state"
        yield Need(Host.State.UNREACHABLE, subject, "", None, url, _("See the hosts"))


def _failed_instances(now: datetime) -> Iterator[Need]:
    last = Attempt.objects.filter(instance=OuterRef("pk")).order_by("-number")
    failed = (
        Instance.objects.filter(Q(deployment__isnull=False) | Q(state_since__gte=now - FRESH))
        .filter(state=State.FAILED, desired=Instance.Desired.RUNNING)
        .annotate(failure=Subquery(last.values("failure")[:1]), count=_COUNT)
        .only("name", "state", "state_since", "reason")
        .order_by("-state_since")
    )
    shown = failed[:SHOWN_EACH]
    for one in shown:
        sentence = getattr(one, "failure", "") or one.reason or _("It ended without a known reason.")
        yield _need(one.state, one, sentence, one.state_since, "fleet:instance_detail", _("See why"))
    if more := _left_out(shown):
        subject = ngettext("%(more)d more instance", "%(more)d more instances", more) % {"more": more}
        url = page_url("fleet:instance_list") + "?state=failed"
        yield Need(State.FAILED, subject, "", None, url, _("See the instances"))


def _bad_promotions() -> Iterator[Need]:
    """Promotions that went wrong and that nobody followed up with another."""
    newer = Promotion.objects.filter(deployment=OuterRef("deployment"), pk__gt=OuterRef("pk"))
    bad = (
        Promotion.objects.filter(~Exists(newer), state__in=[Promotion.State.REVERTED, Promotion.State.FAILED])
        .select_related("environment", "config_version__config")
        .defer("config_version__toml", "config_version__content")
        .order_by("-id")
    )
    for one in bad[:SHOWN_EACH]:
        state = "failed" if one.state == Promotion.State.FAILED else "warning"
        sentence = one.reason or (
            _("Neither the new nor the old version serves.")
            if one.state == Promotion.State.FAILED
            else _("The new version did not come up; the old one serves again.")
        )
        url = page_url("release:environment_detail", one.environment)
        yield Need(state, str(one), sentence, one.state_since, url, _("See the environment"))


def _newer_versions() -> Iterator[Need]:
    """Enabled deployments for which a newer version of their config has a finished run."""
    measured = Run.objects.filter(config_version=OuterRef("pk"), state=Run.State.FINISHED)
    newest = (
        ConfigVersion.objects.filter(
            Exists(measured), config=OuterRef("config_version__config"), number__gt=OuterRef("config_version__number")
        )
        .order_by("-number")
        .values("number")
    )
    waiting = (
        Deployment.objects.filter(is_enabled=True)
        .annotate(newer=Subquery(newest[:1]))
        .filter(newer__isnull=False)
        .select_related("environment", "config_version")
        .defer("config_version__toml", "config_version__content")
        .order_by("-environment__rank", "name")
    )
    for one in waiting[:SHOWN_EACH]:
        sentence = _("Runs v%(old)d; v%(new)d is measured and not promoted.") % {
            "old": one.config_version.number,
            "new": one.newer,  # annotated above
        }
        url = page_url("release:environment_detail", one.environment)
        yield Need("open", str(one), sentence, None, url, _("Compare and promote"))


def _unusable_runs(now: datetime) -> Sequence[Need]:
    runs = (
        Run.objects.filter(state=Run.State.INVALID, state_since__gte=now - FRESH)
        .only("state", "state_since", "reasons")
        .order_by("-id")
    )
    return [
        _need(run.state, run, _first_reason(run), run.state_since, "bench:run_detail", _("See the run"))
        for run in runs[:SHOWN_EACH]
    ]


def _first_reason(run: Run) -> str:
    first = run.reasons[0] if run.reasons else None
    sentence = first.get("sentence", "") if isinstance(first, dict) else str(first or "")
    return sentence or _("Its numbers must not be used.")


def _left_out(shown: QuerySet[Any]) -> int:
    """How many are not among `shown`, whose rows carry `_COUNT`."""
    return shown[0].count - len(shown) if shown else 0


def _need(state: str, thing: Model, sentence: str, at: datetime | None, page: str, action: str) -> Need:
    return Need(state, str(thing), sentence, at, page_url(page, thing), action)
