"""Pages: they work, outsiders are led to the login, viewers read only, fragments are fragments."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.drivers.fake import FakeHost
from controlplane.inventory import services
from controlplane.inventory.models import Accelerator, Engine, Host, ModelArtifact, ModelCopy, OptionList
from controlplane.inventory.tests.samples import engine, gpu_report, model_facts, options
from controlplane.inventory.views.lists import ROWS_PER_PAGE
from controlplane.protocol.machine import GpuReport
from controlplane.protocol.shapes import to_wire

ClientOf = Callable[[str], Client]
MakeHost = Callable[..., Host]
MachineOf = Callable[[Host], FakeHost]


@pytest.fixture
def probed(make_host: MakeHost, machine_of: MachineOf) -> Host:
    """A host with two GPUs, one vLLM build and one model, as a probe left it."""
    host = make_host("gpu-1")
    machine = machine_of(host)
    machine.gpu = gpu_report(0, 1)
    machine.engines = [engine()]
    machine.options = {"/opt/vllm/bin/vllm": options()}
    machine.models = {"/models/qwen": model_facts("/models/qwen")}
    services.probe_host(host.pk)
    services.inspect_model_copy(services.ensure_copy(host, "/models/qwen").pk)
    return host


def pages(host: Host) -> list[str]:
    model = ModelArtifact.objects.get()
    found = Engine.objects.get()
    return [
        reverse("inventory:host_list"),
        reverse("inventory:host_detail", args=[host.pk]),
        reverse("inventory:engine_detail", args=[found.pk]),
        reverse("inventory:model_list"),
        reverse("inventory:model_detail", args=[model.pk]),
    ]


FORMS = ["inventory:host_add", "inventory:model_add"]


def test_every_page_works_for_a_viewer(probed: Host, client_of: ClientOf) -> None:
    for url in pages(probed):
        response = client_of("viewer").get(url)
        assert response.status_code == 200, url
        assert b"</html>" in response.content


def test_outsiders_are_led_to_the_login(probed: Host, client_of: ClientOf) -> None:
    for url in [*pages(probed), *map(reverse, FORMS)]:
        response = client_of("outsider").get(url)
        assert response.status_code == 302
        assert response["Location"].startswith(reverse("accounts:login"))


def test_htmx_gets_the_fragment_alone(probed: Host, client_of: ClientOf) -> None:
    for url in pages(probed):
        response = client_of("viewer").get(url, headers={"HX-Request": "true"})
        assert response.status_code == 200, url
        assert b"</html>" not in response.content
        assert response.content.strip().startswith(b"<div id="), url


def test_a_viewer_is_shown_no_way_to_change_anything(probed: Host, client_of: ClientOf) -> None:
    for url in pages(probed):
        content = client_of("viewer").get(url).content
        assert b"/hosts/add/" not in content
        assert f'action="{reverse("inventory:host_probe", args=[probed.pk])}"'.encode() not in content


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_administrators_add_change_pin_and_remove_hosts(probed: Host, client_of: ClientOf, role: str) -> None:
    client = client_of(role)
    assert client.get(reverse("inventory:host_add")).status_code == 403
    assert client.get(reverse("inventory:host_edit", args=[probed.pk])).status_code == 403
    for name in ("host_pin", "host_remove"):
        assert client.post(reverse(f"inventory:{name}", args=[probed.pk])).status_code == 403
    assert Host.objects.filter(pk=probed.pk).exists()


def test_viewers_cannot_probe_nor_add_models(probed: Host, client_of: ClientOf) -> None:
    client = client_of("viewer")
    assert client.post(reverse("inventory:host_probe", args=[probed.pk])).status_code == 403
    assert client.post(reverse("inventory:host_maintenance", args=[probed.pk])).status_code == 403
    assert client.get(reverse("inventory:model_add")).status_code == 403


def test_the_host_page_shows_what_the_probe_found(probed: Host, client_of: ClientOf) -> None:
    url = reverse("inventory:host_detail", args=[probed.pk])
    content = client_of("viewer").get(url).content.decode()
    for text in ("NVIDIA H200", "GPU-00000001", "0.32.0", "/opt/vllm/bin/vllm", "Fake CPU", "/models/qwen", "3"):
        assert text in content
    assert f'hx-get="{url}" hx-trigger="every 10s"' in content  # nothing moves; it may fall silent at any time


def test_a_process_on_a_gpu_is_named_by_its_launch_mark(
    probed: Host, client_of: ClientOf, make_instance: Callable[..., Any]
) -> None:
    ours, theirs = ({"pid": pid, "command": [f"p{pid}"], "nonce": nonce} for pid, nonce in ((1, "n"), (2, None)))
    Accelerator.objects.filter(index=0).update(processes=[ours, theirs])
    instance = make_instance(probed, "chat-0", gpu_uuids=["GPU-00000000"])
    instance.attempts.create(number=1, launch_id="l", process={"nonce": "n"})
    context = client_of("viewer").get(reverse("inventory:host_detail", args=[probed.pk])).context
    first, second = context["gpus"]
    assert [(holder.instance, holder.is_foreign) for holder in first.holders] == [("chat-0", False), (None, True)]
    assert ([one.name for one in first.instances], second.instances) == (["chat-0"], [])


def test_a_host_that_is_looked_at_refreshes_by_itself(probed: Host, client_of: ClientOf) -> None:
    services.rescan(host=probed, actor="x")
    url = reverse("inventory:host_detail", args=[probed.pk])
    assert f'hx-get="{url}" hx-trigger="every 2s"' in client_of("viewer").get(url).content.decode()


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (GpuReport(status="none"), "has no NVIDIA GPU"),
        (GpuReport(status="tools_missing", message="2 GPUs, no nvidia-smi.", remedy="Install it."), "no nvidia-smi"),
        (GpuReport(status="driver_error", message="nvidia-smi: version mismatch", remedy="Reboot."), "Reboot."),
    ],
)
def test_no_gpu_missing_tools_and_a_broken_driver_are_three_answers(
    make_host: MakeHost, machine_of: MachineOf, client_of: ClientOf, report: GpuReport, words: str
) -> None:
    host = make_host()
    machine_of(host).gpu = report
    services.probe_host(host.pk)
    page = client_of("viewer").get(reverse("inventory:host_detail", args=[host.pk])).content.decode()
    assert words in page


def test_empty_lists_say_what_belongs_there_and_hold_the_first_button(db: None, client_of: ClientOf) -> None:
    hosts = client_of("admin").get(reverse("inventory:host_list")).content.decode()
    models = client_of("operator").get(reverse("inventory:model_list")).content.decode()
    assert "No hosts yet" in hosts
    assert reverse("inventory:host_add") in hosts
    assert "No models yet" in models
    assert reverse("inventory:model_add") in models


def test_lists_filter_sort_search_and_export(probed: Host, make_host: MakeHost, client_of: ClientOf) -> None:
    make_host("idle-2", state="unreachable", is_in_maintenance=True)
    client, url = client_of("viewer"), reverse("inventory:host_list")
    for query, names in (
        ("q=gpu", {"gpu-1"}),
        ("state=unreachable", {"idle-2"}),
        ("state=maintenance", {"idle-2"}),
        ("transport=ssh", set()),
        ("sort=-gpus", {"gpu-1", "idle-2"}),
        ("sort=nonsense&page=x", {"gpu-1", "idle-2"}),
        ("q=%00", {"gpu-1", "idle-2"}),
    ):
        assert {host.name for host in client.get(f"{url}?{query}").context["page"].items} == names, query
    order = [host.name for host in client.get(f"{url}?sort=-name").context["page"].items]
    assert order == ["idle-2", "gpu-1"]
    lines = client.get(f"{url}?format=csv").content.decode().splitlines()
    assert lines[0].startswith("name,state,transport")
    assert lines[1].startswith("gpu-1,reachable,local,,2,")


def test_a_cell_of_the_csv_never_starts_a_formula(make_host: MakeHost, client_of: ClientOf) -> None:
    host = make_host()
    Engine.objects.create(host=host, executable="/x/vllm", version="=1+1")
    assert ",'=1+1," in client_of("viewer").get(reverse("inventory:host_list") + "?format=csv").content.decode()


def test_adding_a_host_leads_to_its_page(db: None, client_of: ClientOf, private_key: str) -> None:
    data = {
        "name": "gpu-9",
        "transport": "ssh",
        "address": "gpu-9.example.org",
        "port": "22",
        "username": "vllm",
        "key_name": "-new-",
        "new_key": private_key.replace("\n", "\r\n"),
    }
    response = client_of("admin").post(reverse("inventory:host_add"), data)
    host = Host.objects.get()
    assert response["Location"] == reverse("inventory:host_detail", args=[host.pk])
    assert host.ssh_key is not None


def test_bad_input_gets_its_error_beside_the_field_and_stays(db: None, client_of: ClientOf, private_key: str) -> None:
    data = {
        "name": "GPU 9",
        "transport": "ssh",
        "address": "ssh://gpu-9",
        "port": "0",
        "username": "vllm",
        "key_name": "-new-",
        "new_key": private_key,
        "engine_paths": "/opt/x/bin/vllm",
    }
    response = client_of("admin").post(reverse("inventory:host_add"), data)
    assert response.status_code == 422
    assert set(response.context["form"].errors) == {"name", "address", "port"}
    content = response.content.decode()
    assert "ssh://gpu-9" in content
    assert "/opt/x/bin/vllm" in content
    assert private_key.splitlines()[1] not in content  # a secret is not written into a page, not even back
    assert not Host.objects.exists()


def test_this_machine_needs_no_address_and_no_key(db: None, client_of: ClientOf) -> None:
    data = {"name": "here", "transport": "local", "key_name": "-new-"}
    assert client_of("admin").post(reverse("inventory:host_add"), data).status_code == 302
    assert Host.objects.get().is_local


def test_a_new_key_that_was_not_pasted_is_asked_for(db: None, client_of: ClientOf) -> None:
    data = {"name": "a", "transport": "ssh", "address": "a", "port": "22", "username": "v", "key_name": "-new-"}
    response = client_of("admin").post(reverse("inventory:host_add"), data)
    assert set(response.context["form"].errors) == {"new_key"}


def test_changing_a_host_keeps_its_key_when_none_is_given(
    make_ssh_host: MakeHost, client_of: ClientOf, private_key: str
) -> None:
    services.add_host(name="a", ssh=services.SshAccess("192.0.2.7", "vllm", new_key=private_key), actor="x")
    host = Host.objects.get(name="a")
    url = reverse("inventory:host_edit", args=[host.pk])
    assert client_of("admin").get(url).status_code == 200
    data = {"address": "192.0.2.8", "port": "2222", "username": "vllm", "key_name": "-present-", "note": "moved"}
    assert client_of("admin").post(url, data).status_code == 302
    changed = Host.objects.get(name="a")
    assert (changed.address, changed.port, changed.note) == ("192.0.2.8", 2222, "moved")
    assert changed.ssh_key_id == host.ssh_key_id


def test_the_offered_key_is_shown_with_how_to_compare_it_and_pinned_by_a_button(
    make_ssh_host: MakeHost, client_of: ClientOf, public_key: str
) -> None:
    host = make_ssh_host(offered_host_key=public_key, offered_fingerprint="SHA256:abc")
    url = reverse("inventory:host_detail", args=[host.pk])
    content = client_of("admin").get(url).content.decode()
    assert "SHA256:abc" in content
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in content
    client_of("admin").post(reverse("inventory:host_pin", args=[host.pk]), {"fingerprint": "SHA256:abc"})
    host.refresh_from_db()
    assert host.host_key == public_key


def test_a_changed_key_is_shown_beside_the_pinned_one(
    make_ssh_host: MakeHost, client_of: ClientOf, public_key: str
) -> None:
    host = make_ssh_host(
        state="refused",
        host_key="ssh-ed25519 old",
        host_key_fingerprint="SHA256:old",
        offered_host_key=public_key,
        offered_fingerprint="SHA256:new",
    )
    content = client_of("viewer").get(reverse("inventory:host_detail", args=[host.pk])).content.decode()
    assert "SHA256:old" in content
    assert "SHA256:new" in content
    assert "An administrator has to confirm it" in content


def test_removing_a_busy_host_says_what_runs_there(
    make_host: MakeHost, client_of: ClientOf, make_instance: Callable[..., Any]
) -> None:
    host = make_host()
    make_instance(host, "chat-0")
    response = client_of("admin").post(reverse("inventory:host_remove", args=[host.pk]))
    assert response.status_code == 409
    assert "chat-0" in response.content.decode()


def test_options_can_be_searched_by_name_choice_and_help(probed: Host, client_of: ClientOf) -> None:
    url = reverse("inventory:engine_detail", args=[Engine.objects.get().pk])
    for query, dests in (
        ("--max-model-len", {"max_model_len"}),
        ("bfloat", {"dtype"}),
        ("KV blocks", {"enable_prefix_caching"}),
    ):
        assert {o.dest for o in client_of("viewer").get(url, {"q": query}).context["options"]} == dests


def test_lists_need_as_many_queries_for_thirty_rows_as_for_three(
    db: None, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    client = client_of("viewer")
    counts: dict[str, list[int]] = {}
    for amount in (3, 30):
        fill(amount)
        for url in (reverse("inventory:host_list"), reverse("inventory:model_list")):
            with django_assert_max_num_queries(12) as captured:
                assert len(client.get(url).context["page"].items) >= min(amount, ROWS_PER_PAGE)
            counts.setdefault(url, []).append(len(captured))
    for few, many in counts.values():
        assert few == many


def fill(amount: int) -> None:
    """`amount` more hosts, each with two GPUs, an engine and a model copy."""
    start = Host.objects.count()
    shared, _made = OptionList.objects.get_or_create(build="b", defaults={"version": "1", "args": to_wire(options())})
    for number in range(start, start + amount):
        transport = "ssh" if number % 2 else "local"
        host = Host.objects.create(name=f"h-{number}", transport=transport, state="reachable", facts={"gpu": {}})
        Accelerator.objects.create(host=host, uuid="0", index=0, name="H200")
        Accelerator.objects.create(host=host, uuid="1", index=1, name="H200")
        Engine.objects.create(host=host, executable="/x", version="1", option_list=shared)
        model = ModelArtifact.objects.create(name=f"m-{number}", source="path", location=f"/m/{number}")
        facts = to_wire(model_facts(f"/m/{number}"))
        ModelCopy.objects.create(artifact=model, host=host, path=f"/m/{number}", facts=facts)
