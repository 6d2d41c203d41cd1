"""Where the web process listens: the socket is opened here, before anything is started."""

import errno
import http.client
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controlplane.core.errors import Problem

READY_PATH = "/healthz"
BACKLOG = 512
LOOPBACK = {"127.0.0.1", "::1"}
EVERY_INTERFACE = {"0.0.0.0", "::"}  # noqa: S104  # compared with


class AddressUnavailable(Problem):
    code = "address_unavailable"


@dataclass(frozen=True, slots=True)
class Listening:
    """An open listening socket. `up` holds it, so a restarted web process finds its callers waiting, not refused."""

    socket: socket.socket
    host: str
    port: int

    @property
    def url(self) -> str:
        """For people: the name of this machine where it listens on every interface."""
        name = self.host
        if self.host in EVERY_INTERFACE:
            name = socket.gethostname()
        elif self.host in LOOPBACK:
            name = "localhost"
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}/"

    @property
    def allowed_hosts(self) -> str:
        """Names under which browsers may call, for `CONTROLPLANE_ALLOWED_HOSTS`."""
        always = ["localhost", "127.0.0.1", "[::1]"]
        if self.host in {*LOOPBACK, "localhost"}:
            return ",".join(always)
        own = {socket.gethostname(), socket.getfqdn(), self.host} - EVERY_INTERFACE
        return ",".join([*always, *sorted(own - set(always))])

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """What the programs are told about it, where the outer environment says nothing."""
        told = {"CONTROLPLANE_PUBLIC_URL": self.url.rstrip("/"), "CONTROLPLANE_ALLOWED_HOSTS": self.allowed_hosts}
        return {name: outer.get(name) or value for name, value in told.items()}

    def readiness(self) -> Callable[[], bool]:
        """A probe that is true once Django answers anything but a server error."""
        target = "localhost" if self.host in EVERY_INTERFACE else self.host

        def is_ready() -> bool:
            connection = http.client.HTTPConnection(target, self.port, timeout=1)
            try:
                connection.request("GET", READY_PATH, headers={"Host": "localhost"})
                return connection.getresponse().status < http.HTTPStatus.INTERNAL_SERVER_ERROR
            except (OSError, http.client.HTTPException):
                return False
            finally:
                connection.close()

        return is_ready


def listen(host: str, port: int) -> Listening:
    """Open the socket; port 0 takes a free one. Raises `AddressUnavailable` with the reason in words."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        opened = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise AddressUnavailable(*_in_words(error, host, port)) from error
    except OverflowError as error:
        raise AddressUnavailable(f"{port} is not a port.", remedy="Use a number from 1 to 65535.") from error
    return Listening(opened, host, opened.getsockname()[1])


def _in_words(error: OSError, host: str, port: int) -> tuple[str]:
    sentences = {
        errno.EADDRINUSE: f"Port {port} on {host} is in use by another program. Choose another one with --port.",
        errno.EACCES: f"Port {port} needs more rights than this user has. Choose one above 1023 with --port.",
        errno.EADDRNOTAVAIL: f"{host} is not an address of this machine. Choose another one with --host.",
    }
    return (sentences.get(error.errno or 0, f"Cannot listen on {host} port {port}: {error.strerror}."),)
