"""A prompt of ours as the body of a chat completion."""

from collections.abc import Mapping
from typing import Any

from acc.adapters.chat.turns import (
    Kept,
    Turn,
    arguments_of,
    as_url,
    encoded,
    instructions,
    is_file,
    plain,
    remembered,
    returned,
    turns,
    words,
)
from acc.domain.value_objects.content import Part, ToolCall
from acc.ports.outbound.model_ports import Prompt, ToolSpec

_ONLY_TEXT = {"role", "content"}
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def messages(
    prompt: Prompt,
    *,
    images: bool = False,
    files: bool = False,
    told: str = "",
    by_turns: bool = True,
    kept: Kept | None = None,
) -> list[dict[str, Any]]:
    """Return a prompt as messages.

    `images` are sent where the server may take them, and named where not; `files` are those that
    OpenAI takes besides. `told` is said with the instruction. Many models want user and assistant
    `by_turns`. `kept` gives the model's own words back as they were.
    """
    found: list[dict[str, Any]] = []
    instruction, memory = instructions(prompt, told), remembered(prompt)
    if instruction:
        found.append({"role": "system", "content": instruction})
    heard = [text for text in (memory, prompt.query) if text] or [""]
    heard = ["\n\n".join(heard)] if by_turns else heard
    found += [{"role": "user", "content": text} for text in heard]
    for turn in turns(prompt):
        own = kept(turn.calls) if kept is not None and turn.calls else None
        said = _said(turn, images, files) if own is None else [*_results(turn), *own]
        for new in said:
            last = found[-1]
            if by_turns and _goes_on(last, new):
                last["content"] += f"\n\n{new['content']}"
            else:
                found.append(new)
    return found


def function(spec: ToolSpec) -> dict[str, Any]:
    """Return a tool as a function that the model may call."""
    described = {"name": spec.name, "parameters": arguments_of(spec)}
    if spec.description:
        described["description"] = spec.description
    return {"type": "function", "function": described}


def bound_to(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what binds an answer to a schema."""
    bound = {"name": "answer", "schema": dict(schema)}
    return {"type": "json_schema", "json_schema": bound}


def _goes_on(last: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether a message is more of what its sender was saying, in plain words."""
    return (
        new["role"] == last["role"]
        and new.keys() == last.keys() == _ONLY_TEXT
        and isinstance(new["content"], str)
        and isinstance(last["content"], str)
    )


def _said(turn: Turn, images: bool, files: bool) -> list[dict[str, Any]]:
    """Return the model's own words as its own, results as results, and the rest as a user's."""
    if turn.calls:
        return [*_results(turn), own_words(turn.text, turn.calls)]
    if not turn.parts:
        return _results(turn)
    if turn.own:
        return [*_results(turn), {"role": "assistant", "content": turn.text}]
    return [*_results(turn), {"role": "user", "content": _content(turn, images, files)}]


def _results(turn: Turn) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "tool_call_id": result.call_id, "content": returned(result)}
        for result in turn.results
    ]


def own_words(text: str, calls: list[ToolCall]) -> dict[str, Any]:
    """Return what a model itself said: its words, and the calls that it asked for."""
    written = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": plain(dict(call.arguments))},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text, "tool_calls": written}


def _content(turn: Turn, images: bool, files: bool) -> str | list[dict[str, Any]]:
    shown = [_shown(part, files) if images else None for part in turn.parts]
    if not any(shown):
        return turn.prefix + turn.text
    found: list[dict[str, Any]] = [{"type": "text", "text": turn.prefix}] if turn.prefix else []
    for part, made in zip(turn.parts, shown, strict=True):
        found.append(made or {"type": "text", "text": words(part)})
    return found


def _shown(part: Part, files: bool) -> dict[str, Any] | None:
    """Return a file as the server takes it, if it does."""
    if is_file(part, "image/"):
        return {"type": "image_url", "image_url": {"url": as_url(part)}}
    if files and is_file(part, "application/pdf"):
        file = {"filename": part.filename or "file.pdf", "file_data": as_url(part)}
        return {"type": "file", "file": file}
    if files and part.raw is not None and part.media_type in _SOUNDS:
        sound = {"data": encoded(part), "format": _SOUNDS[part.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    return None
