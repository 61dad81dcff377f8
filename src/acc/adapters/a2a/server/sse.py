"""Streams of tasks as server-sent events."""

import asyncio
from contextlib import aclosing

from acc.adapters.a2a.server.asgi import Headers, HttpRequest, Send
from acc.adapters.a2a.server.dispatch import note
from acc.adapters.a2a.wire.protocol import Wire
from acc.application.a2a.subscriptions import TaskStream

STREAMING = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_PING = b": still here\n\n"


async def send_events(
    request: HttpRequest,
    send: Send,
    wire: Wire,
    stream: TaskStream,
    *,
    around: tuple[bytes, bytes] = (b"", b""),
    headers: Headers,
) -> None:
    """Send what happens as server-sent events, until it ends or the client has left."""
    try:
        head = [*STREAMING, *headers]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_stop_when_gone(request, stream))
            await _send_all(send, wire, stream, around)
            watch.cancel()
    except* Exception as faults:  # noqa: BLE001 - the edge: the client comes back for the rest
        for fault in faults.exceptions:
            note(fault)
    finally:
        stream.close()
    await send({"type": "http.response.body", "body": b""})


async def _send_all(
    send: Send, wire: Wire, stream: TaskStream, around: tuple[bytes, bytes]
) -> None:
    before, after = around
    async with aclosing(stream.items()) as items:
        async for seq, item in items:
            if item is None:
                piece = _PING
            else:
                data = wire.write_stream_item(stream.task_id, stream.context_id, item)
                piece = b"id: %d\ndata: %b%b%b\n\n" % (seq, before, data, after)
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _stop_when_gone(request: HttpRequest, stream: TaskStream) -> None:
    await request.gone()
    stream.stop()
