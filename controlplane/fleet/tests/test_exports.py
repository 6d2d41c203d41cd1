"""A launch runs the same without this product: its exports have its arguments, its variables and no key."""

import pytest

from controlplane.fleet.models import Attempt, Instance
from controlplane.fleet.reconcile.command import command_of
from controlplane.fleet.services import exported
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of
from controlplane.inventory.models import Engine

GPUS = ["GPU-1c", "GPU-2d"]


@pytest.fixture
def instance(world: FakeWorld) -> Instance:
    """On two GPUs of a host, with a model directory; nothing was launched yet."""
    world.engine.device = Engine.Device.GPU
    world.engine.version = "0.32.0"
    world.engine.save()
    made = world.request(port=8123)
    made.name, made.gpu_uuids = "chat", GPUS
    made.save()
    return Instance.objects.get(pk=made.pk)


def launched(instance: Instance, **environment: str) -> Attempt:
    """An attempt that was started with these variables."""
    return Attempt.objects.create(
        instance=instance,
        number=1,
        launch_id="x1",
        argv=["/opt/vllm/bin/vllm", "serve", "/models/qwen", "--host", "127.0.0.1", "--port", "8123"],
        environment=environment,
    )


def test_a_shell_script_to_the_letter(instance: Instance) -> None:
    launched(instance, CUDA_VISIBLE_DEVICES="GPU-1c,GPU-2d", HF_HUB_OFFLINE="1")
    assert exported(instance, "shell")[1] == (
        """#!/bin/sh
# chat
set -eu
# a key that you choose: put the key into VLLM_API_KEY, or the name of a file with only the key into VLLM_API_KEY_FILE.
if [ -n "${VLLM_API_KEY_FILE:-}" ]; then
  VLLM_API_KEY=$(cat "$VLLM_API_KEY_FILE")
fi
: "${VLLM_API_KEY:?set it or VLLM_API_KEY_FILE}"
export VLLM_API_KEY
export CUDA_VISIBLE_DEVICES=GPU-1c,GPU-2d
export HF_HUB_OFFLINE=1
exec /opt/vllm/bin/vllm serve /models/qwen \\
  --host 127.0.0.1 \\
  --port 8123
"""
    )


def test_a_systemd_unit_to_the_letter(instance: Instance) -> None:
    launched(instance, CUDA_VISIBLE_DEVICES="GPU-1c,GPU-2d", HF_HUB_OFFLINE="1")
    assert exported(instance, "systemd")[1].partition("Type=exec\n")[2].partition("KillMode")[0] == (
        """# Lines VLLM_API_KEY=… (a key that you choose); chmod 600.
EnvironmentFile=%h/.config/vllm/chat.env
ExecStartPre=/bin/sh -c ": \\"$${VLLM_API_KEY:?the key is missing}\\""
Environment=CUDA_VISIBLE_DEVICES=GPU-1c,GPU-2d
Environment=HF_HUB_OFFLINE=1
ExecStart=/opt/vllm/bin/vllm serve /models/qwen \\
  --host 127.0.0.1 \\
  --port 8123
"""
    )


def test_a_compose_service_to_the_letter(instance: Instance) -> None:
    """The container's loopback leads nowhere, and of the host's GPUs it sees those that its variables name."""
    launched(instance, CUDA_VISIBLE_DEVICES="GPU-1c,GPU-2d", HF_HUB_OFFLINE="1")
    assert exported(instance, "compose")[1] == (
        """services:
  chat:
    image: "vllm/vllm-openai:v0.32.0"
    entrypoint: ["/bin/sh", "-ec", ": \\"$${VLLM_API_KEY:?the key is missing}\\"; exec \\"$$0\\" \\"$$@\\"", "vllm"]
    command:
      - "serve"
      - "/models/qwen"
      - "--host"
      - "0.0.0.0"
      - "--port"
      - "8123"
    # Lines VLLM_API_KEY=… (a key that you choose); chmod 600.
    env_file:
      - "./chat.env"
    environment:
      CUDA_VISIBLE_DEVICES: "GPU-1c,GPU-2d"
      HF_HUB_OFFLINE: "1"
    ports:
      - "8123:8123"
    volumes:
      - "/models/qwen:/models/qwen:ro"
    # Worker processes share memory.
    ipc: host
    init: true
    restart: "on-failure:3"
    stop_grace_period: 60s
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              device_ids: ["GPU-1c", "GPU-2d"]
              capabilities: [gpu]
"""
    )


def test_before_the_first_launch_the_exports_set_what_a_launch_would(instance: Instance) -> None:
    text = exported(instance, "shell")[1]
    assert [line for line in text.split("\n") if line.startswith("export ")] == [
        "export VLLM_API_KEY",
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "export CUDA_VISIBLE_DEVICES=GPU-1c,GPU-2d",
        "export DO_NOT_TRACK=1",
        "export HF_HUB_OFFLINE=1",
        "export VLLM_NO_USAGE_STATS=1",
        "export VLLM_PORT=23936",
    ]


def test_what_an_export_sets_is_what_the_launch_sets(world: FakeWorld) -> None:
    served = world.ready()
    [start] = world.starts()
    assert start["env"] == attempt_of(served).environment == command_of(served).env
    text = exported(served, "systemd")[1]
    assert [line for line in text.split("\n") if line.startswith("Environment=")] == [
        f"Environment={name}={value}" for name, value in sorted(start["env"].items())
    ]


@pytest.mark.parametrize("form", ["argv", "shell", "systemd", "compose"])
def test_no_export_holds_the_key_that_a_launch_was_given(world: FakeWorld, form: str) -> None:
    served = world.ready()
    [start] = world.starts()
    assert len(start["secret_env"]["VLLM_API_KEY"]) > 20
    argv, text = exported(served, form)  # type: ignore[arg-type]
    assert start["secret_env"]["VLLM_API_KEY"] not in f"{argv} {text}"
    assert form == "argv" or "VLLM_API_KEY" in text


def test_a_key_that_the_config_names_is_named_in_the_export(world: FakeWorld) -> None:
    named = world.request(server={"api_key": "secret:prod-vllm"})
    assert "VLLM_API_KEY=… (secret:prod-vllm)" in exported(named, "systemd")[1]
