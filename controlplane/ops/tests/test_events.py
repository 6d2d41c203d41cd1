"""The audit log: filtered, paged, exported, and the same over the API."""

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.accounts.models import User
from controlplane.core import events
from controlplane.core.models import Event
from controlplane.inventory.models import Host
from controlplane.ops import queries
from controlplane.ops.queries import EventFilter

URL = reverse("ops:event_list")


@pytest.fixture
def log(db: None) -> None:
    host = Host.objects.create(name="gpu-01", transport="local")
    events.record("host.added", actor="mira", subject=host)
    events.record("host.probed", actor="system", subject=host, sentence="Found 2 GPUs.")
    events.record("instance.failed", actor="system", sentence="Out of memory.", exit_code=1)


def names(**wanted: Any) -> list[str]:
    return [event.name for event in queries.events(EventFilter(**wanted))]


@pytest.mark.usefixtures("log")
def test_events_come_newest_first_and_each_filter_narrows() -> None:
    assert names() == ["instance.failed", "host.probed", "host.added"]
    assert names(q="gpus") == ["host.probed"]
    assert names(q="GPU-01") == ["host.probed", "host.added"]
    assert names(q="Instance failed") == ["instance.failed"]
    assert names(name="host.") == ["host.probed", "host.added"]
    assert names(name="host") == []
    assert names(actor="mira") == ["host.added"]
    assert names(subject_type="host", subject_id="0") == []


@pytest.mark.usefixtures("log")
def test_a_range_of_time_includes_its_start_and_not_its_end() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    Event.objects.update(at=at)
    assert len(names(since=at, until=at + timedelta(seconds=1))) == 3
    assert names(until=at) == []


@pytest.mark.usefixtures("log")
def test_the_kinds_are_those_that_occurred() -> None:
    assert queries.kinds() == ["host.added", "host.probed", "instance.failed"]


@pytest.mark.django_db
def test_without_events_there_are_no_kinds() -> None:
    assert queries.kinds() == []


def test_a_subject_without_a_page_has_no_address() -> None:
    assert queries.address_of("martian", 1) == ""
    assert queries.address_of("host", "") == ""


@pytest.mark.usefixtures("log")
def test_the_page_is_for_those_signed_in_and_whole_or_a_fragment(client_of: Callable[[str], Client]) -> None:
    assert client_of("outsider").get(URL).status_code == 302
    whole = client_of("viewer").get(URL).content.decode()
    assert "Out of memory." in whole
    assert '<span title="instance.failed">Instance failed</span>' in whole
    assert "exit code: 1" in whole
    assert "<html" in whole
    fragment = client_of("viewer").get(URL, {"q": "GPUs"}, headers={"HX-Request": "true"}).content.decode()
    assert fragment.lstrip().startswith('<div id="events"')
    assert "Out of memory." not in fragment


def test_an_empty_log_and_a_filter_that_finds_nothing_say_different_things(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    Event.objects.all().delete()
    assert "Nothing has happened yet" in client.get(URL).content.decode()
    assert "No event matches" in client.get(URL, {"q": "nothing"}).content.decode()


@pytest.mark.usefixtures("log")
def test_odd_input_is_told_and_never_a_fault(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    for query in ({"since": "yesterday"}, {"q": "a\0b"}, {"page": "x"}, {"q": "y" * 300}):
        assert client.get(URL, query).status_code == 200
    assert "Enter a valid date/time" in client.get(URL, {"since": "yesterday"}).content.decode()


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("moment", "status"), [("0058-07-19T13:13:21.543+19:46", 200), ("0001-01-01T00:00:00+12:00", 422)]
)
def test_moments_that_postgres_cannot_read_are_converted_or_refused(
    client_of: Callable[[str], Client], api_of: Callable[[str], Client], moment: str, status: int
) -> None:
    assert api_of("viewer").get("/api/v1/events", {"since": moment}).status_code == status
    page = client_of("viewer").get(URL, {"since": moment})
    assert page.status_code == 200
    assert ("between the years" in page.content.decode()) == (status == 422)


@pytest.mark.usefixtures("log")
def test_the_export_has_what_the_filter_has_and_runs_in_no_spreadsheet(client_of: Callable[[str], Client]) -> None:
    events.record("host.noted", actor="mira", sentence="=HYPERLINK(1)")
    answer = client_of("viewer").get(URL, {"format": "csv", "actor": "mira"})
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["name"] for row in rows] == ["host.noted", "host.added"]
    assert rows[0]["sentence"] == "'=HYPERLINK(1)"


@pytest.mark.usefixtures("log")
def test_the_api_filters_and_pages_alike(api_of: Callable[[str], Client], person: Callable[[str], User]) -> None:
    client = api_of("viewer")
    answer = client.get("/api/v1/events", {"name": "host."}).json()
    assert [one["name"] for one in answer["items"]] == ["host.probed", "host.added"]
    assert (answer["total"], answer["total_is_exact"]) == (2, True)
    assert answer["items"][0]["sentence"] == "Found 2 GPUs."
    assert client.get("/api/v1/events", {"q": "a\0b"}).status_code == 422
    assert client.get("/api/v1/events", {"since": "yesterday"}).status_code == 422
    assert api_of("outsider").get("/api/v1/events").status_code == 401


def test_the_number_of_queries_does_not_grow(
    client_of: Callable[[str], Client], django_assert_max_num_queries: Any
) -> None:
    client = client_of("viewer")
    host = Host.objects.create(name="gpu-01", transport="local")
    for _ in range(3):
        events.record("host.probed", actor="system", subject=host)
    with django_assert_max_num_queries(6) as few:
        client.get(URL)
    for _ in range(60):
        events.record("host.probed", actor="system", subject=host)
    with django_assert_max_num_queries(len(few.captured_queries)):
        client.get(URL)
