"""Call a model within the budget of its run."""

from typing import Protocol

import msgspec
from msgspec.structs import replace

from acc.application.runtime.context import RunContext
from acc.domain.errors import AccError, ModelFailed, ModelOutputInvalid
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.content import NO_USAGE, Part, ToolCall, Usage, text_part
from acc.domain.value_objects.event import EventKind
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    StreamingModelPort,
)

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

    The response is streamed if the observer wants it. Pass `stream=False` for a response that may
    be replaced before it is used. Pieces of text go to `deltas`, by default as events.
    """
    run = ctx.run
    run.budget.check_model_call(ctx.path)
    run.budget.pending_model_calls += 1
    try:
        if stream and run.recorder.wants_deltas and isinstance(model, StreamingModelPort):
            answer = await _stream(ctx, model, prompt, deltas)
        else:
            answer = await model.complete(prompt)
    except AccError:
        raise
    except Exception as error:
        raise ModelFailed(f"{ctx.path}: {type(error).__name__}: {error}") from error
    finally:
        run.budget.pending_model_calls -= 1
    answer = _validate(ctx, answer)
    usage = _usage(ctx, prompt, answer, memory_tokens)
    run.budget.add_usage(usage)
    return answer, usage


async def _stream(
    ctx: RunContext, model: StreamingModelPort, prompt: ModelRequest, deltas: DeltaSink | None
) -> ModelResponse:
    length = 0
    pieces = model.stream(prompt)
    try:
        async for delta in pieces:
            if isinstance(delta, ModelResponse):
                return delta
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
        raise ModelFailed(f"{ctx.path}: the model's text, tool calls or usage have a wrong type")
    _check_length(ctx, len(answer.text))
    if (text := replace_surrogates(answer.text)) is not answer.text:
        answer = replace(answer, text=text)
    if calls:
        answer = replace(answer, calls=tuple(_storable_call(ctx, call) for call in calls))
    return answer


def _storable_call(ctx: RunContext, call: ToolCall) -> ToolCall:
    """Return a call that can be stored; for one that cannot, the model gets the error."""
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
            prompt.query,
            *(_text(part) for message in prompt.messages for part in message.parts),
            *(f"{tool.name} {tool.description} {tool.parameters}" for tool in prompt.tools),
        )
        tokens_in = sum(counter.count(text) for text in sent)
        received = (answer.text, *(_text(Part(call=call)) for call in answer.calls))
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


def _text(part: Part) -> str:
    """Return the text of a part that a model reads or writes."""
    if part.call is not None:
        return f"{part.call.name} {part.call.arguments}"
    return part.text or "" if part.result is None else str(part.result.content)
