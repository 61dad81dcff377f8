"""The local model: asked over the server's HTTP on loopback."""

import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec

from acc.adapters.chat.answering import Answer
from acc.adapters.chat.streams import ServerFault, events
from acc.adapters.chat.writing import as_json
from acc.adapters.local_models.choice import LocalChoice
from acc.adapters.local_models.requests import request_for
from acc.adapters.local_models.shared_files import Address
from acc.adapters.local_models.starting import ServerLease
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import ModelAnswer, Prompt
from acc.ports.outbound.system_ports import ThreadsPort

log = logging.getLogger("acc.run")

_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
#: Loopback speaks plain HTTP; without this httpx reads the certificates of the world each time.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_GONE = (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


class LocalModel:
    """Asks a model on this machine, whose server is started or found when it is first asked.

    Tools are offered to models whose file says that they can call them; to others they are not,
    which is logged once. Whoever stops listening stops the server's work on the answer.
    """

    def __init__(self, choice: LocalChoice, *, threads: ThreadsPort) -> None:
        self.choice = choice
        self._threads = threads
        self._lease = ServerLease(choice)
        self._uses_tools: bool | None = None

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.choice.name

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        pieces = self.stream(prompt)
        try:
            async for piece in pieces:
                if isinstance(piece, ModelAnswer):
                    return piece
        finally:
            await pieces.aclose()  # type: ignore[attr-defined] # a generator, which mypy cannot see
        raise ModelFailed(f"{self.name} gave no answer")

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer."""
        answer = Answer()
        async with self._client() as client:
            response = await self._ask(client, prompt)
            try:
                async for data in events(response.aiter_bytes()):
                    text = answer.add(data)
                    if text:
                        yield text
            except ServerFault as error:
                raise ModelFailed(f"{self.name}: {told(error.error)}") from None
            except ValueError:
                raise ModelFailed(f"{self.name}: the server's answer cannot be read") from None
            except httpx.TransportError:
                pass  # the answer knows that it has no end
            finally:
                await response.aclose()
        if answer.finish is None:
            raise ModelFailed(
                f"{self.name}: the local server stopped in the middle of the answer, which was "
                "thrown away; it is started again with the next question"
            )
        rest = answer.close()
        if rest:
            yield rest
        yield ModelAnswer(text=answer.text, calls=answer.calls, usage=answer.tokens)

    def release(self) -> None:
        """Let the server end, if nobody else uses it; asking again starts it again."""
        self._lease.release()

    def _client(self) -> httpx.AsyncClient:
        # One for each question: connections belong to a loop, and to the server of the moment.
        return httpx.AsyncClient(timeout=_TIMEOUT, verify=_NO_TLS, trust_env=False)

    async def _ask(self, client: httpx.AsyncClient, prompt: Prompt) -> httpx.Response:
        """Return the response as it begins; a server that has just ended is asked anew, once."""
        try:
            return await self._sent(client, prompt)
        except _GONE:
            log.info("the local server of %s is gone; looking again", self.name)
        try:
            return await self._sent(client, prompt)
        except httpx.HTTPError as error:
            raise ModelFailed(
                f"{self.name}: the local server cannot be asked ({type(error).__name__})"
            ) from None

    async def _sent(self, client: httpx.AsyncClient, prompt: Prompt) -> httpx.Response:
        address: Address = await self._threads.call(self._lease.address)
        headers = {"Authorization": f"Bearer {address.key}"}
        tools = bool(prompt.tools) and await self._may_use_tools(client, address.url, headers)
        body = request_for(prompt, self.choice, tools=tools)
        request = client.build_request(
            "POST",
            f"{address.url}/v1/chat/completions",
            content=as_json(body),
            headers=headers | {"Content-Type": "application/json"},
        )
        response = await client.send(request, stream=True)
        if response.is_success:
            return response
        text = await response.aread()
        await response.aclose()
        raise ModelFailed(f"{self.name}: {_fault(text)}")

    async def _may_use_tools(
        self, client: httpx.AsyncClient, url: str, headers: dict[str, str]
    ) -> bool:
        if self._uses_tools is None:
            response = await client.get(f"{url}/props", headers=headers)
            found: dict[str, Any] = response.json().get("chat_template_caps", {})
            self._uses_tools = bool(found.get("supports_tools"))
            if not self._uses_tools:
                log.warning("%s cannot call tools: it answers without them", self.name)
        return self._uses_tools


def _fault(text: bytes) -> str:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        found = None
    return told(found.get("error") if isinstance(found, dict) else None)


def told(error: object) -> str:
    """Return what the server says went wrong, and what to do about it."""
    if not isinstance(error, dict):
        return str(error or "the local server refused the request")
    if error.get("type") == "exceed_context_size_error":
        return (
            f"the prompt has {error.get('n_prompt_tokens')} tokens and its window only "
            f"{error.get('n_ctx')}: give it less to read (memory, instruction, tools), or a larger "
            "window with ?context="
        )
    return str(error.get("message", "the local server refused the request"))
