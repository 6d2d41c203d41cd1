"""Models and their copies on hosts."""

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from controlplane.core.errors import Conflict, Invalid
from controlplane.drivers.fake import FakeHost
from controlplane.inventory import queries, services
from controlplane.inventory.domain.locations import hub_snapshot
from controlplane.inventory.domain.model_facts import short_count, summary
from controlplane.inventory.models import Host, ModelArtifact, ModelCopy
from controlplane.inventory.tests.samples import model_facts
from controlplane.protocol.shapes import to_wire

MakeHost = Callable[..., Host]
MachineOf = Callable[[Host], FakeHost]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    return make_host("gpu-1", state="reachable")


@pytest.fixture
def machine(host: Host, machine_of: MachineOf) -> FakeHost:
    found = machine_of(host)
    found.models = {"/models/qwen": model_facts("/models/qwen")}
    return found


@pytest.fixture
def config_of(db: None) -> Callable[[str, str], Any]:
    """`config_of("chat", "/models/qwen")`: one more version of a config that serves this model."""

    def make(name: str, model_path: str) -> Any:
        config, _ = apps.get_model("configs", "Config").objects.get_or_create(name=name, created_by="x")
        number = config.versions.count() + 1
        content = {"model": {"model_path": model_path}}
        return config.versions.create(
            number=number, toml=b"", content=content, digest=str(number), file_digest=str(number), author="x"
        )

    return make


def test_a_model_is_read_on_each_host_that_was_named(host: Host, machine: FakeHost) -> None:
    model = services.add_model(location="/models/qwen", hosts=["gpu-1"], actor="ann")
    copy = ModelCopy.objects.get()
    assert (model.name, copy.is_being_read) == ("qwen", True)
    services.inspect_model_copy(copy.pk)
    copy.refresh_from_db()
    assert (copy.is_being_read, copy.error, copy.fact("num_hidden_layers")) == (False, "", 64)
    assert copy.inspected_at is not None


def test_a_missing_directory_is_an_answer_with_a_remedy(host: Host, machine: FakeHost) -> None:
    services.add_model(location="/models/nothing", hosts=["gpu-1"], actor="x")
    copy = ModelCopy.objects.get()
    services.inspect_model_copy(copy.pk)
    copy.refresh_from_db()
    assert (copy.error_code, copy.error_remedy, copy.facts) == ("no_such_path", "Check the path.", {})
    assert Host.objects.get().state == "reachable"


def test_a_silent_host_leaves_what_was_known_of_its_copy(host: Host, machine: FakeHost) -> None:
    copy = services.ensure_copy(host, "/models/qwen")
    services.inspect_model_copy(copy.pk)
    seen_at = ModelCopy.objects.get().inspected_at
    machine.go_offline()
    services.inspect_model_copy(copy.pk)
    copy.refresh_from_db()
    assert (copy.error_code, copy.fact("head_dim"), copy.inspected_at) == ("unreachable", 128, seen_at)


def test_preflight_finds_or_registers_a_copy_and_its_facts(host: Host, machine: FakeHost) -> None:
    assert queries.facts_for(host, "/models/qwen") is None
    copy = services.ensure_copy(host, "/models/qwen")
    assert services.ensure_copy(host, "/models/qwen") == copy
    assert ModelArtifact.objects.get().location == "/models/qwen"
    services.inspect_model_copy(copy.pk)
    found = queries.facts_for(host, "/models/qwen")
    assert found is not None
    assert found.fact("num_key_value_heads") == 8


def test_equal_names_of_different_paths_are_told_apart(host: Host) -> None:
    services.ensure_copy(host, "/a/qwen")
    services.ensure_copy(host, "/b/qwen")
    assert {model.name for model in ModelArtifact.objects.all()} == {"qwen", "qwen-2"}


def test_a_repository_is_read_from_the_cache_by_its_commit(host: Host, machine: FakeHost) -> None:
    path = hub_snapshot("Qwen/Qwen2.5-7B", COMMIT)
    assert path == f"~/.cache/huggingface/hub/models--Qwen--Qwen2.5-7B/snapshots/{COMMIT}"
    machine.models[path] = model_facts(path)
    services.add_model(source="repository", location="Qwen/Qwen2.5-7B", revision=COMMIT, hosts=["gpu-1"], actor="x")
    copy = ModelCopy.objects.get()
    services.inspect_model_copy(copy.pk)
    assert ModelCopy.objects.get().fact("num_hidden_layers") == 64
    assert queries.facts_for(host, "Qwen/Qwen2.5-7B") == copy


def test_a_branch_of_a_repository_cannot_be_read_before_its_download(host: Host, machine: FakeHost) -> None:
    copy = services.ensure_copy(host, "Qwen/Qwen2.5-7B")
    services.inspect_model_copy(copy.pk)
    copy.refresh_from_db()
    assert copy.error_code == "revision_not_a_commit"
    assert "commit" in copy.error_remedy


@pytest.mark.parametrize(
    ("source", "location", "revision", "fields"),
    [
        ("path", "models/qwen", "", {"location"}),
        ("path", "/", "main", {"location", "revision"}),
        ("repository", "a/b/c", "", {"location"}),
        ("repository", "a/../b", "-x", {"location", "revision"}),
    ],
)
def test_every_fault_of_a_location_is_told(
    db: None, source: str, location: str, revision: str, fields: set[str]
) -> None:
    with pytest.raises(Invalid) as error:
        services.add_model(source=source, location=location, revision=revision, hosts=["nowhere"], actor="x")
    assert {problem["field"] for problem in error.value.extra["problems"]} == {*fields, "hosts"}


def test_the_same_weights_twice_are_a_conflict_that_names_the_first(host: Host) -> None:
    services.add_model(location="/models/qwen", name="first", actor="x")
    with pytest.raises(Conflict, match="first"):
        services.add_model(location="/models/qwen", name="second", actor="x")
    with pytest.raises(Conflict, match="There is a model first"):
        services.add_model(location="/models/other", name="first", actor="x")


def test_only_the_latest_version_of_a_config_uses_a_model(config_of: Callable[[str, str], Any]) -> None:
    config_of("chat", "/models/old")
    config_of("chat", "/models/qwen")
    config_of("code", "/models/qwen")
    assert queries.configs_using(["/models/old", "/models/qwen"]) == {"/models/qwen": ["chat", "code"]}


def test_a_model_in_use_is_kept_and_says_by_whom(host: Host, config_of: Callable[[str, str], Any]) -> None:
    model = services.add_model(location="/models/qwen", hosts=["gpu-1"], actor="x")
    version = config_of("chat", "/models/qwen")
    with pytest.raises(Conflict, match="chat"):
        services.remove_model(model=model, actor="x")
    version.delete()
    services.remove_model(model=model, actor="x")
    assert not ModelCopy.objects.exists()


def test_the_figures_that_people_look_for() -> None:
    found = summary(to_wire(model_facts("/m")))
    assert (found.architecture, found.parameters_short, found.is_estimate) == ("Qwen2ForCausalLM", "32.8 B", True)
    assert (found.quantisation, found.dtype, found.max_positions) == ("awq, 4 bit", "float16", 32768)
    assert summary({}).parameters_short is None
    assert [short_count(n) for n in (12, 1_720_000, 671 * 10**9)] == ["12", "1.72 M", "671 B"]


def test_the_model_page_shows_figures_errors_and_remedies(
    host: Host, machine: FakeHost, client_of: Callable[[str], Client], config_of: Callable[[str, str], Any]
) -> None:
    config_of("chat", "/models/qwen")
    for path in ("/models/qwen", "/models/nothing"):
        services.inspect_model_copy(services.ensure_copy(host, path).pk)
    good, bad = (ModelArtifact.objects.get(location=path) for path in ("/models/qwen", "/models/nothing"))
    page = client_of("viewer").get(reverse("inventory:model_detail", args=[good.pk])).content.decode()
    for text in ("32.8 B", "awq, 4 bit", "Qwen2ForCausalLM", "chat", "complete"):
        assert text in page
    page = client_of("viewer").get(reverse("inventory:model_detail", args=[bad.pk])).content.decode()
    assert "There is no /models/nothing on this host." in page
    assert "Check the path." in page
    listing = client_of("viewer").get(reverse("inventory:model_list") + "?host=gpu-1&source=path&sort=-size")
    assert [row["model"].location for row in listing.context["rows"]] == ["/models/qwen", "/models/nothing"]


def test_adding_a_model_on_its_page_keeps_bad_input(host: Host, client_of: Callable[[str], Client]) -> None:
    client, url = client_of("operator"), reverse("inventory:model_add")
    response = client.post(url, {"source": "path", "location": "models/qwen", "hosts": ["gpu-1"], "note": "keep me"})
    assert response.status_code == 422
    assert "location" in response.context["form"].errors
    assert "keep me" in response.content.decode()
    response = client.post(url, {"source": "path", "location": "/models/qwen", "hosts": ["gpu-1"]})
    model = ModelArtifact.objects.get()
    assert response["Location"] == reverse("inventory:model_detail", args=[model.pk])
    client.post(reverse("inventory:model_inspect", args=[model.pk]))
    assert client.post(reverse("inventory:model_remove", args=[model.pk])).status_code == 302
    assert not ModelArtifact.objects.exists()
