"""The inbox of approvals, which follows the requests that runs wait for."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from acc.adapters.console.event_views import as_json
from acc.adapters.console.pages import ConsoleServices
from acc.adapters.console.renderer import Renderer, request_language
from acc.adapters.console.stream import encode_message, follow, partial_html
from acc.adapters.console.texts import translate
from acc.application.console.approvals import PendingRequest, inbox

#: Length of the part of a digest that names a request on a page.
_NAME_LENGTH = 12


class ApprovalPages:
    """Renders the requests of all sessions, and sends new and answered ones to open pages."""

    def __init__(self, services: ConsoleServices, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    async def approvals(
        self, request: Request, *, problem: str = "", status: int = 200
    ) -> Response:
        """Return the requests that all sessions wait for."""
        pending = await inbox(self._services.store, self._services.catalog)
        values = {
            **self._values(),
            "pending": pending,
            "problem": problem,
            "shown": ".".join(map(_name, pending)),
        }
        return self._renderer.page(request, "approvals.html", values, status=status)

    async def stream(self, request: Request) -> Response:
        """Follow the requests; the id of a message has the names of those that a page shows."""
        last = request.headers.get("last-event-id", request.query_params.get("shown", ""))
        shown = [name for name in last.split(".") if _is_name(name)]

        async def update() -> bytes:
            nonlocal shown
            pending = await inbox(self._services.store, self._services.catalog)
            names = list(map(_name, pending))
            if names == shown:
                return b""
            html, shown = self._changes(request, pending, shown), names
            return encode_message(html, ".".join(names) or "none")

        messages = follow(self._services.runs, update)
        return StreamingResponse(messages, media_type="text/event-stream")

    def _changes(
        self, request: Request, pending: Sequence[PendingRequest], shown: Sequence[str]
    ) -> str:
        """Return the cards of new requests, and notes in place of those that no longer wait.

        Other cards stay as they are, with what a person has entered.
        """
        language = request_language(request)
        names = set(map(_name, pending))
        html = ""
        for name in shown:
            if name not in names:
                note = Markup('<p class="quiet">{}</p>').format(
                    translate("This request was answered or canceled.", language)
                )
                html += partial_html(f"request-{name}", "outerHTML", note)
        for item in reversed(pending):
            if _name(item) not in shown:
                card = {**self._values(), "item": item, "origin": "approvals"}
                card_html = self._renderer.fragment(request, "_request.html", card)
                html += partial_html("requests", "afterbegin", card_html)
        text = "" if pending else translate("Nothing waits for an answer.", language)
        return html + partial_html("inbox-empty", "innerHTML", text)

    def _values(self) -> dict[str, Any]:
        partner_of = self._services.partners.name_of
        return {"as_json": as_json, "partner_of": partner_of, "path": "/approvals"}


def _name(item: PendingRequest) -> str:
    return item.digest[:_NAME_LENGTH]


def _is_name(text: str) -> bool:
    """Return True for a name of a request; a browser sends back what it was sent."""
    return len(text) == _NAME_LENGTH and text.isascii() and text.isalnum()
