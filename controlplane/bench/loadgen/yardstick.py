"""`python yardstick.py URL MODEL CONCURRENCY REQUESTS TOKENS`: what a client costs that does the least one can do.

The same closed loop on aiohttp, as the field's clients are made, without records, gates, samples or progress: it stamps
each read and decodes each event, so that it knows when tokens came. Prints the CPU seconds of 1,000 streamed tokens. A
machine that is slower at everything is slower at this too, so the load generator's cost is told as a share of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator

import aiohttp


async def _ask(session: aiohttp.ClientSession, url: str, model: str, tokens: int, stamps: list[float]) -> None:
    message = {"role": "user", "content": "word " * 40}
    usage = {"include_usage": True}
    body = {"model": model, "messages": [message], "max_tokens": tokens, "stream": True, "stream_options": usage}
    rest = b""
    async with session.post(url, json=body) as response:
        response.raise_for_status()
        async for data in response.content.iter_any():
            now = time.perf_counter()
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                if not event.startswith(b"data: {"):
                    continue
                choices = json.loads(event[6:])["choices"]
                if choices and choices[0]["delta"].get("content"):
                    stamps.append(now)


async def _measure(url: str, model: str, concurrency: int, requests: int, tokens: int) -> float:
    stamps: list[float] = []

    async def work(supply: Iterator[int]) -> None:
        for _ in supply:
            await _ask(session, url, model, tokens, stamps)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(work(iter((0,))) for _ in range(concurrency)))  # opens the connections
        stamps.clear()
        supply, cpu_start = iter(range(requests)), time.process_time()
        await asyncio.gather(*(work(supply) for _ in range(concurrency)))
        cpu_s = time.process_time() - cpu_start
    return cpu_s / len(stamps) * 1000


def main(arguments: list[str]) -> None:
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415 - as the load generator: where it is there

        uvloop.install()
    url, model, *counts = arguments
    sys.stdout.write(f"{asyncio.run(_measure(url, model, *map(int, counts)))}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
