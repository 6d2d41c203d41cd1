"""Runs of two configs side by side: page, charts, exports, API."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.bench import queries
from controlplane.bench.models import Run
from controlplane.bench.tests.fake_bench import BenchWorld
from controlplane.core.errors import Invalid, NotFound
from controlplane.fleet.models import Instance

ClientOf = Callable[[str], Client]


@pytest.fixture
def tuned(world: BenchWorld) -> Instance:
    return world.fleet.ready(batching={"enable_prefix_caching": True})


def page(*runs: Run, **more: Any) -> str:
    extra = "".join(f"&{name}={value}" for name, value in more.items())
    return f"{reverse('bench:compare')}?runs={','.join(str(run.pk) for run in runs)}{extra}"


def test_one_run_each_is_a_table_with_the_changed_parameter_and_no_verdict(
    world: BenchWorld, tuned: Instance, client_of: ClientOf
) -> None:
    slow, fast = world.finished(gap_s=0.04), world.finished(gap_s=0.02, instance=tuned)
    content = client_of("viewer").get(page(slow, fast)).content.decode()
    assert "enable_prefix_caching true instead of not set: ×1.7" in content
    assert "One run each: no verdict." in content
    assert "no GPU" in content
    assert "every run counts" in content
    assert 'class="interval' not in content, "one run has no range"


def test_two_runs_a_side_show_ranges_and_say_that_one_launch_is_one_launch(
    world: BenchWorld, tuned: Instance, client_of: ClientOf
) -> None:
    slow = [world.finished(gap_s=gap) for gap in (0.040, 0.042)]
    fast = [world.finished(gap_s=gap, instance=tuned) for gap in (0.020, 0.021)]
    content = client_of("viewer").get(page(*slow, *fast)).content.decode()
    assert "The ranges of the runs do not touch: Throughput better" in content
    assert "of one launch" in content
    assert 'class="interval' in content


def test_ranges_that_overlap_cannot_tell(world: BenchWorld, tuned: Instance, client_of: ClientOf) -> None:
    first = [world.finished(gap_s=gap) for gap in (0.020, 0.030)]
    second = [world.finished(gap_s=gap, instance=tuned) for gap in (0.021, 0.029)]
    content = client_of("viewer").get(page(*first, *second)).content.decode()
    assert "Cannot tell" in content


def test_the_baseline_can_be_swapped(world: BenchWorld, tuned: Instance) -> None:
    slow, fast = world.finished(gap_s=0.04), world.finished(gap_s=0.02, instance=tuned)
    numbers = [fast.pk, slow.pk]
    assert queries.comparison(numbers).baseline.runs == [slow], "the oldest, whatever the order of the address"
    turned = queries.comparison(numbers, baseline=fast.pk)
    assert turned.baseline.runs == [fast]
    ratio = turned.rows[0].cells["throughput"].ratio
    assert ratio is not None
    assert ratio < 1


def test_gated_failed_and_cancelled_runs_are_named_and_in_no_number(
    world: BenchWorld, tuned: Instance, client_of: ClientOf
) -> None:
    good, other = world.finished(), world.finished(instance=tuned)
    gated = world.started(instance=tuned)
    world.end(gated, failed=3, gap_s=0.5)
    world.step(gated)
    found = queries.comparison([good.pk, other.pk, gated.pk])
    assert found.uncounted == [gated]
    assert found.rows[0].tuned_runs == 1
    content = client_of("viewer").get(page(good, other, gated)).content.decode()
    assert "3 of 16 requests failed" in content
    assert "3/32" in content, "its errors are counted all the same"


def test_runs_of_unlike_workloads_are_refused_with_a_sentence(
    world: BenchWorld, tuned: Instance, client_of: ClientOf, api_of: ClientOf
) -> None:
    one, two = world.finished(), world.finished(workload="chat-short", instance=tuned)
    response = client_of("viewer").get(page(one, two))
    assert response.status_code == 422
    assert "different workloads" in response.content.decode()
    told = api_of("viewer").get(f"/api/v1/compare?runs={one.pk},{two.pk}")
    assert (told.status_code, told.json()["code"]) == (422, "unlike_runs")


def test_runs_of_one_config_compare_nothing_and_say_so(world: BenchWorld, client_of: ClientOf) -> None:
    content = client_of("viewer").get(page(world.finished(), world.finished())).content.decode()
    assert "nothing is compared" in content


@pytest.mark.parametrize("text", ["x", "1;2", "-1", "²", "9" * 30])
def test_nonsense_numbers_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not the number of a run"):
        queries.run_ids(text)


def test_a_run_that_is_not_there_is_named(db: None) -> None:
    with pytest.raises(NotFound, match="no run 77"):
        queries.comparison([77])


def test_several_boxes_make_one_list() -> None:
    assert queries.run_ids(["1,2", "3", ""]) == [1, 2, 3]


def test_another_build_or_host_is_a_side_of_its_own_and_a_change(world: BenchWorld) -> None:
    first, second = world.finished(), world.finished()
    Run.objects.filter(pk=second.pk).update(engine_version="0.33.0", engine_build="b2")
    found = queries.comparison([first.pk, second.pk])
    assert [(change.parameter, change.tuned) for change in found.tuned[0].arm.changes] == [("vLLM", "0.33.0")]
    assert found.tuned[0].label.endswith("vLLM 0.33.0")


def test_what_was_held_fixed_is_told_and_unlike_seeds_are(world: BenchWorld, tuned: Instance) -> None:
    one, two = world.finished(seed=1), world.finished(seed=2, instance=tuned)
    found = queries.comparison([one.pk, two.pk])
    assert found.fixed["max_model_len"] == "2048"
    assert "enable_prefix_caching" not in found.fixed
    assert found.differing == {"seed": "1, 2"}
    same = queries.comparison([one.pk, world.finished(seed=1, instance=tuned).pk])
    assert same.fixed["seed"] == "1"


def test_the_table_is_markdown_and_csv_on_page_and_api(
    world: BenchWorld, tuned: Instance, client_of: ClientOf, api_of: ClientOf
) -> None:
    one, two = world.finished(), world.finished(instance=tuned)
    markdown = client_of("viewer").get(page(one, two, format="md"))
    assert markdown["Content-Type"].startswith("text/markdown")
    assert "| enable_prefix_caching | – | true |" in markdown.content.decode()
    api = api_of("viewer")
    base = f"/api/v1/compare?runs={one.pk},{two.pk}&baseline={one.pk}"
    assert api.get(f"{base}&format=markdown").content == markdown.content
    assert "throughput_ratio" in api.get(f"{base}&format=csv").content.decode()
    told = api.get(base).json()
    assert told["rows"][0]["change"] == {"parameter": "enable_prefix_caching", "baseline": None, "tuned": "true"}
    assert told["rows"][0]["verdict"]["code"] == "one_run"
    assert told["baseline"]["valid_run_ids"] == [one.pk]
    assert told["url"].endswith(f"runs={one.pk},{two.pk}&baseline={one.pk}")


@pytest.mark.parametrize("name", ["tradeoff", "ttft", "tpot", "e2el"])
def test_every_chart_has_a_line_per_side_or_run(
    world: BenchWorld, tuned: Instance, client_of: ClientOf, name: str
) -> None:
    one, two = world.finished(), world.finished(instance=tuned)
    data = client_of("viewer").get(f"{reverse('bench:compare_chart', args=[name])}?runs={one.pk},{two.pk}").json()
    assert len(data["series"]) == 2


def test_measuring_again_asks_for_one_run_of_every_side_with_one_seed(
    world: BenchWorld, tuned: Instance, client_of: ClientOf
) -> None:
    one, two = world.finished(), world.finished(instance=tuned)
    data = {"runs": f"{one.pk},{two.pk}", "baseline": one.pk}
    response = client_of("operator").post(reverse("bench:measure_again"), data)
    made = list(Run.objects.filter(state="queued").order_by("pk"))
    assert [run.instance for run in made] == [world.instance, tuned]
    assert made[0].seed == made[1].seed
    assert response["Location"] == page(one, two, *made, baseline=one.pk)
    content = client_of("viewer").get(response["Location"]).content.decode()
    assert "still being measured" in content
    assert "hx-get=" in content.partition('id="comparison"')[2]


def test_comparing_costs_as_many_queries_for_ten_runs_as_for_two(
    world: BenchWorld, tuned: Instance, django_assert_num_queries: Any
) -> None:
    runs = [world.finished().pk, world.finished(instance=tuned).pk]
    with django_assert_num_queries(2):
        queries.comparison(runs)
    runs += [world.finished(instance=tuned).pk for _ in range(8)]
    with django_assert_num_queries(2):
        queries.comparison(runs)


def test_distributions_cost_as_many_queries_for_six_runs_as_for_two(
    world: BenchWorld, tuned: Instance, django_assert_num_queries: Any
) -> None:
    runs = [world.finished().pk, world.finished(instance=tuned).pk]
    with django_assert_num_queries(3):
        few = queries.curves(runs, "ttft.any.v1")
    runs += [world.finished(instance=tuned).pk for _ in range(4)]
    with django_assert_num_queries(3):
        many = queries.curves(runs, "ttft.any.v1")
    assert [run.pk for run, values in many if values] == runs
    assert many[:2] == few
