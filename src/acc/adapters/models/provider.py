"""A provider's model through the model classes of pydantic-ai.

Failed calls are not retried, except without a setting or earlier responses that the provider
rejected.
"""

import asyncio
import importlib
import inspect
import logging
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import httpx2
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    ModelResponse as PydanticResponse,
)
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings

from acc.adapters.models.errors import ModelErrors, ResponseTooLargeError
from acc.adapters.models.messages import (
    NATIVE_TOOL_TYPES,
    PreviousResponses,
    ToolNameMap,
    first_tokens,
    to_messages,
    to_parameters,
    to_tool_call,
    without_files,
)
from acc.adapters.models.prices import response_cost
from acc.adapters.models.request_json import without_surrogates
from acc.adapters.system.loop_cleanup import close_with_loop
from acc.application.models.names import ModelName, media_types
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Usage
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, NativeTool
from acc.ports.outbound.model_ports import ModelSettings as RequestSettings

log = logging.getLogger("acc.run")
#: Providers that reject tool calls in a conversation if the request declares no tool.
_NEED_TOOL_DEFINITIONS = frozenset({"anthropic", "bedrock"})

CONNECT_TIMEOUT_SECONDS = 10.0
MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_STREAM_BYTES = 256 * 1024 * 1024
_CONNECTION_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
#: Exceptions of a call. Anything else is a defect of this package.
_CALL_ERRORS = (
    AgentRunError,
    UserError,
    NotImplementedError,
    httpx2.HTTPError,
    httpx2.StreamError,
    OSError,
    TimeoutError,
    ValueError,
    RecursionError,
)
#: What the library raises for a response that lacks what its API always contains.
_INCOMPLETE_RESPONSE_ERRORS = (TypeError, AttributeError, LookupError)
_EFFORTS: dict[Any, str] = {True: "medium", False: "none"}
#: Providers that accept argument names in every script.
_ANY_ARGUMENT_NAMES = frozenset({"openai", "openai-chat", "openai-responses", "google"})
#: A server that reports more tokens miscounts.
_MAX_TOKENS = 10**9
_CUT_OFF_CALL = "the call was cut off because max_tokens was reached; request less in one call"
#: How Anthropic says that signed reasoning belongs to another conversation.
_BOUND_ELSEWHERE = "bound to a different conversation"
#: Reasoning in <think> tags that the library did not separate: the tags were split across stream
#: chunks, or the opening tag is in the model's template.
_TAGGED_REASONING = re.compile(
    r"(?s)^\s*<think>.*?</think>\s*|^(?:(?!<think>).)*?\n[ \t]*</think>[ \t]*(?:\n\s*|$)"
)


class OpenedModel(NamedTuple):
    """A model of the library and the HTTP client that belongs to it."""

    model: Model
    http_client: httpx2.AsyncClient


class PydanticAiModel:
    """Implements StreamingModelPort for one model of one provider.

    Connections belong to the event loop that opened them, so each loop has its own. They are closed
    when the loop ends; `aclose` closes those of the running loop. `url` replaces the base URL of
    the name, and `label` the name in errors. `settings` are added to those of the name.
    """

    def __init__(
        self,
        name: ModelName,
        *,
        key: str,
        url: str = "",
        label: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._key = key
        self._url = url or name.base_url
        self._errors = ModelErrors(name, key, url=self._url, label=label)
        self._settings = SupportedSettings(
            name.name, {"timeout": name.timeout, **_settings(name), **(settings or {})}
        )
        self._previous = PreviousResponses()
        self._returns_previous = True
        #: The model of each loop, and what closes its connections.
        self._opened: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[Model, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    @property
    def input_types(self) -> tuple[str, ...]:
        """Return the media types of files that the model accepts."""
        return media_types(self.name.provider)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        model, names = self._model(), self._names(prompt)
        request = names.request
        while True:
            call = self._call(model, request)
            try:
                response = await model.request(call.messages, call.settings, call.parameters)
                break
            except _CALL_ERRORS as error:
                request = self._adapt(error, call, request)
            except _INCOMPLETE_RESPONSE_ERRORS as error:
                detail = "it is not a response of this API"
                raise self._errors.create("unreadable", detail=detail) from error
        return names.restore(self._read(response, names.request))

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response.

        A stream without its proper end is an error, however much of it arrived.
        """
        model, names = self._model(), self._names(prompt)
        request = names.request
        while True:
            call, shown = self._call(model, request), False
            try:
                async with model_request_stream(
                    model,
                    call.messages,
                    model_settings=call.settings,
                    model_request_parameters=call.parameters,
                    instrument=False,
                ) as events:
                    async for event in events:
                        text = _text(event)
                        if text:
                            shown = True
                            yield text
                    response = events.get()
                break
            except _CALL_ERRORS as error:
                if shown:
                    raise self._errors.from_exception(error) from None
                request = self._adapt(error, call, request)
        if _lacks_finish_reason(model, response):
            raise self._errors.create("cut_off")
        yield names.restore(self._read(response, names.request))

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened[1].aclose()

    def _model(self) -> Model:
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            new = self._open()
            opened = self._opened[loop] = new.model, close_with_loop(new.http_client.aclose)
        return opened[0]

    def _open(self) -> OpenedModel:
        provider = self.name.provider
        try:
            return open_model(self.name, self._key, self._url, self._errors)
        except ImportError:
            raise self._errors.with_message(
                f"its client library is missing: pip install 'pydantic-ai-slim[{provider}]'",
                reason="not_installed",
            ) from None
        except (UserError, ValueError, TypeError, httpx2.InvalidURL) as error:
            raise self._errors.create("not_possible", detail=str(error)) from None

    def _names(self, request: ModelRequest) -> ToolNameMap:
        arguments = self.name.provider not in _ANY_ARGUMENT_NAMES
        return ToolNameMap(without_surrogates(request), arguments=arguments)

    def _call(self, model: Model, request: ModelRequest) -> "_Call":
        previous = self._previous.find(request) if self._returns_previous else {}
        messages = to_messages(request, self.name.provider, previous)
        settings = dict(sent := self._settings.supported(model, request.settings))
        if request.tools or len(request.messages) > 1:
            settings["cache"] = True  # the prefix is sent again with the next call
        if request.token_choices:
            settings |= {"openai_logprobs": True, "openai_top_logprobs": request.token_choices}
        if _lacks_reasoning(model, settings, messages):
            settings["thinking"] = False
        if self.name.provider == "openai-compatible" and "thinking" in settings:
            # The library sends an effort only to models that it knows.
            effort = settings.pop("thinking")
            settings["openai_reasoning_effort"] = _EFFORTS.get(effort, effort)
        return _Call(
            messages,
            cast("ModelSettings", settings),
            self._parameters(model, request),
            sent,
            bool(previous),
        )

    def _parameters(self, model: Model, request: ModelRequest) -> ModelRequestParameters:
        profile: Any = model.profile
        if request.native_tools:
            supported_tools = profile.get("supported_native_tools", model.supported_native_tools())
            self._check_native_tools(request.native_tools, supported_tools)
        output = self.name.output
        supported = output == "auto" and bool(profile.get("supports_json_schema_output"))
        with_tools = profile.get(
            "google_supports_tool_combination", "google" not in self.name.provider
        )
        return to_parameters(
            request,
            native=supported or output == "native",
            native_with_tools=bool(with_tools),
            declare_called=self.name.provider in _NEED_TOOL_DEFINITIONS,
        )

    def _check_native_tools(self, names: Sequence[NativeTool], supported: Collection[Any]) -> None:
        missing = [name for name in names if NATIVE_TOOL_TYPES[name] not in supported]
        if missing:
            known = [name for name, of in NATIVE_TOOL_TYPES.items() if of in supported]
            has = ", ".join(known) or "none"
            raise self._errors.with_message(
                f"the model has no native tool {', '.join(missing)}; it has {has}. Use a model "
                "that has it, or pass a function as a tool",
                reason="not_possible",
            )

    def _adapt(self, error: Exception, call: "_Call", request: ModelRequest) -> ModelRequest:
        """Return the request without what was rejected, so that the call can be repeated.

        Raise the error if nothing can be removed. A file outside the message to answer that cannot
        be downloaded or read would otherwise block the session.
        """
        if call.has_previous and _BOUND_ELSEWHERE in str(getattr(error, "body", "")):
            self._returns_previous = False
            log.warning("%s rejected its earlier thinking; it is no longer sent", self.name.name)
        elif not self._settings.drop_rejected(call.sent, error):
            smaller = without_files(request) if _may_reject_files(error) else request
            if smaller is request:
                raise self._errors.from_exception(error) from None
            log.warning(
                "%s could not load a file of an earlier message; file names are sent instead",
                self.name.name,
            )
            return smaller
        return request

    def _read(self, response: PydanticResponse, request: ModelRequest) -> ModelResponse:
        if response.state != "complete" or response.finish_reason is None:
            raise self._errors.create("cut_off")
        texts = [part.content for part in response.parts if isinstance(part, TextPart)]
        text = _TAGGED_REASONING.sub("", "".join(texts), count=1)
        parts = [part for part in response.parts if isinstance(part, ToolCallPart)]
        calls = [to_tool_call(part) for part in parts]
        if response.finish_reason == "content_filter":
            raise self._refused(response)
        if response.finish_reason == "length":
            if not text and not calls:
                raise self._errors.create("length")
            if not request.token_choices:
                log.warning("%s reached max_tokens: its answer is incomplete", self.name.name)
            calls[-1:] = [replace(call, arguments={}, fault=_CUT_OFF_CALL) for call in calls[-1:]]
        else:
            self._previous.add(request, response, calls)
        usage, tokens = self._usage(response), first_tokens(response)
        return ModelResponse(text=text, calls=tuple(calls), usage=usage, first_tokens=tokens)

    def _refused(self, response: PydanticResponse) -> ModelFailed:
        refusal = (response.provider_details or {}).get("refusal", "")
        return self._errors.create("refused", detail=refusal if isinstance(refusal, str) else "")

    def _usage(self, response: PydanticResponse) -> Usage:
        reported = response.usage
        usage = Usage(
            llm_calls=1,
            input_tokens=_token_count(reported.input_tokens),
            output_tokens=_token_count(reported.output_tokens),
            cached_tokens=_token_count(reported.cache_read_tokens),
        )
        cost = response_cost(self.name, response, usage)
        return usage if cost is None else replace(usage, cost=cost, priced_calls=1)


class _Call(NamedTuple):
    messages: list[Any]
    settings: ModelSettings
    parameters: ModelRequestParameters
    sent: Mapping[str, Any]
    has_previous: bool


def _settings(source: ModelName | RequestSettings) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for setting in ("temperature", "top_p", "max_tokens", "seed", "thinking"):
        value = getattr(source, setting)
        if value not in (None, ""):
            settings[setting] = value
    if source.thinking in ("on", "off"):
        settings["thinking"] = source.thinking == "on"
    return settings


def _token_count(count: object) -> int:
    return count if isinstance(count, int) and 0 < count <= _MAX_TOKENS else 0


def _text(event: object) -> str:
    """Return the text that a stream event adds."""
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    return ""


def _lacks_finish_reason(model: Model, response: PydanticResponse) -> bool:
    """Return True if a stream of chat completions ended without a finish reason.

    The library treats the end of the connection as the end of the answer.
    """
    openai: Any = sys.modules.get("pydantic_ai.models.openai")  # imported if the model is one
    if openai is None or not isinstance(model, openai.OpenAIChatModel):
        return False
    is_refused = response.finish_reason == "content_filter"
    return not is_refused and "finish_reason" not in (response.provider_details or {})


def _lacks_reasoning(model: Model, settings: Mapping[str, Any], messages: list[Any]) -> bool:
    """Return True if Anthropic would reject tool calls whose signed reasoning was lost.

    A model with a reasoning budget requires the reasoning before its last calls. It is lost when a
    run continues in another process; the step is then made without reasoning.
    """
    if model.system != "anthropic" or not settings.get("thinking"):
        return False
    profile: Any = model.profile
    if profile.get("anthropic_supports_adaptive_thinking"):
        return False
    own = [message for message in messages if isinstance(message, PydanticResponse)]
    if not own or not any(isinstance(part, ToolCallPart) for part in own[-1].parts):
        return False
    return not isinstance(own[-1].parts[0], ThinkingPart)


# Settings

#: Settings that can be dropped without making the request useless, and how providers spell them.
_OPTIONAL_SETTINGS: dict[str, str] = {
    "seed": r"seed",
    "top_p": r"top[_ ]?p",
    "temperature": r"temperature",
    "thinking": (
        r"thinking(?:[_ ]?(?:config|level|budget))?|reasoning(?:[_. ]?effort)?|effort"
        r"|output_config"
    ),
}
_REJECTED_STATUSES = (400, 422)
_UNSUPPORTED_CODES = frozenset({"unknown_parameter", "unsupported_parameter", "unsupported_value"})
_UNSUPPORTED = re.compile(
    r"(?i)unsupported|not support|n.t support|deprecated"
    r"|not (?:allowed|available|compatible|enabled|permitted)"
    r"|unknown|unrecogni[sz]ed|unexpected|extra input|only .{0,40}default|may only"
    r"|cannot (?:both )?be|does not (?:accept|take)|not accept"
)
#: An error about the content of the request, not about a setting.
_ABOUT_CONTENT = re.compile(r"(?:messages|contents|input|tools)[.\[]")


class SupportedSettings:
    """The settings of one model and of a request, minus those that the model has rejected.

    `max_tokens` is never dropped, because it limits the cost.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name = name
        self._settings = settings
        #: Values too: a model may accept another value of the same setting.
        self._rejected: set[tuple[str, Any]] = set()
        self._reported: set[str] = set()

    def supported(self, model: Model, requested: RequestSettings | None) -> Mapping[str, Any]:
        """Return the settings of a call; settings of the request have precedence."""
        settings = dict(self._settings)
        if requested is not None:
            settings |= _settings(requested)
        for setting in _OPTIONAL_SETTINGS.keys() & settings.keys():
            if (setting, settings[setting]) in self._rejected:
                del settings[setting]
        for setting in sorted(_ignored_settings(model, settings) & settings.keys()):
            del settings[setting]
            self._report(setting)
        return settings

    def drop_rejected(self, sent: Mapping[str, Any], error: Exception) -> bool:
        """Drop the setting that an error rejects, and return True if another call makes sense.

        `sent` are the settings of the failed call.
        """
        if not isinstance(error, ModelHTTPError) or error.status_code not in _REJECTED_STATUSES:
            return False
        details = _error_fields(error.body)
        for setting, spelling in _OPTIONAL_SETTINGS.items():
            if setting in sent and _rejects(details, spelling):
                self._rejected.add((setting, sent[setting]))
                self._report(setting)
                return True
        return False

    def _report(self, setting: str) -> None:
        if setting not in self._reported:
            self._reported.add(setting)
            log.warning("%s does not support %s; the setting is not sent", self._name, setting)


def _ignored_settings(model: Model, sent: Mapping[str, Any]) -> set[str]:
    """Return the settings that the library does not send, as its profile of the model says.

    The library would warn through `warnings` with every call.
    """
    profile: Any = model.profile
    ignored = {*model.unsupported_settings, *profile.get("openai_unsupported_model_settings", ())}
    thinking = sent.get("thinking")
    is_reasoning = profile.get("openai_supports_reasoning", False)
    if is_reasoning and profile.get("openai_supports_reasoning_effort_none", False):
        when = "always_enabled" if thinking is False else "enabled_by_default"
        is_reasoning = bool(thinking) or profile.get(f"thinking_{when}", False)
    if is_reasoning or profile.get("anthropic_disallows_sampling_settings", False):
        ignored |= {"temperature", "top_p"}
    return ignored & _OPTIONAL_SETTINGS.keys()


def _may_reject_files(error: Exception) -> bool:
    """Return True if a file may be the cause: a failed download, or a rejected request."""
    if isinstance(error, ModelHTTPError):
        return error.status_code in _REJECTED_STATUSES
    return isinstance(error, httpx2.HTTPError | OSError | ValueError | UserError)


def _error_fields(body: object) -> Mapping[str, Any]:
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping):
        body = body.get("error", body)
    return body if isinstance(body, Mapping) else {"message": str(body or "")}


def _rejects(details: Mapping[str, Any], spelling: str) -> bool:
    named = re.compile(rf"(?i)(?<![a-z0-9])(?:{spelling})(?![a-z0-9])")
    message, param = str(details.get("message") or ""), details.get("param")
    if _ABOUT_CONTENT.match(message):
        return False
    if param and isinstance(param, str):
        is_unsupported = details.get("code") in _UNSUPPORTED_CODES or _UNSUPPORTED.search(message)
        return bool(is_unsupported and named.search(param))
    return bool(named.search(message) and _UNSUPPORTED.search(message))


# Connections


class ProviderHttpClient(httpx2.AsyncClient):
    """An HTTP client that limits the size of responses and the time to connect.

    `authorization` replaces the header that the client library sets; None leaves it alone. An
    empty text removes it, together with the headers that identify an account of OpenAI.
    """

    def __init__(self, *, url: str, timeout: float, authorization: str | None = None) -> None:
        super().__init__(
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_SECONDS)),
            limits=_CONNECTION_LIMITS,
            # A proxy could read what is sent over unencrypted http, including the key.
            trust_env=not url.startswith("http:"),
        )
        self._authorization = authorization

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        """Send a request; a response that is too large raises ResponseTooLargeError."""
        timeout = request.extensions.get("timeout") or {}
        connect = timeout.get("connect")
        if connect is None or connect > CONNECT_TIMEOUT_SECONDS:
            request.extensions["timeout"] = {**timeout, "connect": CONNECT_TIMEOUT_SECONDS}
        if self._authorization is not None:
            for header in ("authorization", "openai-organization", "openai-project"):
                request.headers.pop(header, None)
            if self._authorization:
                request.headers["authorization"] = self._authorization
        response = await super().send(request, stream=True, **options)
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        limit = MAX_STREAM_BYTES if is_stream else MAX_JSON_BYTES
        response.stream = _LimitedStream(cast("httpx2.AsyncByteStream", response.stream), limit)
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._limit:
                raise ResponseTooLargeError(f"it has more than {self._limit} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def open_model(name: ModelName, key: str, url: str, errors: ModelErrors) -> OpenedModel:
    """Return the library's model with a key and a base URL."""
    authorization = None
    if name.provider == "openai-compatible":
        # Never send OpenAI credentials that the library finds in the environment.
        authorization = f"Bearer {key}" if key else ""
    http_client = ProviderHttpClient(url=url, timeout=name.timeout, authorization=authorization)
    provider = _create_provider(name, key, url, http_client)
    client = provider.client
    if hasattr(client, "max_retries"):
        client.max_retries = 0  # RetryingModel decides what is retried
    found = getattr(client, "api_key", None)
    if isinstance(found, str):
        errors.add_secret(found)
    api = "openai-chat" if name.provider == "openai-compatible" else name.provider
    return OpenedModel(infer_model(f"{api}:{name.model}", lambda _: provider), http_client)


#: Passed explicitly, so that no other setting of the environment decides where a key is sent.
_BASE_URLS = {
    "anthropic": "https://api.anthropic.com",
    "google": None,
    "openai": "https://api.openai.com/v1",
    "openai-chat": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
}


def _create_provider(name: ModelName, key: str, url: str, http_client: httpx2.AsyncClient) -> Any:
    if name.provider == "openai-compatible":
        # Imported by name: importing it needs the client library of OpenAI.
        module: Any = importlib.import_module("pydantic_ai.providers.openai_compatible")
        return module.OpenAICompatibleProvider(
            name.provider, base_url=name.base_url, api_key=key or None, http_client=http_client
        )
    provider: Any = infer_provider_class(name.provider)
    if name.provider in _BASE_URLS:
        base_url = url or _BASE_URLS[name.provider]
        return provider(base_url=base_url, api_key=key, http_client=http_client)
    # Without a key of ours, the library reads the credentials of the provider itself.
    given: dict[str, Any] = {"api_key": key} if name.api_key_env else {}
    if "http_client" in inspect.signature(provider.__init__).parameters:
        given["http_client"] = http_client
    return provider(**given)
