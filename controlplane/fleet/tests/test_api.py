"""Instances over REST: who may, what is refused how, and that lists cost the same at any length."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.fleet import reconcile
from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of

ApiOf = Callable[[str], Client]


def post(client: Client, path: str, body: Any = None) -> Any:
    return client.post(f"/api/v1{path}", json.dumps(body or {}), content_type="application/json")


def test_an_operator_launches_follows_asks_and_stops(world: FakeWorld, api_of: ApiOf) -> None:
    api = api_of("operator")
    place = {"config_version_id": world.version().pk, "engine_id": world.engine.pk}
    launched = post(api, "/instances", place)
    assert launched.status_code == 202, launched.content
    pk = launched.json()["id"]
    assert launched.json()["state"] == "pending"
    Instance.objects.filter(pk=pk).update(state=State.READY)

    assert post(api, f"/instances/{pk}/smoke", {"prompt": "Hello?"}).json()["smoke"]["state"] == "asked"
    assert post(api, f"/instances/{pk}/stop").json()["desired"] == "stopped"
    assert [one["id"] for one in api.get("/api/v1/instances?state=live").json()["items"]] == [pk]


def test_a_preflight_is_queued_and_then_tells(world: FakeWorld, api_of: ApiOf) -> None:
    api = api_of("operator")
    place = {"config_version_id": world.version().pk, "engine_id": world.engine.pk, "port": 8100}
    queued = post(api, "/preflights", place)
    assert (queued.status_code, queued.json()["state"], queued.json()["may_launch"]) == (202, "queued", None)
    reconcile.fill_preflight(queued.json()["id"])
    told = api.get(f"/api/v1/preflights/{queued.json()['id']}").json()
    assert (told["state"], told["may_launch"], told["port"]) == ("finished", True, 8100)
    assert told["checks"][0]["code"] == "flags"


@pytest.mark.parametrize("act", ["stop", "relaunch", "smoke"])
def test_a_viewer_reads_and_changes_nothing(world: FakeWorld, api_of: ApiOf, act: str) -> None:
    instance = world.ready()
    viewer = api_of("viewer")
    assert viewer.get(f"/api/v1/instances/{instance.pk}").status_code == 200
    refused = post(viewer, f"/instances/{instance.pk}/{act}")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert viewer.delete(f"/api/v1/instances/{instance.pk}").status_code == 403
    assert api_of("outsider").get("/api/v1/instances").status_code == 401


def test_refusals_are_problems_with_code_and_remedy(world: FakeWorld, api_of: ApiOf) -> None:
    api, instance = api_of("operator"), world.ready(port=8000)
    place = {"config_version_id": world.version().pk, "engine_id": world.engine.pk}
    for answer, status, code in (
        (post(api, "/instances", {**place, "port": 8000}), 409, "port_taken"),
        (post(api, "/instances", {**place, "gpu_uuids": ["GPU-9"]}), 422, "invalid"),
        (post(api, "/instances", {**place, "engine_id": 0}), 404, "not_found"),
        (post(api, "/instances", {**place, "port": 70000}), 422, "invalid"),
        (post(api, f"/instances/{instance.pk}/relaunch"), 409, "conflict"),
        (api.delete(f"/api/v1/instances/{instance.pk}"), 409, "conflict"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["title"]


@pytest.mark.parametrize("path", ["/instances/{}", "/preflights/{}", "/attempts/{}/log", "/instances/{}/command"])
@pytest.mark.parametrize("number", [0, -1, 2**63, 10**30])
def test_ids_that_nothing_has_are_not_found_however_large(
    world: FakeWorld, api_of: ApiOf, path: str, number: int
) -> None:
    answer = api_of("viewer").get("/api/v1" + path.format(number))
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("bind", "address", "url"),
    [
        ("127.0.0.1", "10.0.0.5", "http://127.0.0.1:8000"),
        ("0.0.0.0", "10.0.0.5", "http://10.0.0.5:8000"),
        ("0.0.0.0", "", "http://127.0.0.1:8000"),
        ("::1", "", "http://[::1]:8000"),
    ],
)
def test_the_base_url_is_where_others_reach_the_server(world: FakeWorld, bind: str, address: str, url: str) -> None:
    world.host.address = address
    assert Instance(host=world.host, bind=bind, port=8000).base_url == url


def test_the_log_goes_on_after_a_line_and_can_be_searched(world: FakeWorld, api_of: ApiOf) -> None:
    text = "INFO 11-29 10:00:00 [a.py:1] one\nWARNING 11-29 10:00:01 [a.py:2] two\nValueError: three\n"
    instance = world.request(log=text)
    world.step(instance)
    world.step(instance)
    path = f"/api/v1/attempts/{attempt_of(instance).pk}/log"
    api = api_of("viewer")

    first = api.get(f"{path}?limit=2").json()
    assert [(row["number"], row["level"]) for row in first["lines"]] == [(1, "info"), (2, "warning")]
    assert (first["last_line"], first["is_end"], first["is_over"]) == (2, False, False)
    rest = api.get(f"{path}?after=2").json()
    assert [row["text"] for row in rest["lines"]] == ["ValueError: three"]
    assert rest["is_end"]
    assert [row["number"] for row in api.get(f"{path}?q=TWO").json()["lines"]] == [2]
    assert [row["number"] for row in api.get(f"{path}?level=error").json()["lines"]] == [3]


@pytest.mark.parametrize("form", ["argv", "shell", "systemd", "compose"])
def test_a_launch_can_be_taken_away_as_a_file_without_its_key(world: FakeWorld, api_of: ApiOf, form: str) -> None:
    instance = world.ready()
    told = api_of("viewer").get(f"/api/v1/instances/{instance.pk}/command?format={form}").json()
    assert told["argv"] == attempt_of(instance).argv
    assert "/models/qwen" in told["text"]
    assert "vcpi_" not in told["text"]


def test_a_detail_shows_the_newest_attempt_without_its_nonce(world: FakeWorld, api_of: ApiOf) -> None:
    instance = world.ready()
    told = api_of("viewer").get(f"/api/v1/instances/{instance.pk}").json()
    assert told["attempt"]["process"]["pid"]
    assert attempt_of(instance).process["nonce"] not in json.dumps(told)
    listed = api_of("viewer").get(f"/api/v1/instances/{instance.pk}/attempts").json()
    assert [attempt["number"] for attempt in listed] == [1]


@pytest.mark.parametrize("sort", ["", "name", "-created", "host", "kv", "nonsense"])
def test_a_list_costs_the_same_at_any_length(
    world: FakeWorld, api_of: ApiOf, sort: str, django_assert_max_num_queries: Any
) -> None:
    api = api_of("viewer")
    for count in (3, 30):
        while Instance.objects.count() < count:
            world.request(is_deployed=True)
        with django_assert_max_num_queries(5):
            page = api.get(f"/api/v1/instances?sort={sort}").json()
        assert page["total"] == count
        assert page["items"][0]["environment"] == "staging"


def test_lists_are_filtered_by_host_config_environment_and_words(world: FakeWorld, api_of: ApiOf) -> None:
    instance, other = world.request(), world.request(is_deployed=True)
    config = instance.config_version.config.name
    api = api_of("viewer")
    for query, expected in (
        (f"host={world.host.name}", 2),
        ("host=elsewhere", 0),
        (f"config={config}", 1),
        ("environment=staging", 1),
        (f"q={other.name}", 1),
        ("state=ready", 0),
        ("q=%00", 2),
    ):
        assert api.get(f"/api/v1/instances?{query}").json()["total"] == expected, query


def test_forgetting_an_instance_takes_attempts_and_log_along(world: FakeWorld, api_of: ApiOf) -> None:
    instance = world.request(log="odd\n", rc=1)
    world.step(instance)
    world.step(instance)
    assert api_of("operator").delete(f"/api/v1/instances/{instance.pk}").status_code == 204
    assert Attempt.objects.count() == 0
