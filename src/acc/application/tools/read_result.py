"""The tool that reads a recorded tool result which the prompt shows shortened."""

from collections.abc import Mapping

import msgspec

from acc.application.memory.messages import READ_RESULT_TOOL, content_text
from acc.application.tools.tool import BaseTool, ToolContext
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.flow import ToolLabels
from acc.ports.outbound.model_ports import ToolSpec

_DEFAULT_LENGTH = 8_000
_MAX_LENGTH = 16_000


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    number: int
    offset: int = 0
    length: int = _DEFAULT_LENGTH


class ReadResultTool(BaseTool):
    """Returns a section of an earlier tool result; only results that were shown can be read."""

    name = READ_RESULT_TOOL
    description = (
        "Return characters of an earlier tool result that is shown shortened. `number` is in its "
        "note; `offset` is the first character."
    )
    idempotent = True
    labels = ToolLabels(effect="none")
    runs_in_debug = True

    def __init__(self, numbers: frozenset[int]) -> None:
        self._numbers = numbers

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and schema that the model receives."""
        integer = {"type": "integer", "minimum": 0}
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters={
                "type": "object",
                "properties": {
                    "number": integer,
                    "offset": {**integer, "default": 0},
                    "length": {**integer, "default": _DEFAULT_LENGTH, "maximum": _MAX_LENGTH},
                },
                "required": ["number"],
            },
        )

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the arguments, or raise ValueError if the result cannot be read."""
        given = msgspec.convert(arguments, _Arguments)
        if given.number not in self._numbers:
            known = ", ".join(map(str, sorted(self._numbers))) or "none"
            raise ValueError(f"there is no result {given.number}; shortened results: {known}")
        if given.offset < 0 or not 0 < given.length <= _MAX_LENGTH:
            raise ValueError(f"offset must be >= 0 and length between 1 and {_MAX_LENGTH}")
        return {"number": given.number, "offset": given.offset, "length": given.length}

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Read the result from the recorded events."""
        context = ctx.run_context
        number, offset = arguments["number"], arguments["offset"]
        key = context.run.request.key
        events = await context.services.sessions.events(key, after=number - 1, limit=1)
        if not events or events[0].seq != number or events[0].result is None:
            raise ValueError(f"result {number} is no longer stored")
        text = content_text(events[0].result.content)
        end = offset + arguments["length"]
        return {"text": text[offset:end], "next_offset": end if end < len(text) else None}
