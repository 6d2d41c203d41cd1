"""Instance pages in every state: the story, the log beside it, what can be done, and who may do it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from controlplane.fleet.models import Attempt, Instance, State
from controlplane.fleet.reconcile.smoke import ask_smoke
from controlplane.fleet.services.smoking import DEFAULT_PROMPT
from controlplane.fleet.tests.fake_world import UP, FakeWorld, attempt_of

ClientOf = Callable[[str], Client]
HTMX = {"HX-Request": "true"}
STAMP = "INFO 11-29 12:00:{second:02d} [core.py:1] "
WEIGHTS = STAMP.format(second=4) + "Model loading took 14.25 GiB memory and 3.20 seconds\n"
KV_CACHE = STAMP.format(second=6) + "GPU KV cache size: 20,480 tokens\n"
GRAPHS = STAMP.format(second=9) + "Graph capturing finished in 3 secs, took 0.50 GiB\n"
FIRST = STAMP.format(second=0) + "vLLM API server version 0.32.0\n"
BROKEN = FIRST + (
    "ERROR 11-29 12:00:02 [core.py:343] ValueError: To serve at least one request with the models's max seq len "
    "(40960), (5.00 GiB KV cache is needed, which is larger than the available KV cache memory (2.50 GiB). Based on "
    "the available memory, the estimated maximum model length is 20480.\n"
)


def page(client_of: ClientOf, instance: Instance, role: str = "operator", **headers: str) -> str:
    url = reverse("fleet:instance_detail", args=[instance.pk])
    response = client_of(role).get(url, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def step_states(content: str) -> dict[str, str]:
    """step → state, as the page's ids say."""
    ids = [piece.split('"')[0] for piece in content.split('id="step-')[1:]]
    return dict(one.rsplit("-", 1) for one in ids)


def starting(world: FakeWorld, log: str) -> Instance:
    world.server.is_up = False
    instance = world.request(log=log)
    world.step(instance)
    world.step(instance)
    assert instance.state == State.STARTING
    return instance


# -- Every state -----------------------------------------------------------------------------------------------------


def test_a_launch_that_nobody_has_begun_waits_for_its_checks(world: FakeWorld, client_of: ClientOf) -> None:
    content = page(client_of, world.request())
    assert step_states(content)["preflight"] == "running"
    assert "Waiting for a worker." in content
    assert "The log begins" not in content.replace("The log begins when the process has started.", "")


@pytest.mark.parametrize(
    ("log", "running"),
    [
        ("loading\n", "weights"),
        (FIRST + WEIGHTS, "kv_cache"),
        (FIRST + WEIGHTS + KV_CACHE, "graphs"),
        (FIRST + WEIGHTS + KV_CACHE + GRAPHS, "listening"),
    ],
)
def test_a_starting_instance_shows_how_far_it_is(world: FakeWorld, client_of: ClientOf, log: str, running: str) -> None:
    content = page(client_of, starting(world, log))
    states = step_states(content)
    order = list(states)
    place = order.index(running)
    assert states[running] == "running"
    assert all(states[name] in {"done", "warning"} for name in order[:place])
    assert all(states[name] == "waiting" for name in order[place + 1 :])
    assert "<progress" in content


def test_an_eager_engine_captures_no_graphs_and_the_story_says_so(world: FakeWorld, client_of: ClientOf) -> None:
    said = "LLM engine (v0.32.0) with config: model='m', max_seq_len=2048, enforce_eager=True\n"
    content = page(client_of, starting(world, FIRST + said + WEIGHTS + KV_CACHE))
    assert step_states(content)["graphs"] == "skipped"
    assert step_states(content)["listening"] == "running"
    assert "Eager: none are captured." in content


def test_a_ready_instance_tells_the_whole_story_with_predicted_beside_measured(
    world: FakeWorld, client_of: ClientOf
) -> None:
    instance = world.ready(log=FIRST + WEIGHTS + KV_CACHE + GRAPHS + UP)
    Instance.objects.filter(pk=instance.pk).update(predicted_kv_tokens=20000)
    ask_smoke(instance.pk, DEFAULT_PROMPT)
    content = page(client_of, instance)
    assert set(step_states(content).values()) <= {"done", "warning"}
    for text in (
        "14.2 GiB, read in 3.20 s",
        "20,480 tokens measured",
        "20,000 predicted (×1.02)",
        "captured in 3.00 s",
        "after the launch began",
        "Hello.",
        "12 prompt tokens",
        "3 completion tokens",
    ):
        assert text in content, text
    assert f'action="{reverse("fleet:instance_stop", args=[instance.pk])}"' in content
    assert "It serves no environment." in content


def test_steps_that_the_log_did_not_tell_of_are_passed_all_the_same(world: FakeWorld, client_of: ClientOf) -> None:
    states = step_states(page(client_of, world.ready(log=UP)))
    assert states.pop("graphs") == "skipped"
    assert states.pop("smoke") == "running"
    assert set(states.values()) == {"done"}


def test_every_state_is_listed_with_how_long_it_lasted(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    moment = timezone.now() - timedelta(hours=3)
    Instance.objects.filter(pk=instance.pk).update(created_at=moment)
    for minutes, transition in zip((1, 7), instance.transitions.all(), strict=True):
        instance.transitions.filter(pk=transition.pk).update(at=moment + timedelta(minutes=minutes))
    states = page(client_of, instance).partition('id="states-title"')[2].partition('id="events-title"')[0]
    assert states.index("until now") < states.index("6 min") < states.index("1 min")


def test_stopping_an_instance_of_an_environment_names_the_environment(world: FakeWorld, client_of: ClientOf) -> None:
    assert "It serves staging" in page(client_of, world.ready(is_deployed=True))


def test_a_draining_instance_names_what_is_still_there(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready(is_stuck=True)
    stop(client_of, instance)
    world.step(instance)
    assert instance.state == State.DRAINING
    content = page(client_of, instance)
    assert step_states(content)["end"] == "running"
    assert '<td class="wrap">still there</td>' in content
    assert str(attempt_of(instance).process["pid"]) in content
    assert f'hx-get="{reverse("fleet:instance_detail", args=[instance.pk])}"' in content


def test_a_stopped_instance_says_that_nothing_is_left_and_no_longer_refreshes(
    world: FakeWorld, client_of: ClientOf
) -> None:
    instance = world.ready()
    stop(client_of, instance)
    world.step(instance)
    assert instance.state == State.STOPPED
    content = page(client_of, instance)
    assert step_states(content)["end"] == "stopped"
    assert "no process, port or GPU memory of it is left" in content
    assert f'hx-get="{reverse("fleet:instance_detail", args=[instance.pk])}"' not in content
    assert "Launch again" in content


def test_a_launch_refused_by_a_check_opens_that_check_with_its_cure(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.request(model={"max_model_len": 99_999})
    world.step(instance)
    assert attempt_of(instance).outcome == Attempt.Outcome.REFUSED
    content = page(client_of, instance)
    assert step_states(content)["preflight"] == "failed"
    assert step_states(content)["process"] == "skipped"
    for text in (
        "max_model_len 99,999 is longer than the model was made for.",
        "99,999 of at most 32,768 tokens",
        "Lower max_model_len to 32,768 as v2",
        "Nothing was started, so there is no log.",
        "Launch all the same",
    ):
        assert text in content, text


def test_a_start_that_failed_opens_the_step_with_line_and_cure(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.request(log=BROKEN, rc=1)
    world.step(instance)
    world.step(instance)
    attempt = attempt_of(instance)
    assert (instance.state, attempt.outcome) == (State.FAILED, Attempt.Outcome.FAILED)
    content = page(client_of, instance)
    assert step_states(content)["weights"] == "failed"
    assert "Exit code 1" in content
    assert f"Line {attempt.failure_line_number} of the log" in content
    assert f'data-log-line="line-{attempt.pk}-{attempt.failure_line_number}"' in content
    assert "Lower max_model_len to 20,480 as v2" in content
    assert attempt.remedy
    assert attempt.remedy in content


def test_a_crash_names_the_processes_that_outlived_it(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    attempt = attempt_of(instance)
    Attempt.objects.filter(pk=attempt.pk).update(
        outcome=Attempt.Outcome.CRASHED,
        ended_at=timezone.now(),
        exit_signal="SIGKILL",
        failure="The API process was killed.",
        leftovers=[{"pid": 4711, "command": ["VLLM::EngineCore"], "signal": "SIGKILL"}],
    )
    Instance.objects.filter(pk=instance.pk).update(state=State.FAILED, reason="The API process was killed.")
    content = page(client_of, instance)
    assert step_states(content)["first_token"] == "done"
    assert step_states(content)["smoke"] == "skipped"
    assert step_states(content)["end"] == "failed"
    assert "It ended before it answered." in content
    for text in ("Ended by SIGKILL", "4711", "VLLM::EngineCore", "removed with SIGKILL"):
        assert text in content, text


def test_what_was_last_known_of_a_silent_host_is_called_so(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    since = timezone.now() - timedelta(minutes=3)
    Instance.objects.filter(pk=instance.pk).update(is_host_silent=True, observed_at=since)
    content = page(client_of, instance)
    assert "last known, host silent since" in content
    assert "3 min ago" in content
    assert "ready" in content


def test_drift_shows_declared_against_running(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    drift = [{"name": "max_model_len", "declared": "2048", "running": "4096"}]
    Instance.objects.filter(pk=instance.pk).update(drift=drift)
    content = page(client_of, instance)
    assert "It does not run what was declared" in content
    assert "<code>4096</code>" in content


# -- Who, and in which form ------------------------------------------------------------------------------------------


def test_outsiders_are_led_to_the_login(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    attempt = attempt_of(instance)
    for url in (
        reverse("fleet:instance_list"),
        reverse("fleet:instance_detail", args=[instance.pk]),
        reverse("fleet:attempt_detail", args=[attempt.pk]),
        reverse("fleet:attempt_log", args=[attempt.pk]),
        reverse("fleet:attempt_log_download", args=[attempt.pk]),
        reverse("fleet:instance_export", args=[instance.pk, "shell"]),
    ):
        response = client_of("outsider").get(url)
        assert response.status_code == 302, url
        assert response["Location"].startswith(reverse("accounts:login"))


def test_a_viewer_reads_everything_and_is_shown_no_way_to_change_it(world: FakeWorld, client_of: ClientOf) -> None:
    content = page(client_of, world.ready(), "viewer")
    for name in ("Stop", "Smoke test", "Launch another", "Remove"):
        assert f">{name}" not in content, name
    assert "Command line" in content


@pytest.mark.parametrize("action", ["stop", "relaunch", "smoke", "remove"])
def test_a_viewer_may_do_nothing(world: FakeWorld, client_of: ClientOf, action: str) -> None:
    instance = world.ready()
    response = client_of("viewer").post(reverse(f"fleet:instance_{action}", args=[instance.pk]), {"prompt": "Hi"})
    assert response.status_code == 403
    instance.refresh_from_db()
    assert (instance.state, instance.desired) == (State.READY, Instance.Desired.RUNNING)


def test_htmx_gets_the_fragment_alone(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    content = page(client_of, instance, **HTMX)
    assert content.strip().startswith(f'<div id="instance-{instance.pk}"')
    assert "</html>" not in content
    attempt_url = reverse("fleet:attempt_detail", args=[attempt_of(instance).pk])
    fragment = client_of("viewer").get(attempt_url, headers=HTMX).content.decode()
    assert fragment.strip().startswith('<div id="attempt-')


def test_what_is_not_there_is_not_found(db: None, client_of: ClientOf) -> None:
    for name in ("instance_detail", "attempt_detail", "attempt_log", "attempt_log_download"):
        assert client_of("viewer").get(reverse(f"fleet:{name}", args=[987654])).status_code == 404


# -- Actions ---------------------------------------------------------------------------------------------------------


def stop(client_of: ClientOf, instance: Instance) -> None:
    response = client_of("operator").post(reverse("fleet:instance_stop", args=[instance.pk]))
    assert redirects_to_it(response, instance)


def redirects_to_it(response: Any, instance: Instance) -> bool:
    assert isinstance(response, HttpResponse)
    return response.status_code == 302 and response["Location"] == reverse("fleet:instance_detail", args=[instance.pk])


def test_stop_is_wanted_then_and_the_page_says_stopping(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    stop(client_of, instance)
    instance.refresh_from_db()
    assert instance.desired == Instance.Desired.STOPPED
    content = page(client_of, instance)
    assert "stopping" in content
    assert f'action="{reverse("fleet:instance_stop", args=[instance.pk])}"' not in content


def test_a_stopped_instance_can_be_launched_again_and_removed(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    stop(client_of, instance)
    world.step(instance)
    again = client_of("operator").post(reverse("fleet:instance_relaunch", args=[instance.pk]))
    assert redirects_to_it(again, instance)
    instance.refresh_from_db()
    assert instance.state == State.PENDING
    refused = client_of("operator").post(reverse("fleet:instance_remove", args=[instance.pk]))
    assert refused.status_code == 409
    stop(client_of, instance)
    world.step(instance)
    gone = client_of("operator").post(reverse("fleet:instance_remove", args=[instance.pk]))
    assert gone["Location"] == reverse("fleet:instance_list")
    assert not Instance.objects.filter(pk=instance.pk).exists()


def test_a_refused_launch_can_be_launched_all_the_same_with_a_reason(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.request(model={"max_model_len": 99_999})
    world.step(instance)
    url = reverse("fleet:instance_relaunch", args=[instance.pk])
    client_of("operator").post(url, {"override_reason": "the model card allows it"})
    instance.refresh_from_db()
    assert instance.override_reason == "the model card allows it"
    world.step(instance)
    content = page(client_of, instance)
    assert step_states(content)["preflight"] == "warning"
    assert "Launched all the same: the model card allows it" in content


def test_a_reason_that_cannot_be_kept_launches_nothing(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.request(model={"max_model_len": 99_999})
    world.step(instance)
    url = reverse("fleet:instance_relaunch", args=[instance.pk])
    assert client_of("operator").post(url, {"override_reason": "x" * 5000}).status_code == 422
    instance.refresh_from_db()
    assert instance.state == State.FAILED


def test_the_smoke_test_asks_what_was_typed(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    url = reverse("fleet:instance_smoke", args=[instance.pk])
    assert redirects_to_it(client_of("operator").post(url, {"prompt": "Which model are you?"}), instance)
    instance.refresh_from_db()
    assert (instance.smoke["state"], instance.smoke["prompt"]) == ("asked", "Which model are you?")
    assert step_states(page(client_of, instance))["smoke"] == "running"


def test_a_question_that_cannot_be_asked_stays_in_the_form(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    response = client_of("operator").post(
        reverse("fleet:instance_smoke", args=[instance.pk]), {"prompt": "Hello " * 1000}
    )
    assert response.status_code == 422
    assert "Hello Hello" in response.content.decode()
    instance.refresh_from_db()
    assert instance.smoke["prompt"] == DEFAULT_PROMPT


def test_a_launch_is_exported_in_three_forms(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready()
    for form, word in (("shell", "#!/"), ("systemd", "[Service]"), ("compose", "services:")):
        response = client_of("viewer").get(reverse("fleet:instance_export", args=[instance.pk, form]))
        assert response.status_code == 200
        assert word in response.content.decode()
        assert instance.name in response["Content-Disposition"]
    assert client_of("viewer").get(reverse("fleet:instance_export", args=[instance.pk, "helm"])).status_code == 404


def test_a_proposed_change_becomes_a_version_and_the_form_has_it_chosen(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.request(log=BROKEN, rc=1)
    version = instance.config_version
    version.toml = b'[model]\nmodel_path = "/models/qwen"\nmax_model_len = 2048\n'
    version.save()
    world.step(instance)
    world.step(instance)
    url = reverse("fleet:attempt_fix", args=[attempt_of(instance).pk])
    response = client_of("operator").post(url, {"check": "", "fix": "0"})
    made = version.config.versions.get(number=2)
    assert made.content["model"]["max_model_len"] == 20480
    assert f"version={made.pk}" in response["Location"]
    assert f"instance={instance.pk}" in response["Location"]
    assert client_of("viewer").post(url, {"check": "", "fix": "0"}).status_code == 403
    assert client_of("operator").post(url, {"check": "", "fix": "7"}).status_code == 404


# -- Cost ------------------------------------------------------------------------------------------------------------


def test_a_detail_page_costs_as_many_queries_after_many_attempts(
    world: FakeWorld, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    instance = world.ready()
    Attempt.objects.bulk_create(
        Attempt(instance=instance, number=number, launch_id=f"x{number}", outcome="failed") for number in range(2, 32)
    )
    client = client_of("viewer")
    with django_assert_max_num_queries(12):
        assert client.get(reverse("fleet:instance_detail", args=[instance.pk])).status_code == 200
