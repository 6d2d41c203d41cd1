"""The overview: everything that should serve, how well, and what needs somebody."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from controlplane.bench.models import Run
from controlplane.fleet.models import Instance, State
from controlplane.inventory.models import Host
from controlplane.release.models import Promotion
from controlplane.web import queries
from controlplane.web.tests import worlds

URL = reverse("web:overview")


def test_an_empty_installation_shows_the_way_and_what_comes_first(client_of: Callable[[str], Client]) -> None:
    text = client_of("admin").get(URL).content.decode()
    assert "Nothing is promoted yet" in text
    assert "From a machine to a promoted config" in text


def test_outsiders_are_led_to_the_login_page(client_of: Callable[[str], Client]) -> None:
    assert client_of("outsider").get(URL).status_code == 302


def test_what_serves_is_counted_and_summed(client_of: Callable[[str], Client]) -> None:
    here = worlds.host()
    deployed = worlds.deployment(on=here)
    for number in range(2):
        metrics = {"running": 2, "waiting": 1, "kv_usage": 0.2 * (number + 1), "output_throughput": 206.0}
        worlds.instance(f"chat-{number}", on=here, of=deployed, metrics=metrics)
    text = client_of("viewer").get(URL).content.decode()
    assert "1 of 1 production models serving" in text
    assert "412 tok/s" in text
    row = queries.overview().lanes[0].rows[0]
    assert (row.running, row.waiting, row.kv_share, row.ready) == (4, 2, 0.4, 2)


def test_what_does_not_serve_is_named_with_its_reason(client_of: Callable[[str], Client]) -> None:
    here = worlds.host()
    worlds.instance("chat-0", on=here, of=worlds.deployment(on=here), state=State.FAILED, reason="Out of memory.")
    text = client_of("viewer").get(URL).content.decode()
    assert "chat in production is not serving" in text
    assert "Out of memory." in text


@pytest.mark.django_db
def test_a_deployment_whose_hosts_are_all_silent_is_not_called_serving() -> None:
    here = worlds.host()
    worlds.instance("chat-0", on=here, of=worlds.deployment(on=here), is_host_silent=True)
    assert queries.overview().headline.kind == "trouble"


@pytest.mark.django_db
def test_stopped_on_purpose_is_no_square_and_no_need() -> None:
    here = worlds.host()
    deployed = worlds.deployment(on=here)
    worlds.instance("chat-0", on=here, of=deployed)
    worlds.instance("chat-1", on=here, of=deployed, state=State.FAILED, desired=Instance.Desired.STOPPED)
    seen = queries.overview()
    assert [square.name for square in seen.lanes[0].rows[0].squares] == ["chat-0"]
    assert seen.needs == []


@pytest.mark.django_db
def test_what_needs_somebody_is_listed_with_the_urgent_first() -> None:
    here, silent = worlds.host(), worlds.host("gpu-02", state=Host.State.UNREACHABLE)
    deployed = worlds.deployment(on=here)
    worlds.instance("trial", on=here, state=State.FAILED, reason="Out of memory.")
    worlds.run(worlds.version("chat", 3), on=here)
    worlds.run(deployed.config_version, on=here, state=Run.State.INVALID, reasons=[{"sentence": "Too many failed."}])
    promotion: dict[str, Any] = {"environment": deployed.environment, "deployment": deployed, "created_by": "test"}
    promotion |= {
        "engine": deployed.engine,
        "config_version": deployed.config_version,
        "state": Promotion.State.REVERTED,
    }
    Promotion.objects.create(**promotion)
    needs = queries.needs()
    assert [need.state for need in needs] == ["unreachable", "failed", "warning", "open", "invalid"]
    assert [need.subject for need in needs][:2] == [silent.name, "trial"]
    assert "v3 is measured and not promoted" in needs[3].sentence
    assert needs[4].sentence == "Too many failed."
    Promotion.objects.create(**{**promotion, "state": Promotion.State.LIVE})
    assert "warning" not in [need.state for need in queries.needs()]


@pytest.mark.django_db
def test_many_of_one_kind_are_five_and_a_number(client_of: Callable[[str], Client]) -> None:
    here = worlds.host()
    for number in range(7):
        worlds.host(f"gpu-{number + 10}", state=Host.State.UNREACHABLE)
    for number in range(8):
        worlds.instance(f"trial-{number}", on=here, state=State.FAILED, reason="Out of memory.")
    needs = queries.needs()
    assert [need.state for need in needs] == ["unreachable"] * 6 + ["failed"] * 6
    assert [(need.subject, need.url) for need in needs[5::6]] == [
        ("2 more hosts", "/hosts/?sort=-state"),
        ("3 more instances", "/instances/?state=failed"),
    ]
    for need in needs:
        assert client_of("viewer").get(need.url).status_code == 200


@pytest.mark.django_db
def test_when_most_hosts_fall_silent_at_once_it_is_said_that_it_may_be_us() -> None:
    for number in range(4):
        worlds.host(f"gpu-{number}", state=Host.State.UNREACHABLE)
    Host.objects.update(transport="ssh", last_seen_at=timezone.now(), failures_in_a_row=3)
    first, *others = queries.needs()
    assert (first.state, first.subject, first.url) == ("warning", "Cut off?", "/hosts/")
    assert "unless a person asks" in first.sentence
    Host.objects.update(failures_in_a_row=0)
    assert queries.needs() == others


@pytest.mark.django_db
def test_a_gpu_that_works_for_nobody_of_ours_is_foreign() -> None:
    here = worlds.host(gpus=3)
    ours, foreign, _idle = here.accelerators.order_by("index")
    for gpu, nonce in ((ours, "launch-1"), (foreign, None)):
        gpu.processes = [{"pid": 1, "nonce": nonce}]
        gpu.save()
    [strip] = queries.overview().hosts
    assert [gpu.has_foreign_process for gpu in strip.gpus] == [False, True, False]


def test_a_poll_gets_the_fragment_alone_and_asks_again(client_of: Callable[[str], Client]) -> None:
    worlds.host()
    text = client_of("viewer").get(URL, headers={"HX-Request": "true"}).content.decode()
    assert text.lstrip().startswith('<div id="overview"')
    assert 'hx-trigger="every 5s"' in text
    assert "<html" not in text


def test_the_number_of_queries_does_not_grow(
    client_of: Callable[[str], Client], django_assert_max_num_queries: Any
) -> None:
    client = client_of("viewer")
    worlds.full(3)
    with django_assert_max_num_queries(30) as few:
        client.get(URL)
    worlds.full(30, start=3)
    with django_assert_max_num_queries(len(few.captured_queries)):
        client.get(URL)
