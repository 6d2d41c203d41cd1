"""What happens with a change: its event, its notification, the work it starts."""

import dataclasses
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest
from django.db import connection, transaction
from django.test import override_settings

from controlplane.core import dispatch, events
from controlplane.core.models import Event, Secret, as_json


@dataclasses.dataclass
class Shape:
    size: int


@pytest.mark.django_db
def test_an_event_names_its_subject_so_that_it_outlives_it() -> None:
    secret = Secret.objects.create(name="hub", kind="api_key", sealed=b"")
    events.record("secret.stored", actor="mira", subject=secret, sentence="Stored.", attempts=3)
    pk = secret.pk
    secret.delete()
    event = Event.objects.get()
    assert (event.subject_type, event.subject_id, event.subject_label) == ("secret", str(pk), "secret:hub")
    assert (event.actor, event.sentence, event.data) == ("mira", "Stored.", {"attempts": 3})
    assert str(event) == "secret.stored secret:hub"


@pytest.mark.django_db
def test_an_event_without_a_subject_has_empty_names() -> None:
    event = events.record("stack.started", actor=events.SYSTEM)
    assert (event.subject_type, event.subject_id, event.subject_label) == ("", "", "")


@pytest.mark.django_db
def test_a_label_is_cut_to_its_column() -> None:
    long = Event(pk=1, name="x" * 80, subject_label="y" * 200)
    event = events.record("event.noted", actor="mira", subject=long)
    assert len(event.subject_label) == 200


def test_data_becomes_what_json_knows() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    value = as_json({1: (1, 2), "set": {3}, "at": at, "none": None, "deep": [{"x": 1.5}], "shape": Shape(2)})
    assert json.loads(json.dumps(value)) == value
    assert value["1"] == [1, 2]
    assert value["at"] == str(at)
    assert value["none"] is None


@pytest.mark.django_db(transaction=True)
def test_a_notification_comes_with_the_commit_and_not_without() -> None:
    settings = connection.get_connection_params()
    listening = {key: settings[key] for key in ("host", "port", "user", "password", "dbname") if settings.get(key)}
    with psycopg.connect(**listening, autocommit=True) as listener:
        listener.execute("LISTEN controlplane_event")
        with transaction.atomic():
            events.record("lost.thing", actor="test")
            transaction.set_rollback(True)
        event = events.record("kept.thing", actor="test")
        heard = [one.payload for one in listener.notifies(timeout=5, stop_after=1)]
    assert heard == [str(event.pk)]


@pytest.mark.django_db(transaction=True)
def test_work_is_sent_after_the_commit_and_never_for_what_was_undone() -> None:
    sent = _queue()
    with transaction.atomic():
        dispatch.after_commit("fleet.launch", attempt_id=1)
        transaction.set_rollback(True)
    with transaction.atomic():
        dispatch.after_commit("fleet.launch", attempt_id=2)
        assert sent() == []
    assert sent() == [("fleet.launch", {"attempt_id": 2})]


@pytest.mark.slow  # the Redis client tries for 6 s
@pytest.mark.django_db(transaction=True)
@override_settings(CELERY_BROKER_URL="redis://127.0.0.1:1/0")
def test_a_broker_that_is_down_is_a_warning_and_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    dispatch._sender.cache_clear()
    try:
        with caplog.at_level(logging.WARNING), transaction.atomic():
            dispatch.after_commit("fleet.launch", attempt_id=1)
            dispatch.after_commit("fleet.observe", host_id=1)
    finally:
        dispatch._sender.cache_clear()
    assert "fleet.launch waits for the next tick" in caplog.text
    assert "fleet.observe" not in caplog.text  # not tried again at once: a page would wait for every single one


def _queue() -> Callable[[], list[tuple[str, dict[str, int]]]]:
    """Reads what lies in the in-memory broker of the tests; each call takes what is there."""
    dispatch._sender.cache_clear()
    sender = dispatch._sender().client

    def taken() -> list[tuple[str, dict[str, int]]]:
        found = []
        with sender.connection_for_read() as link:
            queue = link.SimpleQueue("controlplane")
            while queue.qsize():
                message = queue.get_nowait()
                message.ack()
                found.append((message.headers["task"], message.payload[1]))
        return found

    return taken
