"""A model behind any server that speaks chat completions, asked without a library in between."""

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin

import httpx2
import msgspec

from acc.adapters.chat.answering import (
    NO_COMPLETION,
    Answer,
    ServerFault,
    Unreadable,
    events,
    whole,
)
from acc.adapters.chat.asking import bound_to, function, in_words, messages, unfolded
from acc.adapters.providers.choice import ModelChoice
from acc.adapters.providers.faults import Faults
from acc.adapters.providers.pricing import price_by_address
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.event import ToolCall
from acc.domain.value_objects.value import changed
from acc.ports.outbound.model_ports import ModelAnswer, Prompt

_CONNECT_WITHIN = 10.0
_CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
_CUT = (httpx2.RemoteProtocolError, httpx2.ReadError)
#: What an error is called by those who imitate OpenAI, and what it is for us.
_CALLED = {
    "insufficient_quota": "quota",
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",
    "model_not_found": "unknown_model",
    "content_filter": "refused",
    "rate_limit_exceeded": "rate_limit",
    "overloaded_error": "overloaded",
}
_BY_STATUS = {
    401: "key_refused",
    402: "quota",
    403: "key_refused",
    404: "unknown_model",
    408: "timeout",
    413: "context_length",
    429: "rate_limit",
    503: "unavailable",
    529: "overloaded",
}
_SERVERS_FAULT = 500
_SENT_AS_THEY_ARE = ("temperature", "top_p", "max_tokens", "seed")
_EFFORTS = {"on": "medium", "off": "none"}
_MOST_KEPT = 512
_MOST_REFUSAL = 1024 * 1024


class ChatModel:
    """Asks one model of one server; nothing is tried twice.

    Connections belong to the event loop that opened them, so each loop gets its own; `aclose` ends
    those of the running one. A model that asked for tool calls gets its own message back with their
    results, with its thoughts, for some servers want those.
    """

    def __init__(self, choice: ModelChoice) -> None:
        self.choice = choice
        self._key = choice.key()
        self._faults = Faults(choice, self._key)
        self._url = f"{choice.base_url.rstrip('/')}/chat/completions"
        self._settings = _settings(choice)
        self._said: OrderedDict[str, tuple[Sequence[ToolCall], dict[str, Any]]] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx2.AsyncClient | None = None

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        answer = Answer()
        try:
            body = self._body(prompt)
            async with self._opened().stream("POST", self._url, content=body) as response:
                if not response.is_success:
                    raise await self._told(response)
                answer.fill(await whole(response.aiter_bytes()))
        except (httpx2.HTTPError, ServerFault, ValueError) as error:
            raise self._failed(error) from None
        return self._whole(answer)

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer.

        A stream that breaks off is a failure, however much of it had come.
        """
        answer = Answer()
        body = self._body(prompt, stream=True, stream_options={"include_usage": True})
        try:
            async with self._opened().stream("POST", self._url, content=body) as response:
                if not response.is_success:
                    raise await self._told(response)
                if response.headers.get("content-type", "").startswith("application/json"):
                    # Some servers do not stream, whatever they are asked.
                    answer.fill(await whole(response.aiter_bytes()))
                    rest = answer.text
                else:
                    async for data in events(response.aiter_bytes()):
                        text = answer.add(data)
                        if text:
                            yield text
                    rest = answer.close()
        except (httpx2.HTTPError, ServerFault, ValueError) as error:
            raise self._failed(error) from None
        if rest:
            yield rest
        yield self._whole(answer)

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client, self._loop = self._client, None, None
        if client is not None:
            await client.aclose()

    def _opened(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # What another loop opened cannot be closed from this one.
            choice = self.choice
            headers = {"Content-Type": "application/json"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._client = httpx2.AsyncClient(
                timeout=httpx2.Timeout(
                    choice.timeout, connect=min(choice.timeout, _CONNECT_WITHIN)
                ),
                limits=_CONNECTIONS,
                headers=headers,
            )
            self._loop = loop
        return self._client

    def _body(self, prompt: Prompt, **more: Any) -> bytes:
        body: dict[str, Any] = {**self._settings, **more}
        told = ""
        if prompt.output_schema is not None:
            schema = unfolded(prompt.output_schema)
            if self.choice.output != "prompted" and schema.get("type") == "object":
                body["response_format"] = bound_to(schema)
            else:
                told = in_words(schema)
        if prompt.tools:
            body["tools"] = [function(spec) for spec in prompt.tools]
        body["messages"] = self._as_it_said(messages(prompt, images=True, told=told), prompt)
        return msgspec.json.encode(body, enc_hook=str)

    def _as_it_said(self, found: list[dict[str, Any]], prompt: Prompt) -> list[dict[str, Any]]:
        """Return messages in which the model's own are as it wrote them, where that is known."""
        if not self._said or not prompt.messages:
            return found
        calls = {
            own[0].id: own
            for message in prompt.messages
            if (own := [part.call for part in message.parts if part.call is not None])
        }
        for place, message in enumerate(found):
            first = message["tool_calls"][0]["id"] if "tool_calls" in message else ""
            # Ids of calls are not unique with every server.
            kept = self._said.get(first)
            if kept is not None and list(kept[0]) == calls.get(first):
                found[place] = kept[1]
        return found

    def _whole(self, answer: Answer) -> ModelAnswer:
        text, calls = answer.text, answer.calls
        if answer.refusal or answer.finish == "content_filter":
            words = f": {answer.refusal[:300]}" if answer.refusal else ""
            raise self._faults.made(f"it refused to answer this{words}", reason="refused")
        if answer.finish is None:
            if not answer.begun:
                raise self._faults.because("unreadable", told=NO_COMPLETION)
            raise self._faults.cut_off()
        if answer.finish == "length" and not text and not calls:
            raise self._faults.made(
                "it used up max_tokens before it said anything: allow more", reason="length"
            )
        if calls:
            self._said[calls[0].id] = (calls, answer.as_said())
            if len(self._said) > _MOST_KEPT:
                self._said.popitem(last=False)
        usage = answer.tokens
        told = answer.usage.get("cost")
        if isinstance(told, int | float) and told >= 0:
            cost: float | None = float(told)
        else:
            cost = price_by_address(self.choice.model, self.choice.base_url, usage)
        if cost is not None:
            usage = changed(usage, cost=cost, priced_calls=1)
        return ModelAnswer(text=text, calls=calls, usage=usage)

    def _failed(self, error: Exception) -> ModelFailed:
        """Return a failure as one of ours."""
        if isinstance(error, ServerFault):
            return self._worded(error.error, 0, None)
        if isinstance(error, httpx2.TimeoutException):
            return self._faults.because("timeout")
        if isinstance(error, _CUT):
            return self._faults.cut_off()
        if isinstance(error, httpx2.HTTPError):
            return self._faults.because("connection")
        return self._faults.because(
            "unreadable", told=str(error) if isinstance(error, Unreadable) else ""
        )

    async def _told(self, response: httpx2.Response) -> ModelFailed:
        """Return what a server's refusal says."""
        if response.has_redirect_location:
            target = urljoin(self._url, response.headers["location"]).partition("?")[0][:200]
            return self._faults.made(
                f"it sends us on to {target} ({response.status_code}): name the URL that answers",
                reason="rejected",
            )
        try:
            said = await whole(response.aiter_bytes(), _MOST_REFUSAL)
            body = msgspec.json.decode(said)
        except Unreadable:
            body = ""
        except (msgspec.MsgspecError, RecursionError):
            body = said.decode(errors="replace")
        inner = body.get("error", body) if isinstance(body, dict) else body
        return self._worded(inner, response.status_code, _seconds(response))

    def _worded(self, error: object, status: int, retry_after: float | None) -> ModelFailed:
        found = error if isinstance(error, dict) else {"message": str(error)}
        names = [str(found.get(key)) for key in ("code", "type")]
        if not status and re.fullmatch(r"[1-5][0-9]{2}", names[0]):
            status = int(names[0])
        reason = next((_CALLED[name] for name in names if name in _CALLED), "")
        if status in (401, 403) or not reason:
            reason = _BY_STATUS.get(
                status, "server" if not status or status >= _SERVERS_FAULT else "rejected"
            )
        return self._faults.because(
            reason,
            status=status,
            told=str(found.get("message") or ""),
            retry_after=retry_after,
        )


def _settings(choice: ModelChoice) -> dict[str, Any]:
    found: dict[str, Any] = {"model": choice.model}
    for name in _SENT_AS_THEY_ARE:
        value = getattr(choice, name)
        if value is not None:
            found[name] = value
    if choice.thinking:
        found["reasoning_effort"] = _EFFORTS.get(choice.thinking, choice.thinking)
    return found


def _seconds(response: httpx2.Response) -> float | None:
    """Return how long a server wants to be left alone, told as a number or as a date."""
    headers = response.headers
    after = headers.get("retry-after", "")
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1000
        else:
            seconds = float(after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(after).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
