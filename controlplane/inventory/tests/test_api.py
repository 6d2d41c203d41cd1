"""The REST API of the inventory: the same rules as the pages."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.core.models import Secret
from controlplane.drivers.fake import FakeHost
from controlplane.inventory import services
from controlplane.inventory.models import Engine, Host, ModelArtifact
from controlplane.inventory.tests.samples import engine, gpu_report, options
from controlplane.inventory.tests.test_pages import fill

ApiOf = Callable[[str], Client]
MakeHost = Callable[..., Host]
JSON = "application/json"


def ssh_body(private_key: str, **more: Any) -> dict[str, Any]:
    way = {"address": "192.0.2.1", "username": "vllm", "new_key": private_key}
    return {"name": "gpu-1", "ssh": {**way, **more}}


@pytest.fixture
def probed(make_host: MakeHost, machine_of: Callable[[Host], FakeHost]) -> Host:
    host = make_host("gpu-1")
    machine = machine_of(host)
    machine.gpu, machine.engines = gpu_report(0, 1), [engine()]
    machine.options = {"/opt/vllm/bin/vllm": options()}
    services.probe_host(host.pk)
    return host


def test_a_host_is_added_read_changed_and_removed(api_of: ApiOf, private_key: str) -> None:
    api = api_of("admin")
    response = api.post("/api/v1/hosts", ssh_body(private_key), content_type=JSON)
    assert response.status_code == 201, response.json()
    host = response.json()
    assert (host["state"], host["is_probing"], host["key_name"]) == ("new", True, "ssh-gpu-1")
    assert private_key.splitlines()[1] not in response.content.decode()
    url = f"/api/v1/hosts/{host['id']}"
    changed = api.patch(url, {"note": "rack 4", "is_in_maintenance": True}, content_type=JSON).json()
    assert (changed["note"], changed["is_in_maintenance"]) == ("rack 4", True)
    assert api.get(url).json()["note"] == "rack 4"
    assert api.delete(url).status_code == 204
    assert api.get(url).status_code == 404


def test_every_fault_comes_back_with_its_field(api_of: ApiOf, private_key: str) -> None:
    body = {**ssh_body(private_key, address="a b", port=0, jump_host="nowhere"), "name": "GPU"}
    response = api_of("admin").post("/api/v1/hosts", body, content_type=JSON)
    assert response.status_code == 422
    assert {problem["field"] for problem in response.json()["problems"]} == {"name", "address", "port", "jump_host"}
    assert not Secret.objects.exists()


@pytest.mark.parametrize("body", [{"name": "a"}, {"name": "a\u0000", "transport": "local"}, {"name": "a", "ssh": {}}])
def test_a_body_that_cannot_be_used_is_refused(api_of: ApiOf, body: dict[str, Any]) -> None:
    response = api_of("admin").post("/api/v1/hosts", body, content_type=JSON)
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"


def test_roles_are_those_of_the_pages(api_of: ApiOf, probed: Host, private_key: str) -> None:
    url = f"/api/v1/hosts/{probed.pk}"
    for role, probe, maintenance, manage in (("viewer", 403, 403, 403), ("operator", 202, 200, 403)):
        api = api_of(role)
        assert api.get("/api/v1/hosts").status_code == 200
        assert api.post(f"{url}/probe").status_code == probe
        assert api.patch(url, {"is_in_maintenance": True}, content_type=JSON).status_code == maintenance
        assert api.patch(url, {"note": "x"}, content_type=JSON).status_code == manage
        assert api.post("/api/v1/hosts", ssh_body(private_key), content_type=JSON).status_code == manage
        assert api.post(f"{url}/pin", {"fingerprint": "x"}, content_type=JSON).status_code == manage
        assert api.delete(url).status_code == manage
    assert api_of("outsider").get("/api/v1/hosts").status_code == 401


def test_the_offered_key_is_told_and_pinned_only_when_it_is_still_that_one(
    api_of: ApiOf, make_ssh_host: MakeHost, public_key: str
) -> None:
    host = make_ssh_host(offered_host_key=public_key, offered_fingerprint="SHA256:abc")
    api, url = api_of("admin"), f"/api/v1/hosts/{host.pk}"
    key = api.get(f"{url}/host-key").json()
    assert (key["awaits_pinning"], key["offered_fingerprint"]) == (True, "SHA256:abc")
    refused = api.post(f"{url}/pin", {"fingerprint": "SHA256:other"}, content_type=JSON)
    assert (refused.status_code, refused.json()["code"]) == (409, "host_key_not_offered")
    pinned = api.post(f"{url}/pin", {"fingerprint": "SHA256:abc"}, content_type=JSON).json()
    assert pinned["pinned"] == public_key
    again = api.post(f"{url}/pin", {"fingerprint": "SHA256:abc"}, content_type=JSON)
    assert again.json()["code"] == "host_key_pinned"
    Host.objects.update(offered_host_key="ssh-ed25519 NEW", offered_fingerprint="SHA256:new")
    replaced = api.post(f"{url}/pin?replace=true", {"fingerprint": "SHA256:new"}, content_type=JSON).json()
    assert replaced["pinned"] == "ssh-ed25519 NEW"


def test_gpus_engines_and_options_are_told(api_of: ApiOf, probed: Host) -> None:
    api = api_of("viewer")
    listed = api.get("/api/v1/hosts?q=gpu&sort=-gpus").json()
    assert (listed["total"], listed["items"][0]["gpu_count"]) == (1, 2)
    assert listed["items"][0]["engine_versions"] == ["0.32.0"]
    gpus = api.get(f"/api/v1/hosts/{probed.pk}/accelerators").json()
    assert [gpu["uuid"] for gpu in gpus] == ["GPU-00000000", "GPU-00000001"]
    found = api.get("/api/v1/engines?host=gpu-1&version=0.32.0").json()["items"][0]
    assert (found["option_count"], found["device"]) == (3, "gpu")
    assert api.get(f"/api/v1/engines/{found['id']}").json() == found
    dests = [option["dest"] for option in api.get(f"/api/v1/engines/{found['id']}/options?q=cach").json()]
    assert dests == ["enable_prefix_caching"]
    assert api.get(f"/api/v1/hosts/{probed.pk}").json()["facts"]["os_name"] == "Fake Linux"


def test_a_model_is_added_read_inspected_and_forgotten(api_of: ApiOf, probed: Host) -> None:
    api = api_of("operator")
    body = {"location": "/models/qwen", "hosts": ["gpu-1"]}
    made = api.post("/api/v1/models", body, content_type=JSON)
    assert made.status_code == 201, made.json()
    url = f"/api/v1/models/{made.json()['id']}"
    assert [copy["host"] for copy in api.get(url).json()["copies"]] == ["gpu-1"]
    assert api.get("/api/v1/models?q=qwen&host=gpu-1").json()["total"] == 1
    assert api.post(f"{url}/inspect").status_code == 202
    assert api.post("/api/v1/models", body, content_type=JSON).status_code == 409
    assert api_of("viewer").delete(url).status_code == 403
    assert api.delete(url).status_code == 204
    assert not ModelArtifact.objects.exists()


def test_numbers_that_fit_no_row_are_not_found(api_of: ApiOf, probed: Host) -> None:
    for path in ("hosts", "engines", "models"):
        assert api_of("viewer").get(f"/api/v1/{path}/{2**70}").status_code == 404
        assert api_of("viewer").get(f"/api/v1/{path}/0").status_code == 404
        assert api_of("viewer").get(f"/api/v1/{path}?page={2**70}&q=%00").status_code == 200


def test_lists_need_as_many_queries_for_thirty_rows_as_for_three(
    api_of: ApiOf, django_assert_max_num_queries: Any
) -> None:
    api = api_of("viewer")
    api.get("/api/v1/me")  # the first use of a token is noted
    counts: dict[str, list[int]] = {}
    for amount in (3, 30):
        fill(amount)
        for name in ("hosts", "engines", "models"):
            with django_assert_max_num_queries(8) as captured:
                assert len(api.get(f"/api/v1/{name}").json()["items"]) >= amount
            counts.setdefault(name, []).append(len(captured))
    assert Engine.objects.count() == 33
    for few, many in counts.values():
        assert few == many
