"""Stand between clients and servers on loopback and make the way longer: a process of its own.

    python -m tests.benchmarks.delay MILLISECONDS PORT…

Prints the port that leads to each given one, in their order, on one line; ends when its input ends. Every byte arrives
half a round trip later in either direction, and a connection is there after the one and a half that real ones take
until the server knows of them. Nothing limits how much goes through.
"""

import asyncio
import contextlib
import sys
from functools import partial

_BLOCK = 65_536


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float) -> None:
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        with contextlib.suppress(OSError):
            while True:
                due, block = await under_way.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not block:
                    writer.write_eof()
                    return
                writer.write(block)
                await writer.drain()

    delivering = asyncio.create_task(deliver())
    block = b"-"
    while block:
        try:
            block = await reader.read(_BLOCK)
        except OSError:
            block = b""
        under_way.put_nowait((loop.time() + late, block))
    await delivering


async def _served(port: int, trip: float, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1.5 * trip)
    far, onward = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asyncio.gather(_carry(near, onward, trip / 2), _carry(far, back, trip / 2))
    finally:
        for writer in (onward, back):
            writer.close()


async def _main(trip: float, targets: list[int]) -> None:
    servers = [await asyncio.start_server(partial(_served, port, trip), "127.0.0.1", 0) for port in targets]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1]) / 1000, [int(port) for port in sys.argv[2:]]))
