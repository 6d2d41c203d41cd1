"""Reads: the audit log, and who uses which secret."""

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.urls import NoReverseMatch, reverse

from controlplane.configs.models import ConfigVersion
from controlplane.core.event_words import names_saying
from controlplane.core.models import Event, Secret
from controlplane.inventory.models import Host
from controlplane.ops.domain.subjects import SUBJECT_PAGES

REFERENCE_IN_JSON = re.compile(r'"secret:([a-z0-9][a-z0-9_-]*)"')


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What the list of events is narrowed to; empty means all. `since` is included, `until` is not."""

    q: str = ""
    name: str = ""
    actor: str = ""
    subject_type: str = ""
    subject_id: str = ""
    since: datetime | None = None
    until: datetime | None = None


def events(wanted: EventFilter) -> QuerySet[Event]:
    """Matching events, newest first. `name` ending in a dot means all of that noun: "instance."."""
    found = Event.objects.order_by("-id")
    if wanted.q:
        text = wanted.q
        in_words = Q(name__icontains=text) | Q(name__in=names_saying(text))
        found = found.filter(Q(sentence__icontains=text) | Q(subject_label__icontains=text) | in_words)
    if wanted.name:
        found = (
            found.filter(name__startswith=wanted.name) if wanted.name.endswith(".") else found.filter(name=wanted.name)
        )
    if wanted.actor:
        found = found.filter(actor=wanted.actor)
    if wanted.subject_type:
        found = found.filter(subject_type=wanted.subject_type)
    if wanted.subject_id:
        found = found.filter(subject_id=wanted.subject_id)
    if wanted.since:
        found = found.filter(at__gte=wanted.since)
    if wanted.until:
        found = found.filter(at__lt=wanted.until)
    return found


def kinds() -> list[str]:
    """Names of events that have occurred. A loose index scan: its cost grows with the kinds, not with the events."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH RECURSIVE kind AS (
                (SELECT name FROM core_event ORDER BY name LIMIT 1)
                UNION ALL
                SELECT (SELECT name FROM core_event WHERE name > kind.name ORDER BY name LIMIT 1)
                FROM kind WHERE kind.name IS NOT NULL
            )
            SELECT name FROM kind WHERE name IS NOT NULL
            """
        )
        return [row[0] for row in cursor.fetchall()]


def address_of(subject_type: str, subject_id: object) -> str:
    """The page of a thing, "" where there is none. Says nothing about whether the thing still exists."""
    name = SUBJECT_PAGES.get(subject_type)
    if not name or subject_id in {None, ""}:
        return ""
    try:
        return reverse(name, args=[subject_id])
    except NoReverseMatch:
        return ""


@dataclass(frozen=True, slots=True)
class Use:
    """One thing that refers to a secret."""

    label: str
    url: str


def secrets_with_uses() -> list[tuple[Secret, list[Use]]]:
    """Every secret (without its text) and who refers to it, in three queries."""
    uses = _uses_by_name()
    return [(secret, uses.get(secret.name, [])) for secret in Secret.objects.defer("sealed")]


def uses_of(secret: Secret) -> list[Use]:
    return _uses_by_name().get(secret.name, [])


def _uses_by_name() -> dict[str, list[Use]]:
    uses: dict[str, list[Use]] = defaultdict(list)
    for host in Host.objects.filter(ssh_key__isnull=False).select_related("ssh_key").only("name", "ssh_key__name"):
        uses[host.ssh_key.name].append(Use(host.name, address_of("host", host.pk)))  # type: ignore[union-attr]
    for version, text in _versions_with_references():
        for name in sorted(set(REFERENCE_IN_JSON.findall(text))):
            uses[name].append(Use(str(version), address_of("configversion", version.pk)))
    return uses


def _versions_with_references() -> list[tuple[ConfigVersion, str]]:
    """Versions whose content names a secret, each with that content as text."""
    found: Any = (
        ConfigVersion.objects.annotate(text=Cast("content", TextField()))
        .filter(text__contains='"secret:')
        .select_related("config")
        .only("number", "config__name")
    )
    return [(version, version.text) for version in found]
