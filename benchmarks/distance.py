"""A network between a client and a server on one machine: python -m benchmarks.distance.

Arguments: the port to listen on, the server's port, and the round trip in milliseconds. Bytes
are handed on in their order, each half a round trip after it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

#: Bytes under way per direction and connection before we stop reading: memory is bounded.
_WINDOW = 64
_CHUNK = 65536


async def _carry(source: asyncio.StreamReader, goal: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    flying: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WINDOW)

    async def land() -> None:
        while True:
            due, data = await flying.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            goal.write(data)
            await goal.drain()
        goal.close()

    landing = asyncio.create_task(land())
    try:
        while data := await source.read(_CHUNK):
            await flying.put((loop.time() + seconds, data))
    finally:
        await flying.put((loop.time() + seconds, b""))
        await landing


async def _serve(port: int, server: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            there, back = await asyncio.open_connection("127.0.0.1", server)
            await asyncio.gather(_carry(reader, back, seconds), _carry(there, writer, seconds))

    async with await asyncio.start_server(connected, "127.0.0.1", port, backlog=128) as listening:
        await listening.serve_forever()


def main() -> None:
    port, server, milliseconds = (int(text) for text in sys.argv[1:4])
    asyncio.run(_serve(port, server, milliseconds / 2000))


if __name__ == "__main__":
    main()
