"""One HTTP request to a server on this machine: /health, /metrics, a completion. No redirects, no proxies."""

from __future__ import annotations

import http.client
import socket
import time

from controlplane.protocol.transfers import HttpReply, HttpRequest
from controlplane.protocol.wire import VerbError

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})


def request(wanted: HttpRequest) -> HttpReply:
    """Send it and read the whole body, up to its limit. Header values appear in no message: they may carry a key."""
    _check(wanted)
    began = time.monotonic()
    connection = http.client.HTTPConnection(wanted.address, wanted.port, timeout=wanted.timeout_s)
    try:
        body = wanted.body.encode() if wanted.body is not None else None
        connection.request(wanted.method, wanted.path, body=body, headers={"Connection": "close", **wanted.headers})
        answer = connection.getresponse()
        raw = _body(answer, wanted.body_limit_bytes + 1, began + wanted.timeout_s)
        return HttpReply(
            status=answer.status,
            headers={name.lower(): value for name, value in answer.getheaders()},
            body=raw[: wanted.body_limit_bytes].decode("utf-8", "replace"),
            elapsed_ms=round((time.monotonic() - began) * 1000, 3),
            is_truncated=len(raw) > wanted.body_limit_bytes,
        )
    except socket.timeout as error:  # not the builtin TimeoutError before Python 3.10
        raise VerbError(
            "http_timeout",
            f"Port {wanted.port} did not answer {wanted.path} in {wanted.timeout_s:g} s.",
            "Read its log.",
        ) from error
    except ConnectionRefusedError as error:
        raise VerbError("http_refused", f"Nothing listens on port {wanted.port}.", "Wait, or read the log.") from error
    except (OSError, http.client.HTTPException) as error:
        raise VerbError(
            "http_broken", f"Port {wanted.port} broke off: {type(error).__name__}.", "Read the log of its process."
        ) from error
    finally:
        connection.close()


def _body(answer: http.client.HTTPResponse, limit: int, deadline: float) -> bytes:
    """Read up to `limit` bytes; a server that trickles for ever is cut off at the deadline."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := answer.read1(min(limit, 65536))):
        chunks.append(chunk)
        limit -= len(chunk)
        if time.monotonic() > deadline:
            raise socket.timeout
    return b"".join(chunks)


def _check(wanted: HttpRequest) -> None:
    if wanted.method not in _METHODS or not wanted.path.startswith("/") or any(c in wanted.path for c in "\r\n "):
        raise VerbError("bad_request", "The method or path of the HTTP request is not valid.", "")
    if any(c in f"{name}{value}" for name, value in wanted.headers.items() for c in "\r\n"):
        raise VerbError(
            "bad_request", "An HTTP header contains a line break.", "Look for stray white space in the key."
        )
    if not _is_own_address(wanted.address):
        raise VerbError(
            "bad_request", f"{wanted.address} is not an address of this machine.", "Only its own servers can be asked."
        )


def _is_own_address(address: str) -> bool:
    """Only an address of this machine can be bound."""
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
