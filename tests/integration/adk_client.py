"""Call a remote agent with ADK in a separate process: `adk_client.py URL TOKEN TEXT ...`.

The texts are sent one after the other in one session. Each event is printed as a line of JSON.
"""

import asyncio
import json
import sys
import warnings

import httpx

warnings.simplefilter("ignore")

from google.adk.agents.remote_a2a_agent import (  # noqa: E402 - it warns of its own experiments
    AGENT_CARD_WELL_KNOWN_PATH,
    RemoteA2aAgent,
)
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import InMemorySessionService  # noqa: E402
from google.genai import types  # noqa: E402

IDS = {"user_id": "ann", "session_id": "s1"}


async def main(url: str, token: str, *texts: str) -> None:
    """Send the texts and print the events."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = url + AGENT_CARD_WELL_KNOWN_PATH
        remote = RemoteA2aAgent(name="remote", agent_card=card, httpx_client=http)
        sessions = InMemorySessionService()
        runner = Runner(agent=remote, app_name="adk_client", session_service=sessions)
        await sessions.create_session(app_name="adk_client", **IDS)
        for text in texts:
            sent = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(new_message=sent, **IDS):
                parts = (event.content.parts if event.content else None) or []
                record = {
                    "query": text,
                    "text": "".join(part.text or "" for part in parts),
                    "calls": [part.function_call.args for part in parts if part.function_call],
                    "error": event.error_message,
                    "task": (event.custom_metadata or {}).get("a2a:task_id"),
                }
                sys.stdout.write(json.dumps(record) + "\n")


asyncio.run(main(*sys.argv[1:]))
