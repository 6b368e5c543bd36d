# SPDX-License-Identifier: Apache-2.0
"""A proxy that adds latency: python -m benchmarks.latency PORT SERVER-PORT MILLISECONDS.

It forwards all bytes in order, each after half of the round-trip time.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

#: The number of chunks in transit per direction and connection, to limit the memory.
_WINDOW = 64
_CHUNK = 65536


async def _forward(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float
) -> None:
    loop = asyncio.get_running_loop()
    in_transit: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WINDOW)

    async def deliver() -> None:
        while True:
            due, data = await in_transit.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            target.write(data)
            await target.drain()
        target.close()

    delivery = asyncio.create_task(deliver())
    try:
        while data := await source.read(_CHUNK):
            await in_transit.put((loop.time() + seconds, data))
    finally:
        await in_transit.put((loop.time() + seconds, b""))
        await delivery


async def _serve(port: int, server: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", server)
            await asyncio.gather(
                _forward(reader, server_writer, seconds), _forward(server_reader, writer, seconds)
            )

    async with await asyncio.start_server(connected, "127.0.0.1", port, backlog=128) as listening:
        await listening.serve_forever()


def main() -> None:
    port, server, milliseconds = (int(text) for text in sys.argv[1:4])
    asyncio.run(_serve(port, server, milliseconds / 2000))


if __name__ == "__main__":
    main()
