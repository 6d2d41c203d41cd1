"""A change that a diagnosis proposes becomes a version: all of it, or nothing."""

from collections.abc import Callable

from django.test import Client
from django.urls import reverse

from controlplane.fleet.models import State
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of

REFUSED = "vllm: error: unrecognized arguments: --task embed\n"


def test_replacing_a_removed_option_writes_what_took_over(world: FakeWorld, client_of: Callable[[str], Client]) -> None:
    instance = world.request(log=REFUSED, rc=2, override_reason="to see what vLLM says", engine={"task": "embed"})
    version = instance.config_version
    version.toml = b'[model]\nmodel_path = "/models/qwen"\n[engine]\ntask = "embed"\n'
    version.save()
    while instance.state != State.FAILED:
        world.step(instance)
    attempt = attempt_of(instance)
    assert [fix["label"] for fix in attempt.fixes] == ['replace task by runner = "pooling", convert = "embed"']

    url = reverse("fleet:attempt_fix", args=[attempt.pk])
    client_of("operator").post(url, {"check": "", "fix": "0"})

    made = version.config.versions.get(number=2)
    assert made.content["engine"] == {"runner": "pooling", "convert": "embed"}
    assert made.note == f'replace task by runner = "pooling", convert = "embed", proposed by {attempt}'
