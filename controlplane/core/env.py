"""What the environment says: the state directory, server addresses, the key file. Standard library only."""

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit


def state_dir() -> Path:
    """The one directory that holds everything this control plane keeps on disk.

    `CONTROLPLANE_STATE_DIR` names it. Else `/var/lib/vllm-controlplane` for root (embedded Postgres runs as another
    user, who could not enter root's 0700 home) and `$XDG_STATE_HOME/vllm-controlplane` for anyone else.
    """
    if named := os.environ.get("CONTROLPLANE_STATE_DIR"):
        return Path(named).expanduser().resolve()
    if os.geteuid() == 0:
        return Path("/var/lib/vllm-controlplane")
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "vllm-controlplane"


def flag(name: str, *, default: bool = False) -> bool:
    """A yes/no variable: 1, true, yes, on in any case mean yes."""
    value = os.environ.get(name)
    return default if value is None else value.strip().lower() in {"1", "true", "yes", "on"}


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated variable."""
    return [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A parsed `DATABASE_URL`; `host` may be the folder of a unix socket."""

    name: str
    user: str
    password: str
    host: str
    port: str

    def as_django(self) -> dict[str, str]:
        return {
            "NAME": self.name,
            "USER": self.user,
            "PASSWORD": self.password,
            "HOST": self.host,
            "PORT": self.port,
        }


def database_address(url: str) -> DatabaseAddress:
    """Parse `postgresql://user:password@host:port/name`, or `…/name?host=/socket/folder` for a unix socket."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ValueError(f"DATABASE_URL must start with postgresql://, not {parts.scheme!r}")
    query = parse_qs(parts.query)
    return DatabaseAddress(
        name=unquote(parts.path.lstrip("/")) or "controlplane",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        host=query.get("host", [parts.hostname or ""])[0],
        port=str(parts.port or query.get("port", [""])[0]),
    )


def key_file() -> Path:
    """Where the master key lies: one URL-safe base64 line a key, newest first."""
    return Path(os.environ.get("SECRET_KEY_FILE") or state_dir() / "secret.key")


def master_keys() -> list[str]:
    """All keys of the key file, newest first; the file is made (mode 0600) when there is none.

    Raises ValueError when the file is there and holds no key: making another would lose every stored secret.
    """
    path = key_file()
    if not path.exists():
        _make_key_file(path)
    keys = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    if not keys:
        raise ValueError(f"{path} holds no key. Put the key back; only without any secret stored may it be deleted.")
    return keys


def _make_key_file(path: Path) -> None:
    """Write a new key beside `path` and link it there: whoever looks sees no file or a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    with suppress(FileExistsError):  # another process of the stack was first, and its key is the one
        path.hardlink_to(unfinished)
    unfinished.unlink()
