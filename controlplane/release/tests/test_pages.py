"""Pages of environments: they work, outsiders are led to the login, viewers read only, fragments are fragments."""

import csv
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.bench.models import Run, Workload
from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Deployment, Environment, Instance, State
from controlplane.fleet.queries import CHOICES_LISTED
from controlplane.inventory.models import Accelerator, Engine, Host
from controlplane.release import services
from controlplane.release.models import Promotion
from controlplane.release.tests.test_api import many
from controlplane.release.tests.worlds import ReleaseWorld

ClientOf = Callable[[str], Client]
HTMX = {"HX-Request": "true"}
LIST = "/environments/"
PROMOTE = "/environments/promote/"


def environment_page(name: str = "staging") -> str:
    return reverse("release:environment_detail", args=[Environment.objects.get(name=name).pk])


def page(promotion: Promotion) -> str:
    return reverse("release:promotion_detail", args=[promotion.pk])


def text(response: Any) -> str:
    return " ".join(response.content.decode().split())


@pytest.fixture
def two(world: ReleaseWorld) -> Promotion:
    """v2 serves staging in place of v1, on one run."""
    world.live(1, runs=[world.run(world.version(1))])
    return world.live(2, runs=[world.run(world.version(2))])


def test_every_page_works_for_a_viewer_and_offers_nothing_to_press(two: Promotion, client_of: ClientOf) -> None:
    for url in (LIST, environment_page(), environment_page("production"), page(two)):
        response = client_of("viewer").get(url)
        assert response.status_code == 200, url
        assert "</html>" in text(response)
        assert "promote-form" not in text(response)
        assert "/rollback/" not in text(response)
        assert "/abort/" not in text(response)


def test_outsiders_are_led_to_the_login(two: Promotion, client_of: ClientOf) -> None:
    for url in (LIST, environment_page(), page(two), PROMOTE):
        response = client_of("outsider").get(url)
        assert response.status_code == 302
        assert "/login" in response["Location"]


def test_a_viewer_changes_nothing(two: Promotion, client_of: ClientOf) -> None:
    viewer = client_of("viewer")
    assert viewer.get(PROMOTE).status_code == 403
    for name, pk in (
        ("promotion_abort", two.pk),
        ("roll_back", two.deployment_id),
        ("deployment_stop", two.deployment_id),
    ):
        assert viewer.post(reverse(f"release:{name}", args=[pk])).status_code == 403, name
    assert viewer.post(PROMOTE, {}).status_code == 403
    assert Promotion.objects.count() == 2


def test_without_any_promotion_the_pages_say_what_belongs_there(world: ReleaseWorld, client_of: ClientOf) -> None:
    found = text(client_of("operator").get(LIST))
    assert "Nothing is promoted yet" in found
    assert "Promote the first version" in found
    assert "Nothing is promoted here yet" in text(client_of("operator").get(environment_page()))


def test_what_serves_since_when_by_whom_on_which_evidence_is_one_look(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    world.run(world.version(3))
    found = text(client_of("operator").get(LIST))
    assert "1 of 1 serving." in found
    assert "qwen-v2-1" in found
    assert "by olga" in found
    assert "402 tok/s" in found
    assert "waiting, evidence ready" in found
    assert "Promote v3" in found
    assert "Go back to v1" in found
    assert "Starts qwen v1 from" in found
    assert "stops qwen-v2-1 once it serves" in found
    assert found.index("production") < found.index("staging")


def test_evidence_that_no_longer_matches_is_said_in_words(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    run = two.runs.get()
    Run.objects.filter(pk=run.pk).update(state="invalid")
    found = text(client_of("viewer").get(LIST))
    assert f"Run {run.pk}: invalid, so the numbers prove nothing." in found


def test_what_is_down_says_why_and_offers_to_start_it_again(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    Instance.objects.filter(promotions=two).update(state=State.FAILED, reason="Out of memory.")
    found = text(client_of("operator").get(environment_page()))
    assert "qwen-v2-1 does not run." in found
    assert "Out of memory." in found
    assert "Start v2 again" in found


def test_a_rollout_shows_its_steps_refreshes_and_can_be_given_up(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    promotion = world.promote(3)
    for _ in range(2):
        world.tick(promotion)
    operator = client_of("operator")
    for url in (LIST, environment_page(), page(promotion)):
        found = text(operator.get(url))
        assert "Start qwen v3" in found, url
        assert "Drain and stop qwen-v2-1" in found
        assert 'hx-trigger="every 2s"' in found
        assert reverse("release:promotion_abort", args=[promotion.pk]) in found
    assert "listens on port 8000 instead of 8001" in text(operator.get(page(promotion)))

    operator.post(reverse("release:promotion_abort", args=[promotion.pk]))
    world.settle(promotion)
    found = text(operator.get(page(promotion)))
    assert "Given up. qwen-v2-1 serves as before." in found
    assert 'hx-trigger="every' not in found


def test_fragments_are_fragments(world: ReleaseWorld, two: Promotion, client_of: ClientOf) -> None:
    client = client_of("operator")
    for url, element in (
        (LIST, "environments"),
        (environment_page() + "?part=live", "deployments"),
        (environment_page() + "?q=faster", "history"),
        (page(two), f"promotion-{two.pk}"),
        (f"{PROMOTE}?version={two.config_version_id}", "promote"),
    ):
        found = text(client.get(url, headers=HTMX))
        assert found.startswith(f'<div id="{element}"'), url
        assert "</html>" not in found


def test_history_is_filtered_sorted_and_exported(world: ReleaseWorld, two: Promotion, client_of: ClientOf) -> None:
    client = client_of("viewer")
    assert "No promotion fits this filter." in text(client.get(environment_page() + "?state=failed"))
    for query in ("sort=-duration", "sort=version", "who=olga&config=qwen", "state=under_way", "sort=nonsense&page=99"):
        assert client.get(f"{environment_page()}?{query}").status_code == 200, query
    rows = list(csv.reader(client.get(environment_page() + "?format=csv").content.decode().splitlines()))
    assert rows[0][:4] == ["id", "environment", "config", "version"]
    assert [row[3:7] for row in rows[1:]] == [
        ["2", "1", "live", "It is faster."],
        ["1", "", "superseded", "It is faster."],
    ]


def test_a_promotion_tells_how_it_went(world: ReleaseWorld, two: Promotion, client_of: ClientOf) -> None:
    found = text(client_of("viewer").get(page(two)))
    assert "max_num_seqs 8 → 16" in found
    assert "Drain and stop qwen-v1-1" in found
    assert "promotion.finished" in found
    assert f'href="{environment_page()}"' in found


def test_a_promotion_costs_as_many_queries_on_more_evidence(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    client = client_of("viewer")
    client.get(page(two))
    with django_assert_max_num_queries(16) as few:
        client.get(page(two))
    for number in range(4):
        workload = Workload.objects.create(name=f"load-{number}", spec={}, digest=f"w{number}")
        two.runs.add(world.run(world.version(2), workload=workload, workload_digest=workload.digest))
    with django_assert_max_num_queries(len(few)):
        assert "load-3: median of 1 run" in text(client.get(page(two)))


def test_a_failed_one_says_why(world: ReleaseWorld, two: Promotion, client_of: ClientOf) -> None:
    world.fails(3)
    promotion = world.promote(3)
    world.settle(promotion)
    found = text(client_of("viewer").get(page(promotion)))
    assert "The new one did not come up; qwen-v2-1 serves." in found
    assert "Log of qwen-v3-1" in found


# -- Promote ---------------------------------------------------------------------------------------------------------


def test_the_address_fills_in_place_and_evidence_and_shows_what_would_happen(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    first, second = world.run(world.version(3)), world.run(world.version(3))
    url = f"{PROMOTE}?environment=staging&version={world.version(3).pk}"
    found = text(client_of("operator").get(url))
    assert f'value="{first.pk}" form="promote-form" checked' in found
    assert f'value="{second.pk}" form="promote-form" checked' in found
    assert f'<option id="engine-{world.fleet.engine.pk}" value="{world.fleet.engine.pk}" selected>' in found
    assert "qwen-v2-1 is drained and stopped once the new one has answered" in found
    assert "max_num_seqs" in found
    assert "×1.00" in found
    found = text(client_of("operator").get(f"{url}&runs={second.pk}"))
    assert f'value="{first.pk}" form="promote-form">' in found
    assert f'value="{second.pk}" form="promote-form" checked' in found


def test_a_ready_instance_of_the_version_is_taken_over_unless_one_says_otherwise(
    world: ReleaseWorld, client_of: ClientOf
) -> None:
    measured = world.measured_instance(1)
    url = f"{PROMOTE}?environment=staging&version={world.version(1).pk}"
    found = text(client_of("operator").get(url))
    assert f'<option value="{measured.pk}" selected>Take over {measured.name}' in found
    assert "A reason is needed." in found
    again = f"{url}&of={world.version(1).pk}&into=staging&instance="
    assert '<option value="" selected>Launch a new instance' in text(client_of("operator").get(again))


def test_promoting_leads_to_the_promotion(world: ReleaseWorld, client_of: ClientOf) -> None:
    run = world.run(world.version(1))
    sent = {"environment": "staging", "version": world.version(1).pk, "engine": world.fleet.engine.pk, "runs": [run.pk]}
    response = client_of("operator").post(PROMOTE, sent)
    promotion = Promotion.objects.get()
    assert (response.status_code, response["Location"]) == (302, page(promotion))
    assert (list(promotion.runs.all()), promotion.created_by) == ([run], "operator")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"runs": []}, "neither evidence nor a reason"),
        ({"engine": ""}, "Choose where to launch it"),
        ({"version": ""}, "Choose a version."),
        ({"environment": "moon"}, "There is no such environment."),
        ({"environment": "a\x00b"}, "There is no such environment."),
        ({"gpu": ["GPU-9"]}, "GPU-9"),
    ],
)
def test_what_cannot_be_promoted_comes_back_with_what_was_typed(
    world: ReleaseWorld, client_of: ClientOf, change: dict[str, Any], said: str
) -> None:
    sent: dict[str, Any] = {
        "environment": "staging",
        "version": world.version(1).pk,
        "engine": world.fleet.engine.pk,
        "runs": [world.run(world.version(1)).pk],
    }
    response = client_of("operator").post(PROMOTE, {**sent, **change})
    assert response.status_code == 422
    assert said in text(response)
    assert not Promotion.objects.exists()


def test_nonsense_in_the_address_is_no_error(world: ReleaseWorld, client_of: ClientOf) -> None:
    client = client_of("operator")
    for query in ("version=x&environment=%00&runs=a,b&instance=-1&engine=99999999999999999999", "environment=moon"):
        assert client.get(f"{PROMOTE}?{query}").status_code == 200, query
    version = world.version(1).pk
    assert client.get(f"{PROMOTE}?version={version}&runs=99999999999999999999,²&instance=zz").status_code == 200


def test_long_choices_list_the_first_and_are_searched_without_losing_what_is_chosen(
    world: ReleaseWorld, client_of: ClientOf
) -> None:
    oldest = world.version(1)
    many_versions(world, 60)
    *_others, last = many_engines(60)
    client = client_of("operator")
    url = f"{PROMOTE}?version={oldest.pk}&engine={last.pk}"
    content = client.get(url).content.decode()
    assert content.count('<option id="version-') == 1 + 1 + CHOICES_LISTED
    assert content.count('<option id="engine-') == 1 + 1 + CHOICES_LISTED
    assert content.count("Search for the others.") == 2
    found = text(client.get(f"{url}&part=find_engine&engine_q=rack-007", headers=HTMX))
    assert found.startswith('<div id="engine-choice">')
    assert found.count('<option id="engine-') == 1 + 2
    assert f'value="{last.pk}" selected' in found
    assert "rack-007 – vLLM" in found
    found = text(client.get(f"{url}&part=find_version&version_q=v60", headers=HTMX))
    assert found.startswith('<div id="version-choice">')
    assert found.count('<option id="version-') == 1 + 2
    assert f'value="{oldest.pk}" selected' in found


def test_only_gpus_of_the_chosen_host_are_shown_and_taken(world: ReleaseWorld, client_of: ClientOf) -> None:
    [first, second] = many_engines(2)
    client = client_of("operator")
    url = f"{PROMOTE}?version={world.version(1).pk}&engine={second.pk}"
    found = text(client.get(url))
    assert f'name="gpu" value="GPU-{second.host.name}"' in found
    assert f"GPU-{first.host.name}" not in found
    sent = {"environment": "staging", "version": world.version(1).pk, "engine": first.pk, "why": "Because."}
    refused = client.post(PROMOTE, {**sent, "gpu": [f"GPU-{second.host.name}"]})
    assert refused.status_code == 422
    assert f"GPU-{second.host.name} is not one of the available choices" in text(refused)
    assert client.post(PROMOTE, {**sent, "gpu": [f"GPU-{first.host.name}"]}).status_code == 302


def test_the_form_costs_as_many_queries_with_more_of_everything(
    world: ReleaseWorld, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    world.live(1, runs=[world.run(world.version(1))])
    world.run(world.version(2))
    [engine] = many_engines(1)
    client, url = client_of("operator"), f"{PROMOTE}?version={world.version(2).pk}&engine={engine.pk}"
    client.get(url)
    with django_assert_max_num_queries(32) as few:
        client.get(url)
    for _ in range(9):
        world.run(world.version(2))
    many_versions(world, 60)
    many_engines(60)
    with django_assert_max_num_queries(len(few)):
        client.get(url)


def many_versions(world: ReleaseWorld, count: int) -> None:
    """Versions of another config, newer than all there are."""
    first = world.fleet.version()
    ConfigVersion.objects.bulk_create(
        ConfigVersion(
            config=first.config, number=number, toml=b"", content=first.content, digest=f"d{number}",
            file_digest=f"f{number}", author="test",
        )
        for number in range(2, count + 1)
    )  # fmt: skip


def many_engines(count: int) -> list[Engine]:
    """On hosts of their own, with a GPU each."""
    taken = Host.objects.count()
    hosts = Host.objects.bulk_create(
        Host(name=f"rack-{number:03}", transport="ssh") for number in range(taken, taken + count)
    )
    Accelerator.objects.bulk_create(
        Accelerator(host=host, uuid=f"GPU-{host.name}", index=0, name="NVIDIA H100", processes=[]) for host in hosts
    )
    return Engine.objects.bulk_create(
        Engine(host=host, executable="/opt/vllm/bin/vllm", version="0.18.1") for host in hosts
    )


def test_going_back_and_taking_out_of_service_are_one_click(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    client = client_of("operator")
    response = client.post(reverse("release:roll_back", args=[two.deployment_id]), {"why": "Worse answers."})
    back = Promotion.objects.latest("id")
    assert (response["Location"], back.is_rollback, back.why) == (page(back), True, "Worse answers.")
    refused = client.post(reverse("release:deployment_stop", args=[two.deployment_id]))
    assert refused.status_code == 409
    assert "under way" in text(refused)
    world.settle(back)
    response = client.post(reverse("release:deployment_stop", args=[two.deployment_id]))
    assert response["Location"] == environment_page()
    assert "out of service" in text(client.get(environment_page()))


@pytest.mark.parametrize("which", ["list", "detail", "promote"])
def test_a_page_costs_as_many_queries_at_any_length(
    world: ReleaseWorld, client_of: ClientOf, django_assert_max_num_queries: Any, which: str
) -> None:
    world.live(1, runs=[world.run(world.version(1))])
    many(world, 3)
    url = {"list": LIST, "detail": environment_page(), "promote": f"{PROMOTE}?version={world.version(1).pk}"}[which]
    client = client_of("operator")
    client.get(url)
    with django_assert_max_num_queries(45) as few:
        client.get(url)
    many(world, 27)
    with django_assert_max_num_queries(len(few)):
        client.get(url)


def test_many_deployments_are_shown_with_the_urgent_first_and_the_rest_a_click_away(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    many(world, 25)
    Promotion.objects.filter(state="rolling").delete()
    Instance.objects.filter(promotions=two).update(state=State.FAILED)
    client = client_of("viewer")
    found = text(client.get(LIST))
    assert (found.count("<article"), "25 of 26 serving." in found, "21 more" in found) == (5, True, True)
    assert found.index("qwen-v2-1 does not run") < found.index("chat-")


def test_deployments_of_an_environment_come_ten_at_a_time_and_each_once(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    many(world, 25)
    client, seen = client_of("viewer"), []
    for start, said, ways in ((0, "1–10 of 26", 1), (10, "11–20 of 26", 2), (20, "21–26 of 26", 1)):
        found = text(client.get(f"{environment_page()}?start={start}&q=faster"))
        seen += re.findall(r'<article class="deployment" id="deployment-(\d+)"', found)
        [pager] = re.findall(r'<nav class="pager" aria-label="Deployments">.*?</nav>', found)
        assert said in pager
        assert (pager.count("href="), pager.count("&amp;q=faster")) == (ways, ways)
        assert f'hx-get="{environment_page()}?start={start}&amp;q=faster&amp;part=live"' in found
    assert sorted(map(int, seen)) == sorted(Deployment.objects.values_list("pk", flat=True))
    beyond = text(client.get(f"{environment_page()}?start=990"))
    assert "1–10 of 26" in beyond
    assert client.get(f"{environment_page()}?start=x").status_code == 200
    for name in Deployment.objects.values_list("name", flat=True):
        assert f"<option>{name}</option>" in found


def test_a_deployment_that_was_stopped_offers_to_start_it_again(
    world: ReleaseWorld, two: Promotion, client_of: ClientOf
) -> None:
    services.stop_serving(world.deployment(), actor="olga")
    assert two.instance is not None
    world.fleet.step(two.instance)
    found = text(client_of("operator").get(LIST))
    assert "out of service" in found
    assert "Start v2 again" in found
    assert "v2 served last" in found
