"""Assertions about what agents did, and recordings of model calls for tests."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from acc.application.runtime.model_call import describe_request
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import ToolCall, Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ModelResponse

Order = Literal["exact", "in_order", "any_order"]


class HasEvents(Protocol):
    """Something with the events of a run, such as a RunResult."""

    @property
    def events(self) -> Sequence[Event]:
        """Return the events."""
        ...


def tool_calls(result: HasEvents) -> list[tuple[str, dict[str, Any]]]:
    """Return the tool calls of a run, with names and arguments, in the order of the model."""
    return [(call.name, dict(call.arguments)) for event in result.events for call in event.calls]


def agents_of(result: HasEvents) -> list[str]:
    """Return the agents that answered or called tools in a run, in the order of their first act."""
    acted = (EventKind.MESSAGE, EventKind.TOOL_CALLS, EventKind.DRAFT)
    names = [e.author for e in result.events if e.kind in acted and e.author != "user"]
    return list(dict.fromkeys(names))


def assert_tool_calls(
    result: HasEvents,
    *expected: str | tuple[str, Mapping[str, Any]],
    order: Order = "exact",
) -> None:
    """Raise AssertionError unless a run made the expected tool calls.

    A name matches every call of the tool; a name with arguments matches calls that have at least
    these arguments. `exact` allows no other calls; `in_order` and `any_order` allow others.
    """
    actual = tool_calls(result)
    wanted = [(item, {}) if isinstance(item, str) else item for item in expected]
    if order == "any_order":
        rest = list(actual)
        missing = []
        for item in wanted:
            found = next((call for call in rest if _matches(item, call)), None)
            if found is None:
                missing.append(item)
            else:
                rest.remove(found)
        is_match = not missing
    elif order == "in_order":
        remaining = iter(actual)
        is_match = all(any(_matches(item, call) for call in remaining) for item in wanted)
    else:
        pairs = zip(wanted, actual, strict=False)
        is_match = len(wanted) == len(actual) and all(_matches(*pair) for pair in pairs)
    if not is_match:
        raise AssertionError(f"expected tool calls ({order}) {wanted}, got {actual}")


def _matches(
    expected: tuple[str, Mapping[str, Any]], actual: tuple[str, Mapping[str, Any]]
) -> bool:
    name, arguments = expected
    is_contained = all(
        key in actual[1] and actual[1][key] == value for key, value in arguments.items()
    )
    return name == actual[0] and is_contained


class _Recorded(msgspec.Struct, frozen=True):
    key: str
    request: dict[str, Any]
    text: str
    calls: list[ToolCall]
    usage: Usage


class RecordedModel:
    """A model whose responses are recorded in a file, one JSON line each, without secrets.

    A request that the file contains gets its recorded response. With a `model`, another request is
    sent to it and recorded; without one it is an error, so that tests never call a provider.
    """

    def __init__(self, path: str | Path, model: LanguageModelPort | None = None) -> None:
        self._path = Path(path)
        self._model = model
        self._responses: dict[str, list[_Recorded]] = {}
        self._position: dict[str, int] = {}
        if self._path.exists():
            decoder = msgspec.json.Decoder(_Recorded)
            for number, line in enumerate(self._path.read_bytes().splitlines(), 1):
                if line.strip():
                    try:
                        entry = decoder.decode(line)
                    except (msgspec.DecodeError, UnicodeDecodeError) as error:
                        raise InvalidInput(
                            f"{self._path}: line {number} is not a recorded response ({error}); "
                            "remove the file and record it again"
                        ) from error
                    self._responses.setdefault(entry.key, []).append(entry)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the recorded response, or record that of the model."""
        request = describe_request(prompt)
        encoded = msgspec.json.encode(request, order="deterministic")
        key = hashlib.sha256(encoded).hexdigest()[:32]
        entries = self._responses.get(key, [])
        number = self._position.get(key, 0)
        if entries and (number < len(entries) or self._model is None):
            entry = entries[min(number, len(entries) - 1)]
            self._position[key] = number + 1
            return ModelResponse(text=entry.text, calls=tuple(entry.calls), usage=entry.usage)
        if self._model is None:
            raise InvalidInput(
                f"{self._path} has no response to this request; record it with "
                f"RecordedModel({str(self._path)!r}, model), or with pytest --acc-record"
            )
        response = await self._model.complete(prompt)
        entry = _Recorded(key, request, response.text, list(response.calls), response.usage)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")
        self._responses.setdefault(key, []).append(entry)
        self._position[key] = number + 1
        return response
