"""Asking a model: within the budget, streamed if someone watches, and bounded in length."""

import msgspec
from msgspec.structs import replace

from acc.application.runtime.context import RunContext
from acc.domain.errors import AccError, ModelFailed, ModelOutputInvalid
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.content import NO_USAGE, Part, ToolCall, Usage, text_part
from acc.domain.value_objects.event import EventKind
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelAnswer,
    Prompt,
    StreamingModelPort,
)

_ONE_CALL = Usage(llm_calls=1)


async def call_model(
    ctx: RunContext,
    model: LanguageModelPort,
    prompt: Prompt,
    *,
    memory_tokens: int = 0,
    in_pieces: bool = True,
) -> tuple[ModelAnswer, Usage]:
    """Return a model's answer and what it cost, counted against the run's budget.

    It is shown as it comes where that is wanted, but for one that may be replaced before it counts.
    """
    run = ctx.run
    run.ledger.before_model_call(ctx.path)
    run.ledger.asking += 1
    try:
        if run.streaming and in_pieces and isinstance(model, StreamingModelPort):
            answer = await _streamed(ctx, model, prompt)
        else:
            answer = await model.complete(prompt)
    except AccError:
        raise
    except Exception as error:
        raise ModelFailed(f"{ctx.path}: {type(error).__name__}: {error}") from error
    finally:
        run.ledger.asking -= 1
    if not isinstance(answer, ModelAnswer):
        raise ModelFailed(f"{ctx.path}: the model returned {type(answer).__name__}, no ModelAnswer")
    answer = _checked(ctx, answer)
    usage = _priced(ctx, prompt, answer, memory_tokens)
    run.ledger.spent(usage)
    return answer, usage


async def _streamed(ctx: RunContext, model: StreamingModelPort, prompt: Prompt) -> ModelAnswer:
    length = 0
    pieces = model.stream(prompt)
    try:
        async for piece in pieces:
            if isinstance(piece, ModelAnswer):
                return piece
            length += len(piece)
            _check_length(ctx, length)
            await ctx.emit(EventKind.DELTA, parts=text_part(piece))
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
    raise ModelFailed(f"{ctx.path}: the stream ended without an answer")


def _checked(ctx: RunContext, answer: ModelAnswer) -> ModelAnswer:
    """Return an answer that can be kept, or say what of it is none."""
    told, calls = answer.usage, answer.calls
    sound = isinstance(answer.text, str) and (
        told is NO_USAGE or (isinstance(told, Usage) and told.is_sound)
    )
    if not sound or (calls and not all(isinstance(call, ToolCall) for call in calls)):
        raise ModelFailed(f"{ctx.path}: the model's answer is not of text, tool calls and usage")
    _check_length(ctx, len(answer.text))
    if (text := replace_surrogates(answer.text)) is not answer.text:
        answer = replace(answer, text=text)
    if calls:
        answer = replace(answer, calls=tuple(_kept(ctx, call) for call in calls))
    return answer


def _kept(ctx: RunContext, call: ToolCall) -> ToolCall:
    """Return a call that can be stored; what cannot is told to the model as its fault."""
    try:
        written = msgspec.json.encode((call.id, call.name, call.arguments))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        named = call.name if isinstance(call.name, str) and call.name.isprintable() else "unknown"
        known_as = str(call.id).encode("utf-8", "backslashreplace").decode()  # still its own
        return ToolCall(id=known_as, name=named, fault=replace_surrogates(str(error)))
    _check_length(ctx, len(written))
    return call


def _check_length(ctx: RunContext, length: int) -> None:
    most = ctx.config.max_answer_characters
    if length > most:
        raise ModelOutputInvalid(ctx.agent.name, f"an answer of more than {most} characters", 1)


def _priced(ctx: RunContext, prompt: Prompt, answer: ModelAnswer, memory_tokens: int) -> Usage:
    """Return the usage of a call; where a budget hangs on tokens that were not told, count them."""
    told = answer.usage
    spent_in, spent_out = told.input_tokens or 0, told.output_tokens or 0  # a None is no number
    if ctx.config.token_budget is not None and not spent_in:
        counter = ctx.services.tokens()
        heard = (
            prompt.instruction,
            prompt.memory,
            prompt.query,
            *(_content(part) for message in prompt.messages for part in message.parts),
            *(f"{tool.name} {tool.description} {tool.parameters}" for tool in prompt.tools),
        )
        spent_in = sum(counter.count(text) for text in heard)
        said = (answer.text, *(_content(Part(call=call)) for call in answer.calls))
        spent_out = spent_out or sum(counter.count(text) for text in said)
    if not spent_in and not spent_out and not memory_tokens and told.cost is None:
        return _ONE_CALL
    return Usage(
        llm_calls=1,
        input_tokens=spent_in,
        output_tokens=spent_out,
        memory_tokens=memory_tokens,
        cached_tokens=told.cached_tokens or 0,
        cost=told.cost,
        priced_calls=0 if told.cost is None else 1,
    )


def _content(part: Part) -> str:
    """Return what a model reads or writes of a part."""
    if part.call is not None:
        return f"{part.call.name} {part.call.arguments}"
    return part.text or "" if part.result is None else str(part.result.content)
