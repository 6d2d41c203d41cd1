"""The server beneath the calibration: pieces at their time, to clients that read slowly or go away."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable

from controlplane.bench.loadgen import paced

REQUEST = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"


def serve(answer: Callable[[paced.Request], paced.Answer]) -> socket.socket:
    """A client connected to a server that runs in a thread until the tests end."""
    server = paced.PacedServer(answer)
    threading.Thread(target=server.serve, daemon=True).start()
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += client.recv(65536)
    return data


def test_a_piece_goes_out_at_its_time_and_the_answer_hears_when() -> None:
    heard: list[float] = []

    def answer(request: paced.Request) -> paced.Answer:
        heard.append(request.received)
        heard.append((yield request.received + 0.03, b"later"))
        yield 0.0, b" end"

    with serve(answer) as client:
        client.sendall(REQUEST)
        assert read(client, 9) == b"later end"
        received, sent = heard
        assert received + 0.03 <= sent <= time.perf_counter()


def test_a_request_in_pieces_and_two_in_one_packet_are_answered_in_turn() -> None:
    def answer(request: paced.Request) -> paced.Answer:
        yield 0.0, request.target.encode() + request.body

    with serve(answer) as client:
        client.sendall(b"POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nab")
        client.sendall(b"cdPOST /b HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
        assert read(client, 9) == b"/aabcd/bx"


def test_a_client_that_reads_slowly_gets_every_byte() -> None:
    piece = bytes(range(256)) * 64 * 1024

    def answer(_request: paced.Request) -> paced.Answer:
        yield 0.0, piece
        yield 0.0, b"end"

    with serve(answer) as client:
        client.sendall(REQUEST)
        assert read(client, len(piece) + 3) == piece + b"end"


def test_an_answer_ends_with_its_client() -> None:
    ended = threading.Event()

    def answer(_request: paced.Request) -> paced.Answer:
        try:
            yield math.inf, b""
        finally:
            ended.set()

    with serve(answer) as client:
        client.sendall(REQUEST)
        client.shutdown(socket.SHUT_WR)
        assert ended.wait(10)
