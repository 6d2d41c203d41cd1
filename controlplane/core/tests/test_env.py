"""What the environment says."""

import os
import stat
from pathlib import Path

import pytest

from controlplane.core import env


def test_the_state_directory_is_the_one_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONTROLPLANE_STATE_DIR", str(tmp_path / "a" / ".." / "b"))
    assert env.state_dir() == tmp_path / "b"


def test_unnamed_it_depends_on_who_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONTROLPLANE_STATE_DIR", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert env.state_dir() == Path("/var/lib/vllm-controlplane")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert env.state_dir() == tmp_path / "vllm-controlplane"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert env.state_dir() == Path.home() / ".local/state/vllm-controlplane"


@pytest.mark.parametrize(("text", "meant"), [("1", True), ("Yes", True), (" on ", True), ("0", False), ("", False)])
def test_flags_are_yes_in_these_words_only(monkeypatch: pytest.MonkeyPatch, text: str, meant: bool) -> None:
    monkeypatch.setenv("X_FLAG", text)
    assert env.flag("X_FLAG") is meant


def test_a_flag_that_is_not_set_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("X_FLAG", raising=False)
    assert env.flag("X_FLAG", default=True)
    assert not env.flag("X_FLAG")


def test_words_lose_their_spaces_and_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_WORDS", " a, b ,,c")
    assert env.words("X_WORDS") == ["a", "b", "c"]
    monkeypatch.delenv("X_WORDS")
    assert env.words("X_WORDS", "d,e") == ["d", "e"]


def test_a_database_address_over_tcp_and_over_a_socket() -> None:
    tcp = env.database_address("postgresql://me:p%40ss@db.example:5433/prod")
    assert (tcp.user, tcp.password, tcp.host, tcp.port, tcp.name) == ("me", "p@ss", "db.example", "5433", "prod")
    socket = env.database_address("postgresql://me@/prod?host=/run/pg&port=5433")
    assert (socket.host, socket.port, socket.name) == ("/run/pg", "5433", "prod")
    assert env.database_address("postgres:///").name == "controlplane"
    assert tcp.as_django()["NAME"] == "prod"


def test_another_kind_of_database_is_refused_without_its_password() -> None:
    with pytest.raises(ValueError, match="postgresql://") as refused:
        env.database_address("mysql://me:hunter2@db/x")
    assert "hunter2" not in str(refused.value)


def test_the_key_file_is_made_once_and_for_its_owner_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "keys" / "secret.key"
    monkeypatch.setenv("SECRET_KEY_FILE", str(path))
    first = env.master_keys()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert env.master_keys() == first
    assert len(first[0]) >= 40


def test_a_second_key_stands_behind_the_newest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text("new\n\n old \n")
    monkeypatch.setenv("SECRET_KEY_FILE", str(path))
    assert env.master_keys() == ["new", "old"]


def test_whoever_is_second_to_make_the_key_file_uses_the_first_ones(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text("theirs\n")
    env._make_key_file(path)
    assert path.read_text() == "theirs\n"
    assert [left.name for left in tmp_path.iterdir()] == ["secret.key"]


def test_an_empty_key_file_is_an_error_and_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "secret.key"))
    (tmp_path / "secret.key").write_text("\n")
    with pytest.raises(ValueError, match="holds no key"):
        env.master_keys()
    assert (tmp_path / "secret.key").read_text() == "\n"


def test_the_key_file_appears_whole_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "secret.key"))
    keys = env.master_keys()
    assert env.master_keys() == keys
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]
