"""Call every method with the released 0.3 client: `released_0_3_client.py URL TOKEN BINDING HOOK`.

It runs in an environment with `a2a_0_3.txt`. The results are printed as one JSON object.
"""

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    MessageSendParams,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

TRANSPORTS = {"JSONRPC": JsonRpcTransport, "HTTP+JSON": RestTransport}
BYTES, TEXT = "application/octet-stream", "text/plain"
#: Bytes, text that could be base64, base64 as text, and text in two encodings.
FILES = (
    (b"\x89PNG\r\n\x00\xff", BYTES),
    (b"", BYTES),
    (b"test", BYTES),
    (b"test", TEXT),
    (b"YWJjZA==", TEXT),
    ("報告".encode(), TEXT),
    (("四半期の報告" * 10).encode("shift_jis"), TEXT),
)


def message(*parts: Any, task: Any = None, blocking: bool = True) -> MessageSendParams:
    wrapped = [Part(root=TextPart(text=one) if isinstance(one, str) else one) for one in parts]
    return MessageSendParams(
        message=Message(
            role=Role.user,
            message_id=str(uuid4()),
            parts=wrapped,
            task_id=task.id if task else None,
            context_id=task.context_id if task else None,
        ),
        configuration=MessageSendConfiguration(blocking=blocking),
    )


def dump(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def collect(events: AsyncIterator[Any]) -> list[Any]:
    return [dump(event) async for event in events]


async def run(transport: Any, hook: str) -> dict[str, Any]:
    """Return the results of all methods by name."""
    report: dict[str, Any] = {}
    send = transport.send_message
    report["echo"] = dump(await send(message("hello")))
    for verb, answer in (("ask", "青"), ("login", "continue")):
        waiting = await send(message(f"{verb} please"))
        report[verb] = dump(waiting)
        report[f"{verb}_get"] = dump(await transport.get_task(TaskQueryParams(id=waiting.id)))
        report[f"{verb}_answer"] = dump(await send(message(answer, task=waiting)))
        report[f"{verb}_stream"] = await collect(
            transport.send_message_streaming(message(f"{verb} please"))
        )
    report["uploads"] = []
    for content, media_type in FILES:
        file = FileWithBytes(bytes=b64encode(content).decode(), name="f", mime_type=media_type)
        sent = await send(message("parts", FilePart(file=file)))
        report["uploads"].append([content.hex(), dump(sent)])
    link = FileWithUri(uri="https://example.com/a.pdf", mime_type="application/pdf")
    data = DataPart(data={"rows": [1, 2.5, None, "三"], "nested": {"a": True}})
    report["parts"] = dump(await send(message("parts", FilePart(file=link), data)))
    report["files"] = dump(await send(message("files")))
    report["stream"] = await collect(transport.send_message_streaming(message("count 3")))
    working = await send(message("sleep 30", blocking=False))
    report["working"] = dump(working)
    report["resubscribe"], report["cancel"] = await resubscribe_and_cancel(transport, working.id)
    report["push"] = await configure_push(transport, hook)
    report["card"] = dump(await transport.get_card())
    return report


async def resubscribe_and_cancel(transport: Any, task_id: str) -> tuple[list[Any], Any]:
    events: list[Any] = []
    canceled = None
    async for event in transport.resubscribe(TaskIdParams(id=task_id)):
        events.append(dump(event))
        if canceled is None:
            canceled = dump(await transport.cancel_task(TaskIdParams(id=task_id)))
    return events, canceled


async def configure_push(transport: Any, hook: str) -> dict[str, Any]:
    task = await transport.send_message(message("ask please"))
    config = PushNotificationConfig(id="one", url=hook, token="t0ken")
    created = await transport.set_task_callback(
        TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
    )
    read = await transport.get_task_callback(
        GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="one")
    )
    return {"task": task.id, "created": dump(created), "read": dump(read)}


async def main(url: str, token: str, binding: str, hook: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        interfaces = {one.transport: one.url for one in card.additional_interfaces}
        transport = TRANSPORTS[binding](http, card, interfaces[binding])
        sys.stdout.write(json.dumps({"public_card": dump(card), **await run(transport, hook)}))


asyncio.run(main(*sys.argv[1:]))
