"""Call a model within the budget of its run."""

import logging
import mimetypes
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from acc.application.memory.messages import part_text
from acc.application.runtime.context import RunContext
from acc.application.runtime.current_trace import within_trace
from acc.application.tracing.spans import ChatSpan, error_type
from acc.domain.call_options import check_awaitable
from acc.domain.errors import AccError, ContentTypeNotSupported, ModelFailed, ModelOutputInvalid
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.content import (
    NO_USAGE,
    Part,
    ToolCall,
    ToolResult,
    Usage,
    is_text_type,
    text_part,
)
from acc.domain.value_objects.endpoint import redact_secrets
from acc.domain.value_objects.event import EventKind
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    StreamingModelPort,
    input_types,
)

log = logging.getLogger("acc.run")
_ONE_CALL = Usage(llm_calls=1)


class DeltaSink(Protocol):
    """Shows the pieces of a response that is streamed."""

    async def add(self, delta: str) -> None:
        """Add a piece of text."""
        ...


async def call_model(
    ctx: RunContext,
    model: LanguageModelPort,
    prompt: ModelRequest,
    *,
    memory_tokens: int = 0,
    stream: bool = True,
    deltas: DeltaSink | None = None,
) -> tuple[ModelResponse, Usage]:
    """Return a model's response and its usage, counted against the run's budget.

    The response is streamed if the observer requests it. Pass `stream=False` for a response that
    may be replaced before it is used. Pieces of text go to `deltas`, by default as events.
    """
    run = ctx.run
    run.budget.check_model_call(ctx.path)
    _check_content(ctx, model, prompt)
    run.budget.pending_model_calls += 1
    started, error_code = time.perf_counter(), ""
    usage: Usage | None = None
    answer: ModelResponse | None = None
    streams = stream and run.recorder.wants_deltas and isinstance(model, StreamingModelPort)
    tracer = run.services.tracer
    span = None if tracer is None else ChatSpan(tracer, ctx, prompt, stream=streams)
    try:
        with within_trace(ctx.call.trace_id):
            answer = _validate(
                ctx,
                await _stream(ctx, model, prompt, deltas, span)
                if streams and isinstance(model, StreamingModelPort)
                else await check_awaitable(model.complete(prompt), model, "complete(self, prompt)"),
            )
        usage = _usage(ctx, prompt, answer, memory_tokens)
    except AccError as error:
        error_code = error.code
        raise
    except Exception as error:
        error_code = ModelFailed.code
        raise ModelFailed(f"{ctx.path}: {type(error).__name__}: {error}") from error
    except BaseException as error:
        if span is not None:
            span.end(None, None, error_type(error))
            span = None
        raise
    finally:
        run.budget.pending_model_calls -= 1
        if span is not None:
            span.end(answer, usage, error_code)
        if ctx.config.record_prompts and (usage is not None or error_code):
            seconds = time.perf_counter() - started
            detail = {**describe_request(prompt), "seconds": seconds, "error": error_code}
            await ctx.record_model_call(detail, usage)
    run.budget.add_usage(usage)
    return answer, usage


def describe_request(prompt: ModelRequest) -> dict[str, Any]:
    """Return a request as JSON data without secrets and without the bytes of files."""
    messages = [replace(m, parts=tuple(map(_without_bytes, m.parts))) for m in prompt.messages]
    data = msgspec.json.encode(replace(prompt, messages=tuple(messages)), enc_hook=str)
    described: dict[str, Any] = msgspec.json.decode(redact_secrets(data.decode()))
    return described


def _without_bytes(part: Part) -> Part:
    if part.raw is not None:
        return Part(text=f"[{part.media_type or 'file'}, {len(part.raw):,} bytes]")
    if part.result is not None and part.result.files:
        files = tuple(map(_without_bytes, part.result.files))
        return Part(result=replace(part.result, files=files))
    return part


def _check_content(ctx: RunContext, model: LanguageModelPort, prompt: ModelRequest) -> None:
    """Raise ContentTypeNotSupported for a file of the user that the model does not accept.

    Files of earlier messages and of tools are replaced by their names; those of tools are logged.
    """
    parts = prompt.messages[prompt.query_index].parts
    files = [part for part in parts if part.raw is not None or part.url is not None]
    results = [result for result in _new_results(prompt) if result.files]
    if not (files or results) or (accepted := input_types(model)) is None:
        return
    for part in files:
        kind = _media_type(part)
        if not (is_text_type(kind) or kind.startswith(tuple(accepted))):
            kinds = ("text", *(f"{one}*" if one.endswith("/") else one for one in accepted))
            advice = f"Use a model that accepts {kind}, or convert the file to text"
            if not part.media_type:
                advice = f'The type of the file is missing: Part(..., media_type="{_guess(part)}")'
            raise ContentTypeNotSupported(
                f"{ctx.path}: the model does not accept {kind}; it accepts {', '.join(kinds)}. "
                f"{advice}"
            )
    for result in results:
        _report_files(ctx, result, accepted)


def _guess(part: Part) -> str:
    """Return the media type that a part probably has."""
    return mimetypes.guess_type(part.filename or part.url or "")[0] or "image/png"


def _new_results(prompt: ModelRequest) -> Iterator[ToolResult]:
    """Yield the results since the last answer of the model; each result is new once."""
    for message in reversed(prompt.following):
        if message.role != "tool":
            return
        yield from message.results


def _report_files(ctx: RunContext, result: ToolResult, accepted: Sequence[str]) -> None:
    """Log the files of a tool of which the model gets only the names."""
    for file in result.files:
        kind = _media_type(file)
        if not (is_text_type(kind) or kind.startswith(tuple(accepted))):
            log.warning(
                "%s: tool %s returned a file of type %s, which the model does not accept; the "
                "model gets its name only",
                ctx.path,
                result.name,
                kind,
            )


def _media_type(part: Part) -> str:
    return part.media_type.partition(";")[0].strip().lower() or "application/octet-stream"


async def _stream(
    ctx: RunContext,
    model: StreamingModelPort,
    prompt: ModelRequest,
    deltas: DeltaSink | None,
    span: ChatSpan | None,
) -> ModelResponse:
    length = 0
    pieces = model.stream(prompt)
    try:
        async for delta in pieces:
            if isinstance(delta, ModelResponse):
                return delta
            if span is not None:
                span.add_chunk()
            length += len(delta)
            _check_length(ctx, length)
            if deltas is not None:
                await deltas.add(delta)
            else:
                await ctx.emit(EventKind.DELTA, parts=text_part(delta))
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
    raise ModelFailed(f"{ctx.path}: the stream ended without a response")


def _validate(ctx: RunContext, answer: object) -> ModelResponse:
    """Return a response that can be stored; ModelFailed if it is malformed."""
    if not isinstance(answer, ModelResponse):
        raise ModelFailed(
            f"{ctx.path}: the model returned {type(answer).__name__}, expected ModelResponse"
        )
    usage, calls = answer.usage, answer.calls
    is_valid = isinstance(answer.text, str) and (
        usage is NO_USAGE or (isinstance(usage, Usage) and usage.is_valid)
    )
    if not is_valid or (calls and not all(isinstance(call, ToolCall) for call in calls)):
        raise ModelFailed(
            f"{ctx.path}: the model returned a ModelResponse with a wrong type: text must be "
            "str, calls must be ToolCall values, and usage must be Usage"
        )
    _check_length(ctx, len(answer.text))
    if (text := replace_surrogates(answer.text)) is not answer.text:
        answer = replace(answer, text=text)
    if calls:
        answer = replace(answer, calls=tuple(_storable_call(ctx, call) for call in calls))
    return answer


def _storable_call(ctx: RunContext, call: ToolCall) -> ToolCall:
    """Return a call that can be stored; one that cannot is replaced by its error."""
    try:
        encoded = msgspec.json.encode((call.id, call.name, call.arguments))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        name = call.name if isinstance(call.name, str) and call.name.isprintable() else "unknown"
        call_id = str(call.id).encode("utf-8", "backslashreplace").decode()  # still unique
        return ToolCall(id=call_id, name=name, fault=replace_surrogates(str(error)))
    _check_length(ctx, len(encoded))
    return call


def _check_length(ctx: RunContext, length: int) -> None:
    limit = ctx.config.max_answer_characters
    if length > limit:
        raise ModelOutputInvalid(ctx.agent.name, f"a response of more than {limit} characters", 1)


def _usage(
    ctx: RunContext, prompt: ModelRequest, answer: ModelResponse, memory_tokens: int
) -> Usage:
    """Return the usage of a call; unreported tokens are counted if there is a token budget."""
    reported = answer.usage
    tokens_in, tokens_out = reported.input_tokens or 0, reported.output_tokens or 0
    if ctx.config.token_budget is not None and not tokens_in:
        counter = ctx.services.tokens()
        sent = (
            prompt.instruction,
            prompt.memory,
            *(part_text(part) for message in prompt.messages for part in message.parts),
            *(f"{tool.name} {tool.description} {tool.parameters}" for tool in prompt.tools),
        )
        tokens_in = sum(counter.count(text) for text in sent)
        received = (answer.text, *(part_text(Part(call=call)) for call in answer.calls))
        tokens_out = tokens_out or sum(counter.count(text) for text in received)
    if not tokens_in and not tokens_out and not memory_tokens and reported.cost is None:
        return _ONE_CALL
    return Usage(
        llm_calls=1,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        memory_tokens=memory_tokens,
        cached_tokens=reported.cached_tokens or 0,
        cost=reported.cost,
        priced_calls=0 if reported.cost is None else 1,
    )
