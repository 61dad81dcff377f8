"""The graphs of the agents with the steps that are active now."""

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from acc.adapters.console.event_views import visible
from acc.adapters.console.pages import ConsoleServices, number
from acc.adapters.console.renderer import Renderer, request_language
from acc.adapters.console.stream import encode_message, follow, partial_html
from acc.adapters.console.texts import translate
from acc.application.agents.base import BaseAgent
from acc.application.console.active_steps import ActiveStep, AgentDrawing, active_steps
from acc.domain.errors import NotFound

_GRAPH_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
#: Sizes of a label in pixels.
_LABEL_HEIGHT, _LABEL_PADDING, _LETTER_WIDTH = 16, 6, 5.8
_MAX_LABEL = 40


class AgentPages:
    """Renders the agents and what they do."""

    def __init__(self, services: ConsoleServices, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def _graphs(self) -> list[tuple[BaseAgent, AgentDrawing]]:
        """Return the agents with their drawings, or raise NotFound."""
        agents = self._services.partners.agents
        if not agents:
            raise NotFound("the console was started without an agent")
        return list(zip(agents, self._services.drawings, strict=True))

    async def graph(self, request: Request) -> Response:
        """Return the drawing of an agent, which does not change."""
        graphs, index = self._graphs(), number(request, "number", 0)
        if index >= len(graphs):
            raise NotFound("there is no such agent")
        headers = {"content-security-policy": _GRAPH_POLICY}
        return Response(graphs[index][1].svg, media_type="image/svg+xml", headers=headers)

    async def agents(self, request: Request) -> Response:
        """Return the graphs of the agents, their list and the active steps."""
        values = await self._step_values(request)
        for graph in values["graphs"]:
            graph["agents"] = [
                {
                    "name": agent.name,
                    "type": type(agent).__name__,
                    "description": agent.description,
                    "tools": ", ".join(getattr(agent, "own_tools", ())),
                }
                for agent in graph["root"].walk_all()
            ]
        return self._renderer.page(request, "agents.html", values)

    async def _step_values(self, request: Request) -> dict[str, Any]:
        graphs, services = self._graphs(), self._services
        agent_of = services.partners.agent_of
        steps = await active_steps(agent_of, services.store, services.catalog, services.runs)
        language = request_language(request)
        shown = []
        for root, drawing in graphs:
            own = [step for step in steps if agent_of(step.key.app_name) is root]
            overlay = draw_steps(drawing, own, language=language)
            shown.append({"root": root, "drawing": drawing, "overlay": overlay})
        return {"steps": steps, "graphs": shown}

    async def stream(self, request: Request) -> Response:
        """Follow the active steps; the id of a message is a digest of what a page shows."""
        self._graphs()
        shown = request.headers.get("last-event-id", "")

        async def update() -> bytes:
            nonlocal shown
            values = await self._step_values(request)
            steps = self._renderer.fragment(request, "_steps.html", values)
            digest = hashlib.sha256(steps.encode()).hexdigest()[:12]
            if digest == shown:
                return b""
            shown = digest
            html = partial_html("active-steps", "innerHTML", steps)
            for index, graph in enumerate(values["graphs"]):
                html += partial_html(f"active-graph-{index}", "innerHTML", str(graph["overlay"]))
            return encode_message(html, digest)

        messages = follow(self._services.runs, update)
        return StreamingResponse(messages, media_type="text/event-stream")


def draw_steps(drawing: AgentDrawing, steps: Sequence[ActiveStep], *, language: str) -> Markup:
    """Return frames and labels of active agents as SVG with the size of the drawing."""
    svg = Element("svg", {"class": "active-steps", "viewBox": drawing.view_box})
    svg.attrib |= {"width": f"{drawing.width:g}", "height": f"{drawing.height:g}"}
    svg.set("aria-hidden", "true")  # the list beside it has the same content
    for agent in dict.fromkeys(step.agent for step in steps):
        own = [step for step in steps if step.agent == agent]
        is_waiting = all(step.is_waiting for step in own)
        tools = ", ".join(dict.fromkeys(tool for step in own for tool in step.tools))
        label = tools or translate("waiting" if is_waiting else "active", language)
        label = visible(label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 1]}…")
        if len(own) > 1:
            label += f" ×{len(own)}"
        wide = sum(unicodedata.east_asian_width(letter) in "WFA" for letter in label)
        width = _LETTER_WIDTH * (len(label) + wide) + 2 * _LABEL_PADDING
        for place in drawing.places.get(agent, ()):
            group = SubElement(svg, "g", {"class": "waiting" if is_waiting else "working"})
            sides = {"x": place.left, "y": place.top, "width": place.width, "height": place.height}
            frame = SubElement(group, "rect", {name: f"{side:g}" for name, side in sides.items()})
            frame.attrib |= {"class": "frame", "rx": "5"}
            x, y = place.left + 8, place.top - _LABEL_HEIGHT / 2
            sides = {"x": x, "y": y, "width": width, "height": _LABEL_HEIGHT, "rx": 8}
            pill = SubElement(group, "rect", {name: f"{side:g}" for name, side in sides.items()})
            pill.set("class", "label")
            text = SubElement(group, "text", {"x": f"{x + _LABEL_PADDING:g}", "y": f"{y + 12:g}"})
            text.text = label
    return Markup(tostring(svg, encoding="unicode"))  # noqa: S704 - escaped by ElementTree
