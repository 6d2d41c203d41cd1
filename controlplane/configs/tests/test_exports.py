"""A launch is exported as files that run without this product and hold no key."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.configs.domain.argv import SecretRef
from controlplane.configs.domain.exports import CannotExportError, Launch, compose_service, shell_script, systemd_unit

SECRETS = {"VLLM_API_KEY": SecretRef("prod-vllm")}
ARGV = [
    "serve",
    "/m/a b",
    "--port",
    "8000",
    "--served-model-name",
    "x",
    "y",
    "--hf-overrides",
    '{"a":"it\'s $HOME %h \\\\"}',
]
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "GPU-1c,GPU-2d",
    "HF_HUB_OFFLINE": "1",
    "ODD": 'a "b" $HOME %h it\'s \\n',
}
LAUNCH = Launch(name="Qwen 32B (prod)", argv=ARGV, secrets=SECRETS, environment=ENVIRONMENT)


def test_a_shell_script_to_the_letter() -> None:
    assert (
        shell_script(LAUNCH)
        == r"""#!/bin/sh
# Qwen 32B (prod)
set -eu
# secret:prod-vllm: put the key into VLLM_API_KEY, or the name of a file with only the key into VLLM_API_KEY_FILE.
if [ -n "${VLLM_API_KEY_FILE:-}" ]; then
  VLLM_API_KEY=$(cat "$VLLM_API_KEY_FILE")
fi
: "${VLLM_API_KEY:?set it or VLLM_API_KEY_FILE}"
export VLLM_API_KEY
export CUDA_VISIBLE_DEVICES=GPU-1c,GPU-2d
export HF_HUB_OFFLINE=1
export ODD='a "b" $HOME %h it'"'"'s \n'
exec vllm serve '/m/a b' \
  --port 8000 \
  --served-model-name x y \
  --hf-overrides '{"a":"it'"'"'s $HOME %h \\"}'
"""
    )


def test_a_launch_without_a_key_or_variables_asks_for_none() -> None:
    assert shell_script(Launch("m", ["serve", "m"], {})) == "#!/bin/sh\n# m\nset -eu\nexec vllm serve m\n"
    assert "Environment" not in systemd_unit(Launch("m", ["serve", "m"], {}))
    assert "env" not in compose_service(Launch("m", ["serve", "m"], {}), image="i", port=1, gpus=0)


def run_script(script: str, tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a script with a `vllm` that prints its key and its arguments, each ended by NUL."""
    fake = tmp_path / "bin" / "vllm"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text('#!/bin/sh\nprintf \'%s\\0\' "${VLLM_API_KEY-}" "$@"\n')
    fake.chmod(0o755)
    path = tmp_path / "launch.sh"
    path.write_text(script)
    subprocess.run(["sh", "-n", str(path)], check=True)
    env = {"PATH": f"{fake.parent}:{os.environ['PATH']}", **environment}
    return subprocess.run(["sh", str(path)], env=env, capture_output=True, check=False)


def test_the_shell_script_sets_every_variable_as_it_is(tmp_path: Path) -> None:
    """What the caller's own environment says does not count: a launch sets its variables, too."""
    asked = tmp_path / "bin" / "vllm"
    asked.parent.mkdir()
    asked.write_text('#!/bin/sh\nprintf \'%s\\0\' "$CUDA_VISIBLE_DEVICES" "$ODD"\n')
    asked.chmod(0o755)
    script = shell_script(Launch("m", ["serve"], {}, environment={**ENVIRONMENT, "ODD": "a\nb `id` $(id)"}))
    env = {"PATH": f"{asked.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "7"}
    done = subprocess.run(["sh"], input=script.encode(), env=env, capture_output=True, check=True)
    assert done.stdout.decode().split("\0") == ["GPU-1c,GPU-2d", "a\nb `id` $(id)", ""]


@pytest.mark.parametrize(
    "export", [shell_script, systemd_unit, lambda launch: compose_service(launch, image="i", port=1, gpus=0)]
)
def test_a_key_never_comes_from_the_variables(export: Callable[[Launch], str]) -> None:
    text = export(Launch("m", ["serve"], SECRETS, environment={"VLLM_API_KEY": "sk-plain", "A": "1"}))
    assert "sk-plain" not in text
    assert "secret:prod-vllm" in text


@pytest.mark.parametrize(
    "export", [shell_script, systemd_unit, lambda launch: compose_service(launch, image="i", port=1, gpus=0)]
)
@pytest.mark.parametrize(("name", "value"), [("A B", "1"), ("A=B", "1"), ("", "1"), ("1A", "1"), ("A", "\0")])
def test_what_no_environment_can_hold_is_refused(export: Callable[[Launch], str], name: str, value: str) -> None:
    with pytest.raises(CannotExportError):
        export(Launch("m", ["serve"], {}, environment={name: value}))


def test_compose_gives_the_container_the_very_gpus_that_its_variables_name() -> None:
    text = compose_service(LAUNCH, image="i", port=1, gpus=2, device_ids=["GPU-1c", "GPU-2d"])
    assert '              device_ids: ["GPU-1c", "GPU-2d"]\n' in text
    assert "count:" not in text


AWKWARD = ["serve", "", "a\nb", "$(id)", "`id`", "'\"\\", "--x", "*", "~", "ü", "--y=-1", "# no"]


def test_the_shell_script_passes_every_argument_as_it_is(tmp_path: Path) -> None:
    done = run_script(shell_script(Launch("m", AWKWARD, SECRETS)), tmp_path, {"VLLM_API_KEY": "sk 1"})
    assert done.stdout.decode().split("\0")[:-1] == ["sk 1", *AWKWARD]


def test_the_shell_script_reads_the_key_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-2\n")
    done = run_script(shell_script(LAUNCH), tmp_path, {"VLLM_API_KEY_FILE": str(tmp_path / "key")})
    assert done.stdout.decode().split("\0")[:-1] == ["sk-2", *ARGV]


@pytest.mark.parametrize("environment", [{}, {"VLLM_API_KEY": ""}, {"VLLM_API_KEY_FILE": "/nonexistent/key"}])
def test_the_shell_script_does_not_start_a_server_without_its_key(tmp_path: Path, environment: dict[str, str]) -> None:
    done = run_script(shell_script(LAUNCH), tmp_path, environment)
    assert done.returncode != 0
    assert done.stdout == b""


@pytest.mark.parametrize(("key", "is_started"), [("sk-1", True), ("", False)])
def test_a_unit_and_a_container_do_not_start_a_server_without_its_key(
    tmp_path: Path, key: str, *, is_started: bool
) -> None:
    [before] = re.findall(r"^ExecStartPre=(.*)$", systemd_unit(LAUNCH), re.MULTILINE)
    [entrypoint] = re.findall(r"entrypoint: (.*)$", compose_service(LAUNCH, image="i", port=1, gpus=0), re.MULTILINE)
    fake = tmp_path / "vllm"
    fake.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    fake.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VLLM_API_KEY": key}
    checked = subprocess.run(shlex.split(before.replace("$$", "$")), env=env, capture_output=True, check=False)
    command = [*json.loads(entrypoint.replace("$$", "$")), *AWKWARD]
    run = subprocess.run(command, env=env, capture_output=True, check=False)
    assert (checked.returncode == 0, run.returncode == 0) == (is_started, is_started)
    assert run.stdout.decode().split("\0")[:-1] == (AWKWARD if is_started else [])
    assert is_started or b"VLLM_API_KEY: the key is missing" in checked.stderr + run.stderr


def test_a_name_cannot_break_out_of_its_comment(tmp_path: Path) -> None:
    done = run_script(shell_script(Launch("a\nexit 3", ["serve"], {})), tmp_path, {})
    assert done.returncode == 0


def test_a_systemd_unit_to_the_letter() -> None:
    assert (
        systemd_unit(LAUNCH)
        == r"""[Unit]
Description=vLLM: Qwen 32B (prod)
StartLimitIntervalSec=600
StartLimitBurst=3

[Service]
Type=exec
# Lines VLLM_API_KEY=… (secret:prod-vllm); chmod 600.
EnvironmentFile=%h/.config/vllm/qwen-32b-prod.env
ExecStartPre=/bin/sh -c ": \"$${VLLM_API_KEY:?the key is missing}\""
Environment=CUDA_VISIBLE_DEVICES=GPU-1c,GPU-2d
Environment=HF_HUB_OFFLINE=1
Environment="ODD=a \"b\" $HOME %%h it's \\n"
ExecStart=/usr/bin/env vllm serve "/m/a b" \
  --port 8000 \
  --served-model-name x y \
  --hf-overrides "{\"a\":\"it's $$HOME %%h \\\\\"}"
KillMode=control-group
TimeoutStopSec=60
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""
    )


def test_a_systemd_unit_names_an_absolute_executable_directly() -> None:
    unit = systemd_unit(Launch("m", ["serve", "m"], {}, executable="/opt/vllm/bin/vllm", drain_s=300))
    assert "ExecStart=/opt/vllm/bin/vllm serve m\n" in unit
    assert "TimeoutStopSec=330\n" in unit


def test_a_compose_service_to_the_letter() -> None:
    assert compose_service(LAUNCH, image="vllm/vllm-openai:v0.33.0", port=8000, gpus=2, volumes=["/m"]) == (
        r"""services:
  qwen-32b-prod:
    image: "vllm/vllm-openai:v0.33.0"
    entrypoint: ["/bin/sh", "-ec", ": \"$${VLLM_API_KEY:?the key is missing}\"; exec \"$$0\" \"$$@\"", "vllm"]
    command:
      - "serve"
      - "/m/a b"
      - "--port"
      - "8000"
      - "--served-model-name"
      - "x"
      - "y"
      - "--hf-overrides"
      - "{\"a\":\"it's $$HOME %h \\\\\"}"
    # Lines VLLM_API_KEY=… (secret:prod-vllm); chmod 600.
    env_file:
      - "./qwen-32b-prod.env"
    environment:
      CUDA_VISIBLE_DEVICES: "GPU-1c,GPU-2d"
      HF_HUB_OFFLINE: "1"
      ODD: "a \"b\" $$HOME %h it's \\n"
    ports:
      - "8000:8000"
    volumes:
      - "/m:/m:ro"
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
              count: 2
              capabilities: [gpu]
"""
    )


@pytest.mark.parametrize("export", [systemd_unit, shell_script])
def test_no_export_holds_a_key(export: object) -> None:
    assert callable(export)
    assert "sk-" not in export(LAUNCH)


def test_a_nul_in_an_argument_is_refused() -> None:
    for export in (shell_script, systemd_unit):
        with pytest.raises(CannotExportError, match="NUL"):
            export(Launch("m", ["serve", "a\0b"], {}))


def test_the_shell_reads_back_what_was_quoted() -> None:
    command = shell_script(Launch("m", AWKWARD, {})).partition("exec ")[2]
    assert shlex.split(command.replace("\\\n", "")) == ["vllm", *AWKWARD]
