"""The client's connections, against servers that do exactly one thing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.bench.loadgen import connection
from controlplane.bench.loadgen.connection import Disconnected, HttpClient, TookTooLong
from controlplane.bench.tests.loadgen.test_framing import Heard, chunk

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Runs `script` for every connection; `connections` and `requests` (heads) are what it saw."""

    def __init__(self, script: Script, *, context: ssl.SSLContext | None = None) -> None:
        self._script, self._context = script, context
        self.connections = 0
        self.requests: list[bytes] = []

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._context else ''}://127.0.0.1:{self.port}/v1/x"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head)
                await self._script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def always(answer: bytes) -> Script:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return script


async def cut_off(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"one"))
    writer.close()


async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""


async def get(client: HttpClient, url: str, *, timeout_s: float = 5.0, **more: Any) -> Heard:
    heard = Heard()
    await client.request("POST" if more else "GET", url, heard, timeout_s=timeout_s, **more)
    return heard


def client(headers: dict[str, str] | None = None) -> HttpClient:
    return HttpClient(headers or {}, connect_timeout_s=5.0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_requests_that_follow_each_other_share_a_connection() -> None:
    async def test() -> None:
        async with Server(always(HELLO)) as server, client() as asking:
            assert [(await get(asking, server.url)).content for _ in range(3)] == [b"hello"] * 3
            assert (server.connections, len(server.requests)) == (1, 3)

    run(test())


def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async def test() -> None:
        async with Server(always(HELLO)) as server, client() as asking:
            await asyncio.gather(*(get(asking, server.url) for _ in range(20)))
            assert server.connections == 20

    run(test())


def test_what_is_sent_is_the_request_and_its_headers() -> None:
    async def test() -> None:
        async with Server(always(HELLO)) as server, client({"Authorization": "Bearer k"}) as asking:
            await get(asking, f"{server.url}?a=b", body=b"{}", content_type="application/json")
            request_line, *headers = server.requests[0].decode().split("\r\n")
            assert request_line == "POST /v1/x?a=b HTTP/1.1"
            assert {"Authorization: Bearer k", "Content-Type: application/json", "Content-Length: 2"} <= set(headers)
            assert f"Host: 127.0.0.1:{server.port}" in headers

    run(test())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        HELLO + b"and more than was announced",
    ],
)
def test_a_connection_that_is_not_in_order_is_not_used_again(answer: bytes) -> None:
    async def test() -> None:
        async with Server(always(answer)) as server, client() as asking:
            assert [(await get(asking, server.url)).content for _ in range(2)] == [b"hello"] * 2
            assert server.connections == 2

    run(test())


def test_a_connection_that_has_been_idle_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "KEEPALIVE_S", 0.0)

    async def test() -> None:
        async with Server(always(HELLO)) as server, client() as asking:
            await get(asking, server.url)
            await get(asking, server.url)
            assert server.connections == 2

    run(test())


def test_an_answer_to_half_a_request_ends_the_connection() -> None:
    """The rest of the request would be the beginning of the next one."""
    body = b"x" * 32 * 1024 * 1024

    async def test() -> None:
        async with Server(always(HELLO)) as server, client() as asking:
            assert (await get(asking, server.url, body=body, content_type="text/plain")).content == b"hello"
            assert not any(each.idle for each in asking._servers.values())

    run(test())


def test_an_answer_that_is_cut_off_is_said_and_nothing_is_sent_again() -> None:
    async def test() -> None:
        async with Server(cut_off) as server, client() as asking:
            heard = Heard()
            with pytest.raises(Disconnected):
                await asking.request("GET", server.url, heard, timeout_s=5.0)
            assert (heard.status, heard.content, len(server.requests)) == (200, b"one", 1)

    run(test())


def test_a_server_that_never_answers_takes_too_long() -> None:
    async def test() -> None:
        async with Server(silent) as server, client() as asking:
            with pytest.raises(TookTooLong, match=r"no complete answer within 0\.0"):
                await get(asking, server.url, timeout_s=0.05)

    run(test())


def test_a_server_that_does_not_take_the_connection_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(connection.Connection, "open", never)

    async def test() -> None:
        async with HttpClient({}, connect_timeout_s=0.05) as asking:
            with pytest.raises(TookTooLong, match=r"no connection within 0\.05 s"):
                await get(asking, "http://127.0.0.1:9/")

    run(test())


def test_nobody_there_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def test() -> None:
        async with client() as asking:
            with pytest.raises(ConnectionRefusedError):
                await get(asking, f"http://127.0.0.1:{port}/")

    run(test())


def test_a_name_with_several_addresses_is_tried_until_one_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with Server(always(HELLO)) as server, client() as asking:
            loop = asyncio.get_running_loop()
            with socket.create_server(("127.0.0.1", 0)) as free:
                nobody = free.getsockname()
            found = [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", at) for at in (nobody, ("127.0.0.1", server.port), nobody)
            ]

            async def addresses(*_: object, **__: object) -> list[Any]:
                return found

            monkeypatch.setattr(loop, "getaddrinfo", addresses)
            assert (await get(asking, f"http://two.example:{server.port}/")).content == b"hello"

    run(test())


def test_a_fault_of_the_receiver_reaches_the_one_who_asked() -> None:
    class Broken(Heard):
        def body(self, data: bytes, at: float) -> None:
            raise KeyError("a fault of ours")

    async def test() -> None:
        async with Server(always(HELLO)) as server, client() as asking:
            with pytest.raises(KeyError, match="a fault of ours"):
                await asking.request("GET", server.url, Broken(), timeout_s=5.0)

    run(test())


def test_a_key_with_a_line_end_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="control character") as raised:
        HttpClient({"Authorization": "Bearer secret\r\nX-Evil: 1"}, connect_timeout_s=1.0)
    assert "secret" not in str(raised.value)


def test_tls_with_a_certificate_that_is_trusted_and_with_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)

    async def test() -> None:
        async with Server(always(HELLO), context=serving) as server:
            async with client() as asking:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await get(asking, server.url.replace("127.0.0.1", "localhost"))
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            async with client() as asking:
                assert (await get(asking, server.url.replace("127.0.0.1", "localhost"))).content == b"hello"

    run(test())


def self_signed(folder: Path) -> Path:
    """A file with key and certificate of `localhost`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    path = folder / "localhost.pem"
    path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem))
    return path
