"""Environments and promotions over REST: who may, what is refused how, and that lists cost the same at any length."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.fleet.models import Environment, Instance
from controlplane.release.models import Promotion
from controlplane.release.tests.worlds import ReleaseWorld

ApiOf = Callable[[str], Client]


def post(client: Client, path: str, body: Any = None) -> Any:
    return client.post(f"/api/v1{path}", json.dumps(body or {}), content_type="application/json")


def wish(world: ReleaseWorld, number: int, **more: Any) -> dict[str, Any]:
    world.version(number)
    place = {"environment": "staging", "config": "qwen", "version": number, "engine_id": world.fleet.engine.pk}
    return {**place, "why": "It is faster.", **more}


def get(client: Client, path: str) -> Any:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_a_script_promotes_follows_and_goes_back(world: ReleaseWorld, api_of: ApiOf) -> None:
    api, run = api_of("operator"), world.run(world.version(1))
    asked = post(api, "/promotions", wish(world, 1, run_ids=[run.pk], why=""))
    assert asked.status_code == 202, asked.content
    told = asked.json()
    assert (told["state"], told["evidence"]["run_ids"], told["evidence"]["problems"]) == ("pending", [run.pk], [])
    world.settle(Promotion.objects.get(pk=told["id"]))
    told = get(api, f"/promotions/{told['id']}")
    assert (told["state"], [step["state"] for step in told["steps"]]) == ("live", ["done", "done", "done"])

    world.live(2)
    (row,) = get(api, "/environments/staging")["deployments"]
    assert (row["version"], row["state"], row["way_back"]["version"]) == (2, "live", 1)
    assert row["serving"]["instance"] == "qwen-v2-1"
    back = post(api, "/environments/staging/deployments/qwen/rollback", {"why": "Answers are worse."}).json()
    assert (back["version"], back["is_rollback"], back["why"]) == (1, True, "Answers are worse.")
    world.settle(Promotion.objects.get(pk=back["id"]))
    assert world.serving() == [1]


def test_an_instance_is_taken_over_without_naming_its_engine(world: ReleaseWorld, api_of: ApiOf) -> None:
    """As the demonstration does it."""
    measured = world.measured_instance(1)
    body = wish(world, 1, instance_id=measured.pk)
    del body["engine_id"]
    asked = post(api_of("operator"), "/promotions", body)
    assert asked.status_code == 202, asked.content
    world.settle(Promotion.objects.get(pk=asked.json()["id"]))
    assert get(api_of("viewer"), "/environments/staging")["deployments"][0]["serving"]["instance_id"] == measured.pk


def test_a_promotion_can_be_given_up_and_a_deployment_taken_out_of_service(world: ReleaseWorld, api_of: ApiOf) -> None:
    api = api_of("operator")
    world.live(1)
    promotion = world.promote(2)
    given_up = post(api, f"/promotions/{promotion.pk}/abort").json()
    assert given_up["is_abort_requested"]
    world.settle(promotion)
    stopped = post(api, "/environments/staging/deployments/qwen/stop", {"why": "Not needed."})
    assert (stopped.status_code, stopped.json()["state"], stopped.json()["is_enabled"]) == (202, "retired", False)
    assert Instance.objects.get(config_version=world.version(1)).desired == "stopped"


def test_evidence_that_no_longer_matches_is_told(world: ReleaseWorld, api_of: ApiOf) -> None:
    world.fleet.engine.build = "build-1"
    world.fleet.engine.save()
    world.live(1, runs=[world.run(world.version(1))])
    world.fleet.engine.build = "build-2"
    world.fleet.engine.save()
    live = get(api_of("viewer"), "/environments/staging")["deployments"][0]["live_promotion"]
    assert [one["code"] for one in live["evidence"]["problems"]] == ["other_engine"]


@pytest.mark.parametrize(
    "path",
    [
        "/promotions",
        "/promotions/1/abort",
        "/environments/staging/deployments/qwen/rollback",
        "/environments/staging/deployments/qwen/stop",
    ],
)
def test_a_viewer_reads_and_changes_nothing(world: ReleaseWorld, api_of: ApiOf, path: str) -> None:
    world.live(1)
    refused = post(api_of("viewer"), path, wish(world, 2) if path == "/promotions" else {"why": "x"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert api_of("outsider").get("/api/v1/promotions").status_code == 401
    assert get(api_of("viewer"), "/promotions")["total"] == 1


def test_refusals_are_problems_with_code_and_remedy(world: ReleaseWorld, api_of: ApiOf) -> None:
    api = api_of("operator")
    first = world.live(1)
    no_place = {**wish(world, 2, environment="production"), "engine_id": None}
    for answer, status, code in (
        (post(api, "/promotions", wish(world, 1)), 409, "conflict"),
        (post(api, "/promotions", wish(world, 2, why=" ")), 422, "invalid"),
        (post(api, "/promotions", wish(world, 2, run_ids=[99999])), 422, "invalid"),
        (post(api, "/promotions", wish(world, 2, gpu_uuids=["GPU-9"])), 422, "invalid"),
        (post(api, "/promotions", wish(world, 2, environment="moon")), 404, "not_found"),
        (post(api, "/promotions", no_place), 422, "invalid"),
        (post(api, f"/promotions/{first.pk}/abort"), 409, "conflict"),
        (post(api, "/environments/staging/deployments/qwen/rollback"), 409, "conflict"),
        (post(api, "/environments/staging/deployments/nothing/stop"), 404, "not_found"),
        (api.get("/api/v1/promotions/0"), 422, "invalid"),
        (api.get("/api/v1/environments/moon"), 404, "not_found"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["title"]


def test_promotions_are_filtered_and_sorted(world: ReleaseWorld, api_of: ApiOf) -> None:
    world.live(1)
    world.live(2)
    world.promote(3)
    world.promote(1, environment="production")
    api = api_of("viewer")

    def versions(query: str) -> list[int]:
        return [one["version"] for one in get(api, f"/promotions?{query}")["items"]]

    assert versions("") == [1, 3, 2, 1]
    assert versions("state=live") == [2]
    assert versions("state=under_way&environment=staging") == [3]
    assert versions("environment=staging&sort=version") == [1, 2, 3]
    assert versions("sort=-version&q=faster") == [3, 2, 1, 1]
    assert versions("who=nobody") == versions("config=other") == versions("q=%00zzz") == []


def many(world: ReleaseWorld, count: int) -> None:
    """So many deployments, each with an instance, evidence and three promotions."""
    environment = Environment.objects.get(name="staging")
    for _ in range(count):
        version = world.fleet.version()
        deployment = world.fleet.deployment(version)
        instance = Instance.objects.create(
            name=f"{version.config.name}-1", config_version=version, host=world.fleet.host, engine=world.fleet.engine,
            deployment=deployment, port=8000, sealed_key=b"", state="ready", created_by="test",
        )  # fmt: skip
        for state in ("superseded", "live", "rolling"):
            promotion = Promotion.objects.create(
                environment=environment, deployment=deployment, config_version=version, previous_version=version,
                engine=world.fleet.engine, instance=instance, state=state, created_by="test", evidence_digest="x",
            )  # fmt: skip
            promotion.runs.set([world.run(version)])


@pytest.mark.parametrize("path", ["/environments", "/environments/staging", "/promotions"])
def test_a_list_costs_as_many_queries_at_any_length(
    world: ReleaseWorld, api_of: ApiOf, django_assert_max_num_queries: Any, path: str
) -> None:
    api = api_of("viewer")
    many(world, 2)
    with django_assert_max_num_queries(25) as few:
        get(api, path)
    many(world, 10)
    with django_assert_max_num_queries(len(few)):
        get(api, path)
