"""Pages to begin conversations: the choice of partners, two side by side, edited messages."""

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from acc.adapters.console.access_pages import parse_number, read_form, read_upload
from acc.adapters.console.event_views import turn_of
from acc.adapters.console.pages import (
    ConsoleServices,
    SessionPages,
    check_can_run,
    number,
    session_key,
)
from acc.adapters.console.renderer import Renderer, session_url
from acc.application.runtime.inputs import Message
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.session import DEFAULT_USER_ID, SessionKey

#: Ends of the ids of elements on a page with two sessions.
SIDES = ("", "-left", "-right")


def read_message(text: str, files: tuple[Part, ...]) -> Message:
    """Return the message of a form with its files; InvalidInput if it is empty."""
    text = text.replace("\r\n", "\n")
    if not files:
        return text
    return (*((Part(text=text),) if text.strip() else ()), *files)


class ChatPages:
    """Renders the forms, and begins sessions."""

    def __init__(
        self, services: ConsoleServices, renderer: Renderer, sessions: SessionPages
    ) -> None:
        self._services = services
        self._renderer = renderer
        self._sessions = sessions

    async def new_chat(self, request: Request) -> Response:
        """Return the form that selects one partner, or two to compare."""
        check_can_chat(self._services)
        partners = self._services.partners.listed()
        memories = list(dict.fromkeys(name for partner in partners for name in partner.memories))
        values = {"partners": partners, "memories": memories}
        return self._renderer.page(request, "chat.html", values)

    async def begin(self, request: Request) -> Response:
        """Redirect to a new session, or to two that are shown side by side."""
        form = await read_form(request)
        check_can_chat(self._services)
        apps = [
            self._application(form[side], form[f"{side}_memory"], form["address"], form["token"])
            for side in ("left", "right")
            if form[side]
        ]
        if not apps:
            raise InvalidInput("select an agent, or enter an A2A address")
        if len(set(apps)) != len(apps):
            raise InvalidInput("the two partners are the same; select another agent or memory")
        keys = [
            SessionKey(app_name=app, user_id=DEFAULT_USER_ID, session_id=session_id)
            for session_id in [self._services.new_id()]
            for app in apps
        ]
        if len(keys) == 1:
            return RedirectResponse(session_url("/session", keys[0]), 303)
        query = urlencode({"id": keys[0].session_id, "left": apps[0], "right": apps[1]})
        return RedirectResponse(f"/compare?{query}", 303)

    def _application(self, choice: str, memory: str, address: str, token: str) -> str:
        partners = self._services.partners
        if choice == "address":
            return partners.add_address(address.strip(), token=token.strip())
        partner = next((one for one in partners.listed() if one.app_name == choice), None)
        if partner is None:
            raise InvalidInput(f"the console has no agent for {choice!r}")
        if memory and memory not in partner.memories:
            raise InvalidInput(f"{partner.name!r} has no memory that {memory!r} could replace")
        return partners.with_memory(choice, memory) if memory else choice

    # Two sessions

    async def compare(self, request: Request) -> Response:
        """Return two sessions side by side."""
        keys = compared_keys(request.query_params)
        sides = [
            await self._sessions.conversation_values(request, key, side=side)
            for key, side in zip(keys, SIDES[1:], strict=True)
        ]
        values = {"sides": sides, "can_run": all(side["can_run"] for side in sides), "keys": keys}
        return self._renderer.page(request, "compare.html", values)

    # Edited messages

    async def edit(self, request: Request) -> Response:
        """Return the form to edit a message and continue from there in a new session."""
        key = session_key(request.query_params)
        event = await self._sessions.find_event(key, number(request, "seq", 0))
        if not turn_of(event):
            raise InvalidInput("only messages that begin a turn can be edited")
        files = [part for part in event.parts if part.raw is not None]
        values = {"key": key, "event": event, "files": files, "tab": "conversation"}
        return self._renderer.page(request, "edit.html", values)

    async def fork(self, request: Request) -> Response:
        """Copy the turns before a message to a new session and send the edited message there."""
        form, files = await read_upload(request)
        key = session_key(form)
        runner = check_can_run(self._services, key)
        event = await self._sessions.find_event(key, parse_number(form["seq"]))
        turn = turn_of(event)
        if not turn:
            raise InvalidInput("only messages that begin a turn can be edited")
        if form["keep_files"]:
            files = (*(part for part in event.parts if part.raw is not None), *files)
        message = read_message(form["message"], files)
        if isinstance(message, str) and not message.strip():
            raise InvalidInput("the message is empty")
        new = await runner.sessions.fork(key.session_id, turn=turn - 1, user_id=key.user_id)
        await self._services.runs.start(runner, new.key, message=message)
        return RedirectResponse(session_url("/session", new.key), 303)


def check_can_chat(services: ConsoleServices) -> None:
    """Raise InvalidInput if the console has nobody to talk with."""
    if not services.partners.listed():
        raise InvalidInput("the console was started without an agent; it cannot run sessions")


def compared_keys(values: Any) -> tuple[SessionKey, SessionKey]:
    """Return the two sessions that the parameters of a request name."""
    user, session = values.get("user", DEFAULT_USER_ID), values.get("id", "")
    left, right = values.get("left", ""), values.get("right", "")
    return (
        SessionKey(app_name=left, user_id=user, session_id=session),
        SessionKey(app_name=right, user_id=user, session_id=session),
    )
