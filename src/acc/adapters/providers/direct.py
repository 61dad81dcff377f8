"""A model of a provider, asked without a library in between; nothing is tried twice."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

import httpx2
import msgspec

from acc.adapters.chat.heard import Heard
from acc.adapters.chat.naming import Spoken
from acc.adapters.chat.streams import ServerFault, Unreadable, events, whole
from acc.adapters.chat.turns import Kept
from acc.adapters.chat.writing import as_json
from acc.adapters.providers.choice import ModelChoice
from acc.adapters.providers.faults import Faults
from acc.adapters.providers.leaving_out import LeavingOut
from acc.adapters.providers.pricing import call_cost
from acc.adapters.providers.telling import inner_error, seconds, worded
from acc.adapters.providers.wires.anthropic import AnthropicWire
from acc.adapters.providers.wires.chat import CompatibleWire, OpenAIChatWire
from acc.adapters.providers.wires.google import GoogleWire
from acc.adapters.providers.wires.responses import ResponsesWire
from acc.adapters.providers.wires.wire import Wire, merged
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import ToolCall
from acc.ports.outbound.model_ports import ModelAnswer, Prompt

log = logging.getLogger("acc.run")

_WIRES: dict[str, type[Wire]] = {
    "anthropic": AnthropicWire,
    "google": GoogleWire,
    "openai": ResponsesWire,
    "openai-chat": OpenAIChatWire,
    "openai-compatible": CompatibleWire,
    "openai-responses": ResponsesWire,
}
_CONNECT_WITHIN = 10.0
_CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
_CUT = (httpx2.RemoteProtocolError, httpx2.ReadError)
_FAULTS = (httpx2.HTTPError, ServerFault, ValueError)
_CHOSEN = ("temperature", "top_p", "seed", "thinking")
_BAD_REQUEST = 400
#: How Anthropic words it that its thoughts belong to another conversation.
_BOUND = "bound to a different conversation"
_CUT_OFF = "it was cut off, as max_tokens was used up: ask for less at once"
_MOST_KEPT = 512
_MOST_REFUSAL = 1024 * 1024


class DirectModel:
    """Asks one model of one provider.

    Connections belong to the event loop that opened them, so each loop has its own; `aclose` ends
    those of the running one. A model that asked for tool calls gets its own words back with their
    results, with its thoughts, for most providers want those.
    """

    def __init__(self, choice: ModelChoice) -> None:
        self.choice = choice
        self._key = choice.key()
        self._faults = Faults(choice, self._key)
        self._wire = _WIRES[choice.provider](choice)  # type: ignore[call-arg] # each takes a choice
        self._base = (choice.address or self._wire.home).rstrip("/")
        chosen = {name for name in _CHOSEN if getattr(choice, name) not in (None, "")}
        self._settings = LeavingOut(choice.name, self._wire.settings(), chosen)
        #: What it said when it asked for calls, by all that was said before.
        self._said: OrderedDict[bytes, tuple[Sequence[ToolCall], list[dict[str, Any]]]]
        self._said = OrderedDict()
        #: Whether it takes its own words back.
        self._takes_back = True
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient]
        self._clients = WeakKeyDictionary()

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        heard = self._wire.heard()
        streams = self._wire.streams_always
        spoken = self._spoken(prompt)
        try:
            async with self._answering(spoken.prompt, streams=streams) as response:
                if streams:
                    async for _ in _pieces(heard, response):
                        pass
                else:
                    heard.fill(await whole(response.aiter_bytes()))
        except _FAULTS as error:
            raise self._failed(error) from None
        return spoken.heard(self._whole(heard, spoken.prompt))

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer.

        A stream that breaks off is a failure, however much of it had come.
        """
        heard = self._wire.heard()
        spoken = self._spoken(prompt)
        try:
            async with self._answering(spoken.prompt, streams=True) as response:
                async for text in _pieces(heard, response):
                    yield text
        except _FAULTS as error:
            raise self._failed(error) from None
        yield spoken.heard(self._whole(heard, spoken.prompt))

    async def aclose(self) -> None:
        """Close the connections."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _spoken(self, prompt: Prompt) -> Spoken:
        return Spoken(prompt, arguments=self._wire.wants_plain_arguments)

    def _opened(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._open()
        return client

    def _open(self) -> httpx2.AsyncClient:
        within = self.choice.timeout
        try:
            return httpx2.AsyncClient(
                timeout=httpx2.Timeout(within, connect=min(within, _CONNECT_WITHIN)),
                limits=_CONNECTIONS,
                headers={"Content-Type": "application/json", **self._wire.headers(self._key)},
                # A proxy could read what goes over plain http, key and all.
                trust_env=not self._base.startswith("http:"),
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as error:
            raise self._faults.made(
                f"the proxy that the environment names cannot be used: {error}",
                reason="not_possible",
            ) from None

    @asynccontextmanager
    async def _answering(self, prompt: Prompt, *, streams: bool) -> AsyncIterator[httpx2.Response]:
        """Give the response to a question, asked again without what the model does not take."""
        url = self._base + self._wire.path(streams=streams)
        while True:
            takes_back, sent = self._takes_back, self._settings.sent
            body = self._wire.body(prompt, self._kept(prompt), streams=streams)
            content = as_json(merged(sent, body))
            async with self._opened().stream("POST", url, content=content) as response:
                if response.is_success:
                    yield response
                    return
                error = await self._refusal(response, url)
            status = response.status_code
            if takes_back and status == _BAD_REQUEST and _BOUND in str(error):
                self._takes_back = False
                log.warning("%s does not take its own words back: left out", self.choice.name)
            elif not self._settings.leaves_out(sent, status, error):
                raise worded(self._faults, error, status, seconds(response.headers))

    async def _refusal(self, response: httpx2.Response, url: str) -> object:
        """Return the error that a server sent."""
        if response.has_redirect_location:
            target = urljoin(url, response.headers["location"]).partition("?")[0][:200]
            raise self._faults.made(
                f"it sends us on to {target} ({response.status_code}): name the URL that answers",
                reason="rejected",
            )
        try:
            said = await whole(response.aiter_bytes(), _MOST_REFUSAL)
            return inner_error(msgspec.json.decode(said))
        except Unreadable:
            return ""
        except (msgspec.MsgspecError, RecursionError):
            return said.decode(errors="replace")

    def _kept(self, prompt: Prompt) -> Kept:
        """Return what gives back, turn by turn, what the model said when it asked for calls."""
        places = iter(_places(prompt) if self._said else ())

        def kept(calls: Sequence[ToolCall]) -> list[dict[str, Any]] | None:
            # Ids of calls are not unique with every server, and never across conversations.
            found = self._said.get(next(places, b""))
            known = found is not None and list(found[0]) == list(calls) and self._takes_back
            return found[1] if found is not None and known else None

        return kept

    def _whole(self, heard: Heard, prompt: Prompt) -> ModelAnswer:
        text, calls = heard.text, heard.calls
        if heard.refusal or heard.finish == "content_filter":
            words = f": {heard.refusal[:300]}" if heard.refusal else ""
            raise self._faults.made(f"it refused to answer this{words}", reason="refused")
        if heard.finish is None:
            if not heard.begun:
                raise self._faults.because("unreadable", told=heard.no_answer)
            raise self._faults.cut_off()
        if heard.finish == "length" and not text and not calls:
            raise self._faults.made(
                "it used up max_tokens before it said anything: allow more", reason="length"
            )
        if heard.finish == "length":
            log.warning("%s used up max_tokens: its answer is cut off", self.choice.name)
            cut = [replace(call, arguments={}, fault=_CUT_OFF) for call in calls[-1:]]
            calls = (*calls[:-1], *cut)
        elif calls:
            *_, place = _places(prompt, to_the_end=True)
            self._said[place] = (calls, heard.as_said())
            if len(self._said) > _MOST_KEPT:
                self._said.popitem(last=False)
        usage = heard.tokens
        cost = heard.cost
        if cost is None:
            cost = call_cost(self.choice, usage, heard.written)
        if cost is not None:
            usage = replace(usage, cost=cost, priced_calls=1)
        return ModelAnswer(text=text, calls=calls, usage=usage)

    def _failed(self, error: Exception) -> ModelFailed:
        """Return a failure as one of ours."""
        if isinstance(error, ServerFault):
            return worded(self._faults, error.error)
        if isinstance(error, httpx2.TimeoutException):
            return self._faults.because("timeout")
        if isinstance(error, _CUT):
            return self._faults.cut_off()
        if isinstance(error, httpx2.HTTPError):
            return self._faults.because("connection")
        return self._faults.because(
            "unreadable", told=str(error) if isinstance(error, Unreadable) else ""
        )


def _places(prompt: Prompt, *, to_the_end: bool = False) -> Iterator[bytes]:
    """Give what was said before each turn of calls, or in the end, in short."""
    before = sha256(prompt.query.encode("utf-8", "replace"))
    for message in prompt.messages:
        if message.role == "agent" and any(part.call is not None for part in message.parts):
            yield before.digest()
        before.update(as_json(message))
    if to_the_end:
        yield before.digest()


async def _pieces(heard: Heard, response: httpx2.Response) -> AsyncIterator[str]:
    """Give the text of an answer as it comes."""
    if response.headers.get("content-type", "").startswith("application/json"):
        # Some servers do not stream, whatever they are asked.
        heard.fill(await whole(response.aiter_bytes()))
        rest = heard.text
    else:
        async for data in events(response.aiter_bytes()):
            text = heard.add(data)
            if text:
                yield text
        rest = heard.close()
    if rest:
        yield rest
