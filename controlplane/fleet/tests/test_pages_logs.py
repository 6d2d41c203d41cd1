"""The log of an attempt in the browser: numbered lines, only new ones, an end."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.fleet.models import Attempt, Instance, LogChunk
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of
from controlplane.fleet.views import attempts

ClientOf = Callable[[str], Client]


@pytest.fixture
def serving(world: FakeWorld) -> Attempt:
    instance = world.ready()
    attempt = attempt_of(instance)
    LogChunk.objects.filter(attempt=attempt).delete()
    text = "INFO 11-29 12:00:00 [a.py:1] one\nERROR 11-29 12:00:01 [a.py:2] <two>\n  frame of two\n"
    LogChunk.objects.create(attempt=attempt, offset=0, text=text, first_line_number=1)
    return attempt


def log(client: Client, attempt: Attempt, query: str = "") -> str:
    response = client.get(reverse("fleet:attempt_log", args=[attempt.pk]) + query)
    assert response.status_code == 200
    return response.content.decode()


def test_lines_have_numbers_levels_and_no_markup_of_their_own(serving: Attempt, client_of: ClientOf) -> None:
    content = log(client_of("viewer"), serving)
    assert f'id="line-{serving.pk}-2" data-number="2" data-level="error"' in content
    assert "&lt;two&gt;" in content
    assert content.count('class="log-line"') == 3


def test_only_new_lines_come_and_nothing_new_is_no_content(serving: Attempt, client_of: ClientOf) -> None:
    client = client_of("viewer")
    content = log(client, serving, "?after=2")
    assert content.count('class="log-line"') == 1
    assert "frame of two" in content
    assert "?after=3" in content
    assert client.get(reverse("fleet:attempt_log", args=[serving.pk]) + "?after=3").status_code == 204


def test_the_log_of_an_attempt_that_ended_ends(serving: Attempt, client_of: ClientOf) -> None:
    Attempt.objects.filter(pk=serving.pk).update(outcome=Attempt.Outcome.CRASHED)
    content = log(client_of("viewer"), serving)
    assert f'id="log-attempt-{serving.pk}-next"' in content
    assert "hx-get" not in content


def test_the_rest_of_a_long_log_is_fetched_at_once(
    serving: Attempt, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "KEPT_LINES", 2)
    Attempt.objects.filter(pk=serving.pk).update(outcome=Attempt.Outcome.CRASHED)
    content = log(client_of("viewer"), serving)
    assert "?after=2" in content
    assert 'hx-trigger="load, every 1s"' in content


def test_a_link_to_a_line_begins_before_it_and_marks_it(serving: Attempt, client_of: ClientOf) -> None:
    client = client_of("viewer")
    page = client.get(reverse("fleet:attempt_detail", args=[serving.pk]) + "?line=2").content.decode()
    assert "?after=0&amp;mark=2" in page
    assert log(client, serving, "?after=0&mark=2").count("data-marked") == 1


@pytest.mark.parametrize("after", ["-1", "x", "9" * 30, "%00", "²"])
def test_a_nonsense_place_means_from_the_beginning(serving: Attempt, client_of: ClientOf, after: str) -> None:
    assert log(client_of("viewer"), serving, f"?after={after}").count('class="log-line"') == 3


def test_the_whole_log_can_be_downloaded(serving: Attempt, client_of: ClientOf) -> None:
    response = client_of("viewer").get(reverse("fleet:attempt_log_download", args=[serving.pk]))
    assert response.content.decode().endswith("frame of two\n")
    name = Instance.objects.get().name
    assert f'filename="{name}-attempt-1.log"' in response["Content-Disposition"]
