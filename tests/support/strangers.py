"""Callers that send a byte now and then, for as long as they are let: `PORT PATH:COUNT:HEADER=VALUE ...`.

Each opens a connection, promises a body and never finishes it; when it is refused it comes again. `-` means
no header. Prints a line when each has been there once.
"""

import asyncio
import contextlib
import sys
from typing import Final

_PAUSE_SECONDS: Final = 2.0
_TRICKLE_SECONDS: Final = 0.5
_LENGTH: Final = 1000


async def stranger(port: int, path: str, header: str, begun: asyncio.Semaphore) -> None:
    """Trickle indefinitely."""
    field = "" if header == "-" else header.replace("=", ": ", 1) + "\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{field}Content-Length: {_LENGTH}\r\n\r\n"
    )
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode())
            begun.release()
            try:
                await trickle(reader, writer)
            finally:
                writer.close()
        await asyncio.sleep(_PAUSE_SECONDS)


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then until there is an answer."""
    answer = asyncio.ensure_future(reader.read(1))
    try:
        for _ in range(_LENGTH - 1):
            writer.write(b" ")
            done, _ = await asyncio.wait({answer}, timeout=_TRICKLE_SECONDS)
            if done:
                return
    finally:
        answer.cancel()


async def main() -> None:
    """Run all strangers."""
    begun = asyncio.Semaphore(0)
    groups = [argument.split(":", 2) for argument in sys.argv[2:]]
    tasks = [
        asyncio.create_task(stranger(int(sys.argv[1]), path, header, begun))
        for path, count, header in groups
        for _ in range(int(count))
    ]
    for _ in tasks:
        await begun.acquire()
    print(f"{len(tasks)} strangers are here", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
