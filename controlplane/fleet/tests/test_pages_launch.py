"""The list, and the launch form: choose, see what follows, check, launch."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Instance, Preflight, State
from controlplane.fleet.reconcile.preflight import fill_preflight
from controlplane.fleet.tests.fake_world import MODEL, FakeWorld
from controlplane.inventory.models import Accelerator, Engine, Host

ClientOf = Callable[[str], Client]
HTMX = {"HX-Request": "true"}
GIB = 1024**3
LAUNCH = "fleet:launch"


def version_of(world: FakeWorld, **keys: Any) -> ConfigVersion:
    """A version with its file, as an import makes it."""
    version = world.version(model=keys)
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in version.content["model"].items()]
    version.toml = ("[model]\n" + "\n".join(lines) + "\n").encode()
    version.save()
    return version


def choice(world: FakeWorld, version: ConfigVersion, **more: Any) -> dict[str, Any]:
    return {"version": version.pk, "engine": world.engine.pk, **more}


@pytest.fixture
def gpu_world(world: FakeWorld) -> FakeWorld:
    Engine.objects.filter(pk=world.engine.pk).update(device=Engine.Device.GPU)
    for index in range(2):
        Accelerator.objects.create(
            host=world.host,
            uuid=f"GPU-{index}",
            index=index,
            name="NVIDIA H200",
            memory_total_bytes=141 * GIB,
            memory_used_bytes=index * 60 * GIB,
            processes=[{"pid": 77, "user": "eve", "command": ["train.py"], "memory_bytes": 60 * GIB}] if index else [],
        )
    return world


# -- The list --------------------------------------------------------------------------------------------------------


def test_an_empty_list_says_what_belongs_there_and_launches_the_first(db: None, client_of: ClientOf) -> None:
    content = client_of("operator").get(reverse("fleet:instance_list")).content.decode()
    assert "No instances yet" in content
    assert "Launch the first" in content
    assert "Launch the first" not in client_of("viewer").get(reverse("fleet:instance_list")).content.decode()


def test_the_list_shows_state_place_and_figures(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.ready(is_deployed=True)
    figures = {"running": 3, "waiting": 2, "kv_usage_mean": 0.41, "output_throughput": 412.4}
    Instance.objects.filter(pk=instance.pk).update(metrics=figures, measured_kv_tokens=20480, ready_s=8.42)
    content = client_of("viewer").get(reverse("fleet:instance_list")).content.decode()
    for text in (instance.name, "ready", "staging", world.host.name, "CPU", "3 / 2", "41 %", "412", "20,480", "8.4"):
        assert text in content, text
    assert 'hx-trigger="every 5s"' in content


def test_a_failed_instance_says_why_in_the_list_and_nothing_refreshes(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.request(model={"max_model_len": 99_999})
    world.step(instance)
    content = client_of("viewer").get(reverse("fleet:instance_list")).content.decode()
    assert "max_model_len 99,999 is longer" in content
    assert "every 5s" not in content


def test_the_list_is_filtered_sorted_and_exported(world: FakeWorld, client_of: ClientOf) -> None:
    served, asked = world.ready(is_deployed=True), world.request()
    client, url = client_of("viewer"), reverse("fleet:instance_list")
    for query, found, missing in (
        ("?state=ready", served, asked),
        ("?state=pending", asked, served),
        (f"?config={asked.config_version.config.name}", asked, served),
        ("?environment=staging", served, asked),
        (f"?q={asked.name}", asked, served),
    ):
        content = client.get(url + query, headers=HTMX).content.decode()
        assert f'id="instance-{found.pk}"' in content, query
        assert f'id="instance-{missing.pk}"' not in content, query
        assert "</html>" not in content
    content = client.get(url + "?sort=-state").content.decode()
    assert content.index(f'id="instance-{served.pk}"') < content.index(f'id="instance-{asked.pk}"')
    assert "Show all instances" in client.get(url + "?q=nothing-like-it").content.decode()
    exported = client.get(url + "?format=csv&state=ready").content.decode().splitlines()
    assert exported[0].startswith("name,state,state_since,reason,config,version")
    assert [row.split(",")[0] for row in exported[1:]] == [served.name]


def test_a_longer_list_costs_no_more_queries(
    world: FakeWorld, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    version = world.version()
    Instance.objects.bulk_create(
        Instance(
            name=f"many-{number}",
            config_version=version,
            host=world.host,
            engine=world.engine,
            port=9000 + number,
            sealed_key=b"",
            created_by="x",
        )
        for number in range(30)
    )
    client, url = client_of("viewer"), reverse("fleet:instance_list")
    with django_assert_max_num_queries(8):
        assert client.get(url).content.decode().count('id="instance-') == 30
    with django_assert_max_num_queries(5):
        client.get(url, headers=HTMX)


# -- Choosing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "status"), [("outsider", 302), ("viewer", 403), ("operator", 200)])
def test_only_operators_launch(world: FakeWorld, client_of: ClientOf, role: str, status: int) -> None:
    version = version_of(world)
    assert client_of(role).get(reverse(LAUNCH)).status_code == status
    posted = client_of(role).post(reverse(LAUNCH), choice(world, version, do="launch"))
    assert posted.status_code == (302 if role != "viewer" else 403)
    assert Instance.objects.count() == (role == "operator")


def test_without_configs_or_engines_the_form_says_what_is_missing(db: None, client_of: ClientOf) -> None:
    assert "Import the first config" in client_of("operator").get(reverse(LAUNCH)).content.decode()


def test_choosing_shows_the_command_line_at_once(world: FakeWorld, client_of: ClientOf) -> None:
    version = version_of(world)
    client, url = client_of("operator"), reverse(LAUNCH)
    assert "Choose a version and an engine" in client.get(url).content.decode()
    fragment = client.get(url, choice(world, version, port=8123), headers=HTMX).content.decode()
    assert fragment.strip().startswith('<div id="launch">')
    for text in ("every flag is known", "/opt/vllm/bin/vllm serve", "--port 8123", "--max-model-len 2048"):
        assert text in fragment, text


def test_a_flag_that_the_engine_does_not_have_is_refused_before_launch(world: FakeWorld, client_of: ClientOf) -> None:
    version = version_of(world)
    version.toml = bytes(version.toml) + b"[scheduler]\nswap_space = 4\n"
    version.content["scheduler"] = {"swap_space": 4}
    version.save()
    content = client_of("operator").get(reverse(LAUNCH), choice(world, version)).content.decode()
    assert "1 key is refused by this engine" in content
    assert "Take out what it refuses, as v2" in content
    url = reverse("fleet:version_fix", args=[version.pk])
    response = client_of("operator").post(url, {"engine": world.engine.pk, "port": "8123"})
    made = version.config.versions.get(number=2)
    assert "scheduler" not in made.content
    fixed = client_of("operator").get(response["Location"]).content.decode()
    assert f'<option id="version-{made.pk}" value="{made.pk}" selected>' in fixed
    assert "every flag is known" in fixed
    assert client_of("viewer").post(url, {"engine": world.engine.pk}).status_code == 403


def test_gpus_are_offered_with_what_holds_them(gpu_world: FakeWorld, client_of: ClientOf) -> None:
    version = version_of(gpu_world)
    content = client_of("operator").get(reverse(LAUNCH), choice(gpu_world, version, gpu="GPU-0")).content.decode()
    assert 'value="GPU-0" form="launch-form" checked' in content
    assert 'value="GPU-1" form="launch-form">' in content
    for text in ("NVIDIA H200", "60 GiB / 141 GiB", "pid 77, eve, train.py, 60 GiB", "free"):
        assert text in content, text


def test_an_engine_that_cannot_be_used_is_there_with_its_reason(world: FakeWorld, client_of: ClientOf) -> None:
    version_of(world)
    Host.objects.filter(pk=world.host.pk).update(is_in_maintenance=True)
    content = client_of("operator").get(reverse(LAUNCH)).content.decode()
    assert " disabled>" in content
    assert "(in maintenance)" in content


def test_an_instance_or_a_host_preselects_the_place(world: FakeWorld, client_of: ClientOf) -> None:
    instance = world.request(port=8456)
    Instance.objects.filter(pk=instance.pk).update(state=State.STOPPED)
    client = client_of("operator")
    content = client.get(reverse(LAUNCH), {"instance": instance.pk}).content.decode()
    assert f'value="{instance.config_version_id}" selected>' in content
    assert f'<option id="engine-{world.engine.pk}" value="{world.engine.pk}" selected>' in content
    assert 'value="8456"' in content
    content = client.get(reverse(LAUNCH), {"host": world.host.pk}).content.decode()
    assert f'<option id="engine-{world.engine.pk}" value="{world.engine.pk}" selected>' in content


@pytest.mark.parametrize("value", ["x", "-1", "9" * 30, "\x00"])
def test_an_address_with_nonsense_shows_the_form(world: FakeWorld, client_of: ClientOf, value: str) -> None:
    version_of(world)
    query = dict.fromkeys(("version", "engine", "instance", "host", "preflight", "port", "gpu"), value)
    assert client_of("operator").get(reverse(LAUNCH), query).status_code == 200


# -- Checking and launching ------------------------------------------------------------------------------------------


def checked(client: Client, world: FakeWorld, version: ConfigVersion, **more: Any) -> tuple[Preflight, str]:
    """Press “Check” and follow."""
    response = client.post(reverse(LAUNCH), choice(world, version, do="check", **more))
    assert response.status_code == 302, response.content.decode()
    return Preflight.objects.get(), response["Location"]


def test_check_asks_the_host_and_the_page_follows(world: FakeWorld, client_of: ClientOf) -> None:
    client = client_of("operator")
    preflight, location = checked(client, world, version_of(world), port=8123)
    poll = reverse("fleet:preflight_detail", args=[preflight.pk])
    asking = client.get(location).content.decode()
    assert f'hx-get="{poll}"' in asking
    assert f"asking {world.host.name}" in asking
    assert 'value="8123"' in asking
    fill_preflight(preflight.pk)
    found = client.get(poll, headers=HTMX).content.decode()
    assert found.strip().startswith("<section")
    assert "hx-get" not in found
    assert "It can be launched." in found
    assert "Port 8123 is free." in found


def test_a_host_that_cannot_be_asked_says_why(world: FakeWorld, client_of: ClientOf) -> None:
    client = client_of("operator")
    preflight, location = checked(client, world, version_of(world))
    Preflight.objects.filter(pk=preflight.pk).update(state="failed", error="gpu-1 is silent.", error_remedy="Wake it.")
    content = client.get(location).content.decode()
    assert "gpu-1 is silent." in content
    assert "Wake it." in content


def test_a_failed_check_shows_sum_and_cure_and_wants_a_reason(world: FakeWorld, client_of: ClientOf) -> None:
    client, version = client_of("operator"), version_of(world, max_model_len=99_999)
    preflight, location = checked(client, world, version)
    fill_preflight(preflight.pk)
    content = client.get(location).content.decode()
    for text in ("It would be refused.", "99,999 of at most 32,768 tokens", "Lower max_model_len to 32,768 as v2"):
        assert text in content, text
    launch = choice(world, version, do="launch", preflight=preflight.pk, override_reason=" ")
    refused = client.post(reverse(LAUNCH), launch)
    assert refused.status_code == 422
    assert "A check failed." in refused.content.decode()
    assert not Instance.objects.exists()
    client.post(reverse(LAUNCH), {**launch, "override_reason": "rope is set"})
    assert Instance.objects.get().override_reason == "rope is set"


def test_the_cure_becomes_a_version_and_is_chosen(world: FakeWorld, client_of: ClientOf) -> None:
    client, version = client_of("operator"), version_of(world, max_model_len=99_999)
    preflight, _location = checked(client, world, version, port=8123)
    fill_preflight(preflight.pk)
    url = reverse("fleet:preflight_fix", args=[preflight.pk])
    response = client.post(url, {"check": "context", "fix": "0", "port": "8123"})
    made = version.config.versions.get(number=2)
    assert made.content["model"] == {"model_path": MODEL, "max_model_len": 32768}
    assert made.note == "lower max_model_len to 32,768, proposed by preflight"
    content = client.get(response["Location"]).content.decode()
    assert f'<option id="version-{made.pk}" value="{made.pk}" selected>' in content
    assert 'value="8123"' in content
    assert client.post(url, {"check": "context", "fix": "9"}).status_code == 404
    assert client_of("viewer").post(url, {"check": "context", "fix": "0"}).status_code == 403


def test_a_check_of_other_choices_is_not_shown_for_these(world: FakeWorld, client_of: ClientOf) -> None:
    client = client_of("operator")
    preflight, _location = checked(client, world, version_of(world))
    other = version_of(world)
    content = client.get(reverse(LAUNCH), choice(world, other, preflight=preflight.pk)).content.decode()
    assert "The choices changed since the check." in content
    assert f'id="preflight-{preflight.pk}"' not in content


def test_launch_leads_to_the_instance(gpu_world: FakeWorld, client_of: ClientOf) -> None:
    version = version_of(gpu_world)
    data = choice(gpu_world, version, do="launch", gpu=["GPU-1"], port=8300)
    response = client_of("operator").post(reverse(LAUNCH), data)
    instance = Instance.objects.get()
    assert response["Location"] == reverse("fleet:instance_detail", args=[instance.pk])
    assert (instance.config_version, instance.gpu_uuids, instance.port) == (version, ["GPU-1"], 8300)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"port": "70000"}, "less than or equal to 65535"),
        ({"engine": ""}, "Choose where to launch it."),
        ({"version": "9999999"}, "This version is not there any more."),
        ({"gpu": "GPU-of-another-host"}, "has no GPU GPU-of-another-host"),
        ({"override_reason": "x" * 5000}, "at most 4000 characters"),
    ],
)
def test_a_mistake_keeps_the_input(world: FakeWorld, client_of: ClientOf, wrong: dict[str, str], words: str) -> None:
    version = version_of(world)
    data = {**choice(world, version, do="launch", port=8123), **wrong}
    response = client_of("operator").post(reverse(LAUNCH), data)
    content = response.content.decode()
    assert response.status_code == 422
    assert words in content
    assert f'value="{data["port"]}"' in content
    assert not Instance.objects.exists()


def test_a_taken_port_is_told_with_the_way_out(world: FakeWorld, client_of: ClientOf) -> None:
    world.request(port=8123)
    response = client_of("operator").post(reverse(LAUNCH), choice(world, version_of(world), do="launch", port=8123))
    assert response.status_code == 422
    assert "belongs to a live instance" in response.content.decode()
    assert "Choose another port" in response.content.decode()


def test_the_form_costs_as_many_queries_with_many_versions(
    world: FakeWorld, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    version = version_of(world)
    ConfigVersion.objects.bulk_create(
        ConfigVersion(
            config=version.config,
            number=number,
            toml=version.toml,
            content=version.content,
            digest=f"d{number}",
            file_digest=f"f{number}",
            author="x",
            created_at=timezone.now(),
        )
        for number in range(2, 40)
    )
    client = client_of("operator")
    with django_assert_max_num_queries(14):
        assert client.get(reverse(LAUNCH), choice(world, version)).content.decode().count("<option") > 39
