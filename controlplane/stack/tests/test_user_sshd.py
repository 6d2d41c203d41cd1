"""The SSH server for demonstrations and tests, with the real sshd and ssh."""

import subprocess
from pathlib import Path

import pytest

from controlplane.stack.sshd import HOST, UserSshd, user_sshd

pytestmark = [pytest.mark.e2e, pytest.mark.ssh]


def ssh(server: UserSshd, known_hosts: Path, *command: str, key: str | None = None) -> subprocess.CompletedProcess[str]:
    options = [f"UserKnownHostsFile={known_hosts}", "StrictHostKeyChecking=yes", "BatchMode=yes", "IdentitiesOnly=yes"]
    argv = ["ssh", "-F", "/dev/null", "-p", str(server.port), "-i", key or server.private_key]
    argv += [part for option in options for part in ("-o", option)]
    argv += [f"{server.user}@{server.host}", *command]
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False)


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def test_it_lets_its_user_in_by_key_and_proves_its_host_key(tmp_path: Path, known_hosts: Path) -> None:
    with user_sshd(tmp_path / "a folder") as server:
        known_hosts.write_text(f"[{HOST}]:{server.port} {server.host_key}\n")
        done = ssh(server, known_hosts, "echo hello; exit 3")
    assert (done.stdout, done.returncode) == ("hello\n", 3), done.stderr


def test_another_key_stays_outside(tmp_path: Path, known_hosts: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    with user_sshd(tmp_path / "sshd") as server:
        known_hosts.write_text(f"[{HOST}]:{server.port} {server.host_key}\n")
        done = ssh(server, known_hosts, "true", key=str(other))
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_it_is_gone_afterwards_and_keeps_its_host_key_for_the_next_time(tmp_path: Path, known_hosts: Path) -> None:
    with user_sshd(tmp_path / "sshd") as first:
        known_hosts.write_text(f"[{HOST}]:{first.port} {first.host_key}\n")
    assert ssh(first, known_hosts, "true").returncode == 255
    with user_sshd(tmp_path / "sshd") as second:
        assert second.host_key == first.host_key
