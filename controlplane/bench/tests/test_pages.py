"""Pages of workloads and runs."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.bench.domain.workloads import BUILT_IN
from controlplane.bench.domain.workloads import Workload as Spec
from controlplane.bench.models import Run, Workload
from controlplane.bench.tests.fake_bench import BenchWorld
from controlplane.bench.views.wording import error_words
from controlplane.bench.views.workload_words import parameters_of
from controlplane.fleet.services import request_stop

ClientOf = Callable[[str], Client]


def detail(run: Run) -> str:
    return reverse("bench:run_detail", args=[run.pk])


@pytest.mark.parametrize("name", ["run_list", "workload_list", "compare", "run_start"])
def test_pages_work_for_members_and_send_outsiders_to_the_login(
    world: BenchWorld, client_of: ClientOf, name: str
) -> None:
    world.finished()
    url = reverse(f"bench:{name}")
    assert client_of("operator").get(url).status_code == 200
    assert client_of("outsider").get(url).status_code == 302


def test_empty_pages_hold_the_button_that_makes_the_first_run(world: BenchWorld, client_of: ClientOf) -> None:
    for name in ("run_list", "compare"):
        assert reverse("bench:run_start") in client_of("operator").get(reverse(f"bench:{name}")).content.decode()
    assert reverse("bench:run_start") not in client_of("viewer").get(reverse("bench:run_list")).content.decode()


def test_a_viewer_reads_and_has_no_buttons(world: BenchWorld, client_of: ClientOf) -> None:
    run = world.started()
    viewer = client_of("viewer")
    content = viewer.get(detail(run)).content.decode()
    assert "Cancel the run" not in content
    for name in ("run_cancel", "run_note", "run_remove"):
        assert viewer.post(reverse(f"bench:{name}", args=[run.pk])).status_code == 403
    assert viewer.get(reverse("bench:run_start")).status_code == 403
    assert viewer.post(reverse("bench:measure_again"), {"runs": run.pk}).status_code == 403


def test_a_run_is_started_from_the_form_that_an_instance_links_to(world: BenchWorld, client_of: ClientOf) -> None:
    client = client_of("operator")
    url = f"{reverse('bench:run_start')}?instance={world.instance.pk}&workload=smoke-8x32"
    assert client.get(url).context["form"].initial["workload"] == Workload.objects.get(name="smoke-8x32").pk
    data = {
        "instance": world.instance.pk,
        "workload": Workload.objects.get(name="smoke-8x32").pk,
        "note": "first",
        "seed": "",
    }
    response = client.post(url, data)
    run = Run.objects.get()
    assert response["Location"] == detail(run)
    assert (run.note, run.created_by) == ("first", "operator")


def test_a_wrong_form_comes_back_with_its_input(world: BenchWorld, client_of: ClientOf) -> None:
    data = {"instance": world.instance.pk, "workload": "", "note": "keep me", "seed": "-1"}
    response = client_of("operator").post(reverse("bench:run_start"), data)
    assert response.status_code == 422
    assert "keep me" in response.content.decode()
    assert not Run.objects.exists()


def test_an_instance_that_is_not_ready_is_named_instead_of_another_chosen(
    world: BenchWorld, client_of: ClientOf
) -> None:
    request_stop(world.instance, actor="test")
    world.fleet.step(world.instance)
    content = client_of("operator").get(f"{reverse('bench:run_start')}?instance={world.instance.pk}").content.decode()
    assert f"{world.instance.name} is" in content
    assert "Nothing is ready to be measured" in content


def test_a_running_run_refreshes_itself_and_tells_how_far_it_is(world: BenchWorld, client_of: ClientOf) -> None:
    run = world.started()
    for elapsed_s, tokens, ok in ((2.0, 0, 0), (4.0, 128, 2)):
        progress = {
            "phase": "measure", "ok": ok, "failed": 0, "running": 8, "output_tokens": tokens, "elapsed_s": elapsed_s
        }  # fmt: skip
        world.machine.leave(run.job_id, {"progress.json": json.dumps(progress).encode()})
        world.step(run)
    response = client_of("viewer").get(detail(run), headers={"HX-Request": "true"})
    content = response.content.decode()
    assert "<html" not in content
    assert 'hx-trigger="every 1s"' in content
    assert response.context["standing"].tokens_per_s == 64.0
    assert response.context["standing"].left_s == pytest.approx((512 - 128) / 64)


def test_a_run_that_is_over_no_longer_refreshes_itself(world: BenchWorld, client_of: ClientOf) -> None:
    run = world.finished()
    content = client_of("viewer").get(detail(run), headers={"HX-Request": "true"}).content.decode()
    assert "hx-trigger=" not in content
    assert "Not measured: no GPU." in content
    assert "tput.wall.v1" in content
    assert "LOADGEN_API_KEY" in content


def test_an_invalid_run_says_why_and_what_the_server_answered(world: BenchWorld, client_of: ClientOf) -> None:
    run = world.started()
    world.end(run, failed=2)
    world.step(run)
    content = client_of("viewer").get(detail(run)).content.decode()
    assert "These numbers must not be used" in content
    assert "2 of 16 requests failed" in content
    assert "engine is dead" in content


def test_a_failed_run_shows_its_sentence_and_no_numbers(world: BenchWorld, client_of: ClientOf) -> None:
    run = world.started()
    world.end_engine(world.instance)
    world.step(run)
    world.step(run)
    content = client_of("viewer").get(detail(run)).content.decode()
    assert "The engine ended during the run" in content
    assert "Latencies of successful requests" not in content


def test_a_run_is_cancelled_noted_and_removed_from_its_page(world: BenchWorld, client_of: ClientOf) -> None:
    run, client = world.request(), client_of("operator")
    client.post(reverse("bench:run_note", args=[run.pk]), {"note": "mind the\x00 gap"})
    client.post(reverse("bench:run_cancel", args=[run.pk]))
    run.refresh_from_db()
    assert (run.state, run.note) == ("cancelled", "mind the gap")
    client.post(reverse("bench:run_remove", args=[run.pk]))
    assert not Run.objects.exists()


@pytest.mark.parametrize("name", ["tokens", "queue", "cache", "gpu", "ttft", "tpot", "e2el"])
def test_every_chart_has_its_data(world: BenchWorld, client_of: ClientOf, name: str) -> None:
    run = world.finished(gpu_percent=50.0, prefix_hits=25.0)
    data = client_of("viewer").get(reverse("bench:run_chart", args=[run.pk, name])).json()
    assert data["series"]
    assert any(value is not None for line in data["series"] for value in line["values"])


def test_a_chart_that_is_not_there_is_404(world: BenchWorld, client_of: ClientOf) -> None:
    assert client_of("viewer").get(reverse("bench:run_chart", args=[world.finished().pk, "x"])).status_code == 404


def test_result_and_requests_can_be_downloaded(world: BenchWorld, client_of: ClientOf) -> None:
    run, client = world.finished(), client_of("viewer")
    assert client.get(reverse("bench:run_result", args=[run.pk])).json()["run_id"] == str(run.pk)
    lines = client.get(reverse("bench:run_requests", args=[run.pk])).content.decode().splitlines()
    assert len(lines) == 17
    assert client.get(reverse("bench:run_result", args=[world.request().pk])).status_code == 404


def test_the_list_is_page_fragment_and_csv(world: BenchWorld, client_of: ClientOf) -> None:
    world.finished(note="=danger")
    client, url = client_of("viewer"), reverse("bench:run_list")
    assert "<html" in client.get(url).content.decode()
    assert "<html" not in client.get(url, headers={"HX-Request": "true"}).content.decode()
    csv = client.get(f"{url}?format=csv").content.decode()
    assert "smoke-8x32" in csv
    assert "'=danger" in csv


def test_a_workload_tells_what_it_does_in_words(world: BenchWorld, client_of: ClientOf) -> None:
    world.finished()
    shared = Workload.objects.get(name="shared-prefix-16x64")
    content = client_of("viewer").get(reverse("bench:workload_detail", args=[shared.pk])).content.decode()
    assert "Every prompt begins with the same 520 words" in content
    odd = Workload.objects.create(name="odd", spec={"kind": "seed", "burst_s": 2, "is_new": True}, digest="odd")
    assert client_of("viewer").get(reverse("bench:workload_list")).status_code == 200
    content = client_of("viewer").get(reverse("bench:workload_detail", args=[odd.pk])).content.decode()
    assert '<dt title="burst_s">Burst s</dt><dd>2</dd><dt title="is_new">Is new</dt><dd>yes</dd>' in content


@pytest.mark.parametrize("workload", BUILT_IN, ids=lambda each: each.name)
def test_the_parameters_of_a_workload_have_names_and_units_and_none_is_python(workload: Spec) -> None:
    told = parameters_of(workload.to_json())
    assert {one.key for one in told} == set(workload.to_json()) - {"name"}
    assert not [one for one in told if "_" in one.label.replace("max_model_len", "")]
    assert not [one for one in told if one.value in {None, "True", "False", "None", "0.0"}]
    values = {one.key: one.value for one in told}
    assert values["requests"] == f"{workload.requests} requests"
    assert values["ignore_eos"] == "always at the limit"


@pytest.mark.parametrize(("name", "words"), [("http_503", "HTTP 503"), ("timeout", "no answer in time"), ("x", "x")])
def test_the_kind_of_an_error_is_told_in_words(name: str, words: str) -> None:
    assert error_words(name) == words


def test_lists_need_as_many_queries_for_thirty_runs_as_for_three(
    world: BenchWorld, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    client = client_of("viewer")
    seen: dict[str, list[int]] = {}
    for amount in (3, 27):
        for _ in range(amount):
            world.request()
        Run.objects.update(state=Run.State.FINISHED)
        for name in ("run_list", "workload_list", "compare"):
            with django_assert_max_num_queries(14) as captured:
                assert client.get(reverse(f"bench:{name}")).status_code == 200
            seen.setdefault(name, []).append(len(captured))
    assert all(few == many for few, many in seen.values()), seen
