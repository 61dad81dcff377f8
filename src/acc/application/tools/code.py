"""The tool with which a model executes code."""

import math
from collections.abc import Mapping
from mimetypes import guess_type

import msgspec

from acc.application.tools.tool import BaseTool, ToolContext
from acc.domain.errors import InvalidInput, ModelRetry
from acc.domain.value_objects.base import JsonData
from acc.ports.outbound.code_ports import CodeExecutorPort
from acc.ports.outbound.model_ports import ToolSpec

CODE_TOOL_NAME = "run_python"


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    code: str
    files: list[str] = []


class CodeTool(BaseTool):
    """Executes code with the executor of an agent; new files become artifacts of the session."""

    name = CODE_TOOL_NAME
    description = (
        "Execute a Python program and return what it prints. Only the standard library is "
        "available, and no network. `files` are artifacts to place in the working directory. Files "
        "that the program writes there are saved as artifacts."
    )
    timeout: float | None = math.inf  # the executor has its own limit

    def __init__(self, executor: CodeExecutorPort) -> None:
        self._executor = executor

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and schema that the model receives."""
        names = {"type": "array", "items": {"type": "string"}, "default": []}
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters={
                "type": "object",
                "properties": {"code": {"type": "string"}, "files": names},
                "required": ["code"],
            },
        )

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the arguments, or raise msgspec.ValidationError."""
        given = msgspec.convert(arguments, _Arguments)
        return {"code": given.code, "files": given.files}

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Execute the code and save its files."""
        files: dict[str, bytes] = {}
        for name in arguments["files"]:
            artifact = await ctx.artifacts.load(name)
            if artifact is None:
                known = ", ".join(await ctx.artifacts.names()) or "none"
                raise ModelRetry(f"there is no artifact {name!r}; artifacts: {known}")
            files[name] = artifact.data
        result = await self._executor.execute(arguments["code"], files=files)
        unsaved: list[str] = []
        for name, content in result.files.items():
            media_type = guess_type(name)[0] or "application/octet-stream"
            try:
                ctx.save_artifact(_session_name(name), content, media_type=media_type)
            except InvalidInput:
                unsaved.append(ascii(name))
        return {
            "ended": result.ended.value,
            "exit_status": result.exit_status,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "files": sorted(name for name in result.files if ascii(name) not in unsaved),
            **({"unsaved_files": sorted(unsaved)} if unsaved else {}),
        }


def _session_name(name: str) -> str:
    """Return the name of a file, or raise InvalidInput if other sessions would see it."""
    if ":" in name:
        raise InvalidInput(f"{name!r} has a prefix such as `user:`; use a name without a colon")
    return name
