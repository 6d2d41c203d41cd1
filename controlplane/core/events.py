"""The audit log. Every service that changes something records one event in its own transaction."""

from typing import Any

from django.db import connection
from django.db.models import Model

from controlplane.core.models import Event, as_json

SYSTEM = "system"
"""The actor of what no person or token asked for: ticks, reconcilers."""


def record(name: str, *, actor: str, subject: Model | None = None, sentence: str = "", **data: Any) -> Event:
    """Write the event `name` about `subject`. `sentence` is for people, `data` for programs; neither holds a secret."""
    event = Event.objects.create(
        name=name,
        actor=actor,
        subject_type=subject._meta.model_name or "" if subject is not None else "",
        subject_id=str(subject.pk) if subject is not None else "",
        subject_label=str(subject)[:200] if subject is not None else "",
        sentence=sentence,
        data=as_json(data),
    )
    announce("event", event.pk)
    return event


def announce(channel: str, payload: object) -> None:
    """NOTIFY listeners; delivered when the transaction commits, dropped when it does not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [f"controlplane_{channel}", str(payload)])
