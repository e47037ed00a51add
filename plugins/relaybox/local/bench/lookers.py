"""So many people who look at the page at once, each again as soon as they are answered: a process of its own, beside the measured one.

Run as `python -m relaybox.local.bench.lookers PORT COUNT TOKEN`; prints `{"200": n, ...}` when its standard input closes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections import Counter

PAGES = ("map", "stuck", "streams", "hops/r1/1", "api/status", "api/hops/r1/1", "api/streams")
_PAUSE_AFTER_FAILURE_SECONDS = 0.05


async def _look(port: int, path: str, token: str) -> str:
    """The status of one answer; `failed`: the connection broke."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = (
            f"GET /relaybox/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        )
        writer.write(request.encode())
        status = (await reader.readline()).decode().split(" ")[1:2]
        await reader.read()
        writer.close()
    except OSError as error:
        return type(error).__name__
    return status[0] if status else "closed"


async def _go_on(port: int, number: int, token: str, answers: Counter[str]) -> None:
    for path in itertools.islice(itertools.cycle(PAGES), number, None):
        answer = await _look(port, path, token)
        answers[answer] += 1
        if not answer.isdigit():
            await asyncio.sleep(_PAUSE_AFTER_FAILURE_SECONDS)


async def look(port: int, count: int, token: str) -> Counter[str]:
    """Until standard input closes."""
    answers: Counter[str] = Counter()
    lookers = [asyncio.create_task(_go_on(port, number, token, answers)) for number in range(count)]
    await asyncio.to_thread(sys.stdin.read)
    for looker in lookers:
        looker.cancel()
    return answers


if __name__ == "__main__":
    print(json.dumps(asyncio.run(look(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))))
