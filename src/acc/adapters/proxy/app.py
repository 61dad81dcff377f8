"""An OpenAI-compatible server in front of another, which replaces the history by ACC memory."""

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from acc.adapters.http.client import STREAMING
from acc.adapters.proxy.chains import ResponseChains, ResponseRecord, recent_turns
from acc.adapters.proxy.chat_messages import CODEC, Message, check_messages
from acc.adapters.proxy.responses import (
    ResponseBuilder,
    chat_messages,
    chat_request,
    check_options,
    response_items,
)
from acc.application.memory.history import HistoryMemory
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.endpoint import redact_secrets
from acc.ports.outbound.system_ports import ClockPort, IdsPort

log = logging.getLogger("acc.proxy")
SESSION_HEADER = "x-acc-session"
MAX_BODY_BYTES = 32 * 1024 * 1024
_JSON = "application/json"
_SSE = "text/event-stream"
#: Headers of a request that concern one connection, or the body that the proxy replaces.
_NOT_FORWARDED = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive"}
    | {"te", "trailer", "upgrade", "proxy-authorization", "proxy-connection", "expect", "cookie"}
    | {SESSION_HEADER}
)


class UpstreamFailed(Exception):
    """The server behind the proxy responded with an error, or not at all."""

    def __init__(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.content = content
        self.headers = headers


class Proxy:
    """Endpoints of the proxy. `api_key` replaces the key of the clients, if it is set."""

    def __init__(
        self,
        *,
        base_url: str,
        client: httpx2.AsyncClient,
        memory: HistoryMemory,
        chains: ResponseChains,
        ids: IdsPort,
        clock: ClockPort,
        api_key: str = "",
        token: str = "",
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._client = client
        self._memory = memory
        self._chains = chains
        self._ids = ids
        self._clock = clock
        self._api_key = api_key
        self._token = token

    def app(self) -> Starlette:
        """Return the ASGI application."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            try:
                yield
            finally:
                await self._client.aclose()
                await self._memory.aclose()

        def guarded(endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
            async def handle(request: Request) -> Response:
                return await self._guard(endpoint, request)

            return handle

        routes = [
            Route("/health", _health),
            Route("/v1/chat/completions", guarded(self.chat), methods=["POST"]),
            Route("/v1/responses", guarded(self.respond), methods=["POST"]),
            Route("/v1/responses/compact", guarded(self.compact), methods=["POST"]),
            Route("/v1/responses/{id}", guarded(self.handle_response), methods=["GET", "DELETE"]),
            Route("/v1/models", guarded(self.forward), methods=["GET"]),
            Route("/v1/models/{id:path}", guarded(self.forward), methods=["GET"]),
            Route("/v1/embeddings", guarded(self.forward), methods=["POST"]),
        ]
        return Starlette(
            routes=routes,
            lifespan=lifespan,
            exception_handlers={HTTPException: _handle_http_error},
        )

    async def _guard(self, endpoint: Callable[[Request], Any], request: Request) -> Response:
        """Return the response of an endpoint; errors in the form of the OpenAI API."""
        given = request.headers.get("authorization", "")
        if self._token and not compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return _error(
                401, "the API key is not that of the proxy; see --token", "invalid_api_key"
            )
        try:
            response: Response = await endpoint(request)
        except InvalidInput as error:
            return _error(400, str(error), "invalid_request")
        except UpstreamFailed as error:
            return Response(error.content, error.status, headers=dict(error.headers))
        except httpx2.HTTPError as error:
            log.warning("the upstream response ended early: %s", error)
            return _error(502, "the upstream response ended early", "upstream_unreachable")
        except AccError as error:
            log.warning("a request failed: %s", error)
            return _error(503, str(error), "unavailable")
        return response

    async def chat(self, request: Request) -> Response:
        """Answer a chat completions request."""
        body = await _read_json(request)
        messages = check_messages(body.get("messages"))
        caller, session_id = _caller(request), request.headers.get(SESSION_HEADER, "")
        selected = await self._memory.select(
            messages,
            CODEC,
            session_id=session_id or _conversation_id(messages),
            user_id=caller,
            is_complete=not session_id,
        )

        async def note(text: str) -> None:
            if session_id:
                query = _last_query(messages)
                await self._memory.note_answer(
                    text, session_id=session_id, user_id=caller, query=query
                )

        upstream = await self._send(request, "/chat/completions", body | {"messages": selected})
        if not _is_stream(upstream):
            content = await _read_upstream(upstream)
            answer = _parse(content)["choices"][0]["message"]
            await note(answer.get("content") or "")
            return Response(content, media_type=_JSON)
        return StreamingResponse(_copy_stream(upstream, note), media_type=_SSE)

    async def respond(self, request: Request) -> Response:
        """Answer a Responses request."""
        body = await _read_json(request)
        check_options(body)
        added, caller = chat_messages(body.get("input")), _caller(request)
        check_messages(added)
        response_id = f"resp_{self._ids.new()}"
        previous = await self._read_previous(caller, body)
        conversation, history, is_complete = await self._resolve_conversation(
            caller, previous, added, response_id
        )
        instructions = [] if previous is None else list(previous.instructions)
        instructions += [one for one in added if CODEC.is_instruction(one)]
        own = [{"role": "system", "content": text}] if (text := body.get("instructions")) else []
        builder = ResponseBuilder(body, response_id=response_id, created_at=int(self._clock.now()))

        async def store() -> None:
            if body.get("store") is False:
                return
            answer = builder.message
            record = ResponseRecord(
                response=builder.response,
                conversation=conversation,
                previous="" if previous is None else previous.response["id"],
                instructions=instructions,
                recent=recent_turns([*history, answer]),
                added=[*added, answer],
            )
            await self._chains.write(caller, record)

        async def undo() -> None:
            if previous is not None and conversation == previous.conversation:
                old = previous.response["id"]
                await self._chains.advance(caller, conversation, old=response_id, new=old)

        try:
            turns = [one for one in history if not CODEC.is_instruction(one)]
            selected = await self._memory.select(
                turns, CODEC, session_id=conversation, user_id=caller, is_complete=is_complete
            )
            chat = chat_request(body, [*own, *instructions, *selected])
            upstream = await self._send(request, "/chat/completions", chat)
            if _is_stream(upstream):
                events = _response_events(upstream, builder, store, undo)
                return StreamingResponse(events, media_type=_SSE)
            builder.add_completion(_parse(await _read_upstream(upstream)))
            await store()
        except BaseException:
            await undo()
            raise
        return JSONResponse(builder.response)

    async def _read_previous(self, caller: str, body: Mapping[str, Any]) -> ResponseRecord | None:
        previous_id = body.get("previous_response_id")
        if not previous_id:
            return None
        record = await self._chains.read(caller, previous_id)
        if record is None:
            raise InvalidInput(
                f"previous_response_id {previous_id} is not stored here: it was created with "
                "store=false, deleted, or belongs to another API key"
            )
        return record

    async def _resolve_conversation(
        self,
        caller: str,
        previous: ResponseRecord | None,
        added: list[Message],
        response_id: str,
    ) -> tuple[str, list[Message], bool]:
        """Return the conversation of a request, its messages, and whether these are all.

        A response that has been continued already is continued in a new conversation.
        """
        if previous is None:
            await self._chains.advance(caller, response_id, old="", new=response_id)
            return response_id, added, True
        old, conversation = previous.response["id"], previous.conversation
        if await self._chains.advance(caller, conversation, old=old, new=response_id):
            return conversation, [*previous.recent, *added], False
        await self._chains.advance(caller, response_id, old="", new=response_id)
        return response_id, [*await self._chains.messages(caller, previous), *added], True

    async def compact(self, request: Request) -> Response:
        """Return a readable, bounded state instead of a conversation."""
        body = await _read_json(request)
        check_options(body)
        caller = _caller(request)
        previous = await self._read_previous(caller, body)
        messages = [] if previous is None else await self._chains.messages(caller, previous)
        if body.get("input") or previous is None:
            messages = [*messages, *check_messages(chat_messages(body.get("input")))]
        state, last = await self._memory.compact(messages, CODEC, user_id=caller)
        items = response_items([one for one in messages if CODEC.is_instruction(one)])
        if state:
            item_id = f"cmp_{self._ids.new()}"
            items.append({"type": "compaction", "id": item_id, "encrypted_content": state})
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        return JSONResponse(
            {
                "id": f"resp_{self._ids.new()}",
                "object": "response.compaction",
                "created_at": int(self._clock.now()),
                "output": [*items, *response_items(last)],
                "usage": usage | details,
            }
        )

    async def handle_response(self, request: Request) -> Response:
        """Return or delete a stored response."""
        response_id, caller = request.path_params["id"], _caller(request)
        if request.method == "DELETE":
            if await self._chains.delete(caller, response_id):
                return JSONResponse({"id": response_id, "object": "response", "deleted": True})
        elif record := await self._chains.read(caller, response_id):
            return JSONResponse(record.response)
        return _error(404, f"there is no response {response_id}", "not_found")

    async def forward(self, request: Request) -> Response:
        """Send a request on without a change."""
        content = await _read_body(request)
        path = request.url.path.removeprefix("/v1")
        if request.url.query:
            path = f"{path}?{request.url.query}"
        upstream = await self._send(request, path, content)
        return Response(await _read_upstream(upstream), upstream.status_code, media_type=_JSON)

    async def _send(
        self, request: Request, path: str, body: Mapping[str, Any] | bytes
    ) -> httpx2.Response:
        """Return the response of the server behind the proxy, as a stream."""
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in _NOT_FORWARDED and not (self._token and name == "authorization")
        }
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        call = self._client.build_request(
            request.method,
            f"{self._base_url}{path}",
            headers=headers,
            content=content,
            extensions=dict(STREAMING),
        )
        try:
            upstream = await self._client.send(call, stream=True)
            if upstream.status_code < httpx2.codes.BAD_REQUEST:
                return upstream
            content = await _read_upstream(upstream)
        except (httpx2.HTTPError, AccError) as error:
            message = f"{redact_secrets(self._base_url)} cannot be reached: {error or type(error)}"
            log.warning("%s", message)
            failed = _error(502, message, "upstream_unreachable")
            raise UpstreamFailed(502, bytes(failed.body), {"content-type": _JSON}) from error
        names = ("content-type", "retry-after", "x-request-id")
        forwarded = {name: upstream.headers[name] for name in names if name in upstream.headers}
        raise UpstreamFailed(upstream.status_code, content, forwarded)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _read_body(request: Request) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise InvalidInput(f"the request has more than {MAX_BODY_BYTES // 1024**2} MB")
    return bytes(content)


async def _read_json(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await _read_body(request))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the request is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidInput("the request must be a JSON object")
    return body


async def _read_upstream(upstream: httpx2.Response) -> bytes:
    try:
        return await upstream.aread()
    finally:
        await upstream.aclose()


def _parse(content: bytes) -> dict[str, Any]:
    """Return a chat completion; UpstreamFailed if it is none."""
    try:
        completion: dict[str, Any] = json.loads(content)
        completion["choices"][0]["message"]["role"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        failed = _error(502, "the upstream response is not a chat completion", "upstream_invalid")
        raise UpstreamFailed(502, bytes(failed.body), {"content-type": _JSON}) from error
    return completion


def _is_stream(upstream: httpx2.Response) -> bool:
    return bool(upstream.headers.get("content-type", "").startswith(_SSE))


async def _chunks(
    upstream: httpx2.Response,
) -> AsyncGenerator[tuple[str, dict[str, Any] | None], None]:
    """Return the lines of a stream, and the chunk in each of them."""
    try:
        async for line in upstream.aiter_lines():
            data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
            chunk = None
            if data.startswith("{"):
                try:
                    chunk = json.loads(data)
                except (ValueError, RecursionError):
                    log.warning("the upstream stream has an event that is not JSON")
            yield line, chunk
    finally:
        await upstream.aclose()


async def _until_broken(
    chunks: AsyncIterator[tuple[str, dict[str, Any] | None]],
) -> AsyncIterator[tuple[str, dict[str, Any] | None]]:
    """Return lines and chunks; a connection that breaks gives an error event."""
    try:
        async for item in chunks:
            yield item
    except (httpx2.HTTPError, AccError) as error:
        log.warning("an upstream stream ended early: %s", error)
        content = bytes(_error(502, "the stream ended early", "upstream").body).decode()
        yield f"data: {content}\n", None


async def _copy_stream(
    upstream: httpx2.Response, note: Callable[[str], Any]
) -> AsyncIterator[bytes]:
    """Send a stream on as it is; `note` gets its text."""
    texts: list[str] = []
    async with aclosing(_chunks(upstream)) as chunks:
        async for line, chunk in _until_broken(chunks):
            for choice in (chunk or {}).get("choices") or ():
                if choice.get("index", 0) == 0:
                    texts.append((choice.get("delta") or {}).get("content") or "")
            if line.startswith("data:") and line.removeprefix("data:").strip() == "[DONE]":
                await note("".join(texts))
            yield f"{line}\n".encode()


async def _response_events(
    upstream: httpx2.Response,
    builder: ResponseBuilder,
    store: Callable[[], Any],
    undo: Callable[[], Any],
) -> AsyncIterator[bytes]:
    """Return the events of a streamed response; it is stored before its last event is sent."""
    is_stored = False
    try:
        for event in builder.start():
            yield _sse(event)
        async with aclosing(_chunks(upstream)) as chunks:
            async for _, chunk in chunks:
                for event in builder.add_chunk(chunk or {}):
                    yield _sse(event)
        for event in builder.finish():
            yield _sse(event)
        await store()
        is_stored = True
        yield _sse(builder.end())
    except (httpx2.HTTPError, AccError) as error:
        log.warning("a streamed response failed: %s", error)
        yield _sse(builder.fail(f"the stream of the model ended early: {error}"))
    finally:
        if not is_stored:
            await undo()


def _sse(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _caller(request: Request) -> str:
    """Return an id of the caller; callers with different keys do not share memories."""
    return sha256(request.headers.get("authorization", "").encode()).hexdigest()[:32]


def _conversation_id(messages: list[Message]) -> str:
    """Return an id of a conversation without one: a digest of its first messages."""
    first = next((i for i, one in enumerate(messages) if CODEC.starts_turn(one)), 0)
    return sha256(json.dumps(messages[: first + 1], sort_keys=True).encode()).hexdigest()[:32]


def _last_query(messages: list[Message]) -> str:
    """Return the text of the user's last message, as the memory knows it."""
    last = [one for one in messages if CODEC.starts_turn(one)][-1:]
    return CODEC.decode(last)[0].text if last else ""


async def _handle_http_error(_: Request, error: Exception) -> Response:
    """Return an unknown path or method as an error of the OpenAI API."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for this class
    return _error(error.status_code, f"the proxy has no such endpoint: {error.detail}", "not_found")


def _error(status: int, message: str, code: str) -> JSONResponse:
    kind = "invalid_request_error" if status < httpx2.codes.INTERNAL_SERVER_ERROR else "api_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status)
