"""Runs over REST."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.bench.models import Run
from controlplane.bench.tests.fake_bench import BenchWorld
from controlplane.configs.models import Config
from controlplane.fleet.models import Instance

ApiOf = Callable[[str], Client]
JSON = "application/json"


def test_a_run_is_asked_for_followed_and_read_with_its_metrics(world: BenchWorld, api_of: ApiOf) -> None:
    api = api_of("operator")
    body = {"instance_id": world.instance.pk, "workload": "smoke-8x32", "note": "nightly", "seed": 5}
    response = api.post("/api/v1/runs", body, JSON)
    assert response.status_code == 202, response.content
    assert response.json()["state"] == "queued"

    run = Run.objects.get()
    world.step(run)
    world.end(run)
    world.step(run)

    told = api.get(f"/api/v1/runs/{run.pk}").json()
    assert (told["state"], told["ok"], told["seed"], told["note"]) == ("finished", 16, 5, "nightly")
    p99 = next(m for m in told["metrics"] if (m["definition"], m["statistic"]) == ("ttft.any.v1", "p99"))
    assert p99["value"] == told["ttft_ms_p99"]
    assert len(api.get(f"/api/v1/runs/{run.pk}/series").json()["series"]["t"]) > 0
    columns = api.get(f"/api/v1/runs/{run.pk}/requests").json()["columns"]
    assert len(columns["first_us"]) == 16


def test_runs_are_filtered_searched_and_sorted(world: BenchWorld, api_of: ApiOf) -> None:
    slow = world.finished(gap_s=0.05, note="slow one")
    fast = world.finished(gap_s=0.01)
    waiting = world.request(workload="chat-short")
    api = api_of("viewer")

    def ids(query: str) -> list[int]:
        return [item["id"] for item in api.get(f"/api/v1/runs?{query}").json()["items"]]

    assert ids("") == [waiting.pk, fast.pk, slow.pk]
    assert ids("sort=-throughput")[0] == fast.pk
    assert ids("sort=tpot")[0] == fast.pk
    assert ids("state=finished&sort=created") == [slow.pk, fast.pk]
    assert ids("state=moving") == [waiting.pk]
    assert ids("workload=chat-short") == [waiting.pk]
    assert ids("q=slow") == [slow.pk]
    assert ids("q=CHAT-SHO") == [waiting.pk]
    Instance.objects.update(name="alpha-1")
    Config.objects.update(name="zeta")
    Run.objects.update(created_by="olga")
    for words in ("pha-", "ZET", "olg"):
        assert ids(f"q={words}") == [waiting.pk, fast.pk, slow.pk], words
    assert ids("q=nobody-and-nothing") == []
    assert ids(f"q=%23{fast.pk}") == [fast.pk]
    assert ids("host=nowhere") == []
    assert ids("q=%00&state=%00&sort=nonsense") == [waiting.pk, fast.pk, slow.pk]


def test_a_run_can_be_cancelled_and_forgotten(world: BenchWorld, api_of: ApiOf) -> None:
    api, run = api_of("operator"), world.request()
    assert api.delete(f"/api/v1/runs/{run.pk}").status_code == 409
    assert api.post(f"/api/v1/runs/{run.pk}/cancel").json()["state"] == "cancelled"
    assert api.delete(f"/api/v1/runs/{run.pk}").status_code == 204
    assert api.get(f"/api/v1/runs/{run.pk}").status_code == 404


def test_the_note_can_be_changed(world: BenchWorld, api_of: ApiOf) -> None:
    run = world.request()
    api_of("operator").patch(f"/api/v1/runs/{run.pk}", {"note": "baseline"}, JSON)
    run.refresh_from_db()
    assert run.note == "baseline"


def test_viewers_read_and_do_not_measure(world: BenchWorld, api_of: ApiOf) -> None:
    run, api = world.request(), api_of("viewer")
    assert api.get("/api/v1/workloads").status_code == 200
    body = {"instance_id": world.instance.pk, "workload": "smoke-8x32"}
    assert api.post("/api/v1/runs", body, JSON).status_code == 403
    assert api.post(f"/api/v1/runs/{run.pk}/cancel").status_code == 403
    assert api.delete(f"/api/v1/runs/{run.pk}").status_code == 403
    assert api.patch(f"/api/v1/runs/{run.pk}", {"note": ""}, JSON).status_code == 403
    assert api_of("outsider").get("/api/v1/runs").status_code == 401


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"seed": 2**63}, {"note": "\x00"}, {"workload": "\x00"}, {"note": "x" * 4001}]
)
def test_input_that_cannot_be_kept_is_refused(world: BenchWorld, api_of: ApiOf, wrong: dict[str, Any]) -> None:
    body = {"instance_id": world.instance.pk, "workload": "smoke-8x32", **wrong}
    assert api_of("operator").post("/api/v1/runs", body, JSON).status_code == 422
    assert not Run.objects.exists()


def test_a_workload_or_instance_that_is_not_there_is_404(world: BenchWorld, api_of: ApiOf) -> None:
    api = api_of("operator")
    assert api.post("/api/v1/runs", {"instance_id": 0, "workload": "smoke-8x32"}, JSON).status_code == 404
    assert api.post("/api/v1/runs", {"instance_id": world.instance.pk, "workload": "x"}, JSON).status_code == 404


def test_lists_need_as_many_queries_for_thirty_runs_as_for_three(
    world: BenchWorld, api_of: ApiOf, django_assert_max_num_queries: Any
) -> None:
    api, counts = api_of("viewer"), []
    api.get("/api/v1/runs")  # a token's first use is noted
    for amount in (3, 27):
        for _ in range(amount):
            world.request()
        with django_assert_max_num_queries(10) as captured:
            assert len(api.get("/api/v1/runs").json()["items"]) >= amount
        counts.append(len(captured))
    assert counts[0] == counts[1]
