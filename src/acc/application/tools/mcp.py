"""The tools of an MCP server as tools of an agent."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from acc.application.agents.base import MAX_NAME_LENGTH, Confirm, check_name
from acc.application.runtime.context import RunContext
from acc.application.tools.tool import TRANSFER_TOOL_NAME, BaseTool, ToolContext
from acc.application.tools.toolset import Toolset
from acc.domain.call_options import check_call
from acc.domain.errors import AccError, InvalidInput, InvalidTree, RemoteFailed
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import McpEndpoint, McpToolInfo, McpToolResult
from acc.domain.value_objects.flow import UNDECLARED, ToolLabels
from acc.ports.outbound.mcp_ports import McpServerPort
from acc.ports.outbound.model_ports import ToolSpec

T = TypeVar("T")
#: Options by the names that other libraries have for them.
_HINTS = {
    "args": "write the arguments into command=[program, argument, ...]",
    "headers": "token",
    "tool_filter": "only",
    "connection_params": "write command=[program, argument, ...] or url=...",
    "tool_name_prefix": "prefix",
}
_MAX_SUFFIX_LENGTH = 15
_MAX_CALL_ID_LENGTH = 80
_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "audio/wav": ".wav", "audio/mpeg": ".mp3"}


@dataclass(eq=False, kw_only=True)
class McpToolset(Toolset):
    """The tools of an MCP server, as one entry in an agent's list of tools.

    Set `command` to start the server as a process, or `url` to connect to a running server; see
    McpEndpoint for `token`, `env`, `cwd`, `allow`, `start_timeout` and `max_bytes`. `env` maps
    names to values, or lists names of variables to pass on. `only` has patterns of the tool names
    to include. If an agent has several toolsets, each tool name starts with the `name` of its
    server; `prefix` overrides this, "" for no prefix. `confirm`, `requires`, `timeout` and
    `retries` are as for other tools, for all tools of the server or by tool name. Without
    `confirm`, tools that the server declares destructive require approval. Result text longer than
    `max_characters` is truncated and saved in full as an artifact. If a server that is not
    `required` is unavailable, the agent runs without its tools. `labels` are those of the tools, by
    tool name; what the server says about its tools can only reduce trust.
    """

    command: Sequence[str] = ()
    url: str = ""
    token: str = field(default="", repr=False)
    name: str = ""
    prefix: str | None = None
    only: Sequence[str] = ("*",)
    env: Mapping[str, str] | Sequence[str] = field(default=(), repr=False)
    cwd: str = ""
    allow: Sequence[str] = ()
    confirm: Confirm | Mapping[str, Confirm] | None = None
    confirm_expires: float | None = None
    requires: str | Mapping[str, str] = ""
    timeout: float | Mapping[str, float] | None = None
    retries: int | Mapping[str, int] | None = None
    start_timeout: float = 30.0
    max_bytes: int = 4 * 1024 * 1024
    max_characters: int = 100_000
    required: bool = True
    labels: Mapping[str, ToolLabels] = field(default_factory=dict)
    endpoint: McpEndpoint = field(init=False, repr=False)

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> "McpToolset":
            """Raise InvalidTree for options that the class does not have."""
            if arguments or options:  # copies are created without them
                check_call(cls, arguments, options, hints=_HINTS, error=InvalidTree)
            return super().__new__(cls)

    def __post_init__(self) -> None:
        try:
            self.endpoint = McpEndpoint(
                command=self.command,
                url=self.url,
                token=self.token,
                env=_environment(self.env),
                cwd=self.cwd,
                allow=self.allow,
                start_timeout=self.start_timeout,
                max_bytes=self.max_bytes,
            )
        except InvalidInput as error:
            raise InvalidTree(f"McpToolset: {error}") from None
        if isinstance(self.only, str):
            raise InvalidTree(f'McpToolset: only must be a sequence, such as ("{self.only}",)')
        if self.max_characters <= 0:
            raise InvalidTree(
                f"McpToolset: max_characters must be positive, got {self.max_characters}"
            )
        self.name = self.name or _default_name(self.endpoint)
        check_name(self.name, "an MCP server")
        if self.prefix:
            check_name(self.prefix, "a prefix")

    async def list_tools(self, ctx: RunContext) -> Sequence[BaseTool]:
        """Return the tools of the server, named as if this was the only toolset."""
        return await self.named_tools(ctx, is_only_toolset=True, reserved_names=frozenset())

    async def named_tools(
        self, ctx: RunContext, *, is_only_toolset: bool, reserved_names: frozenset[str]
    ) -> Sequence[BaseTool]:
        """Return the tools of the server under names that a model can call."""
        connections = ctx.services.mcp
        if connections is None:
            raise InvalidInput(f"{self.name!r}: this run has no connections to MCP servers")
        server = connections.server(self.endpoint)
        try:
            tools = await server.tools()
        except AccError:
            if self.required:
                raise
            return ()
        selected = [info for info in tools if any(fnmatchcase(info.name, p) for p in self.only)]
        prefix = self.prefix if self.prefix is not None else "" if is_only_toolset else self.name
        names = assign_tool_names(
            [info.name for info in selected],
            prefix=prefix,
            fallback_prefix=self.name,
            reserved=reserved_names | {TRANSFER_TOOL_NAME},
        )
        return [
            McpTool(
                server=server,
                info=info,
                name=names[info.name],
                confirm=self._confirm(info),
                confirm_expires=self.confirm_expires,
                requires=_option_for(self.requires, info.name) or "",
                timeout=_option_for(self.timeout, info.name),
                retries=_option_for(self.retries, info.name),
                max_characters=self.max_characters,
                labels=_labels(self.labels.get(info.name), info),
            )
            for info in selected
        ]

    def _confirm(self, info: McpToolInfo) -> Confirm:
        """Return the `confirm` option; without one, destructive tools require approval."""
        confirm = self.confirm
        if isinstance(confirm, Mapping):
            confirm = confirm.get(info.name)
        if confirm is not None:
            return confirm
        return info.destructive is True and info.read_only is not True


def _labels(declared: ToolLabels | None, info: McpToolInfo) -> ToolLabels | None:
    """Return the declared labels; a tool that the server calls destructive is destructive."""
    if info.destructive is True and info.read_only is not True:
        return replace(UNDECLARED if declared is None else declared, effect="destructive")
    return declared


def assign_tool_names(
    names: Sequence[str], *, prefix: str, fallback_prefix: str, reserved: frozenset[str]
) -> dict[str, str]:
    """Return a valid and unique tool name for each name that a server uses.

    If several names become equal, the tool that has this name already keeps it, and the others get
    a suffix with a hash of the original name.
    """
    candidates = {name: _candidate_name(name, prefix, fallback_prefix, reserved) for name in names}
    counted = list(candidates.values())
    return {
        name: _with_hash(candidate, name)
        if counted.count(candidate) > 1 and not candidate.endswith(name)
        else candidate
        for name, candidate in candidates.items()
    }


@dataclass(eq=False, kw_only=True)
class McpTool(BaseTool):
    """One tool of an MCP server."""

    server: McpServerPort
    info: McpToolInfo
    name: str
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires: str = ""
    timeout: float | None = None
    retries: int | None = None
    max_characters: int = 100_000
    labels: ToolLabels | None = None
    description: str = field(init=False)
    long_running: bool = field(default=False, init=False)
    parallel: bool = field(default=True, init=False)
    idempotent: bool = field(default=False, init=False)
    replayable: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.description = self.info.description

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and the server's schema for the model."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.info.schema)

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the arguments unchanged, or raise ValueError if they violate the schema."""
        error = self.server.schema_error(self.info, arguments)
        if error:
            raise ValueError(error)
        return dict(arguments)

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Call the server; files in its result are saved as artifacts."""
        result = await self.server.call(self.info.name, arguments, on_progress=ctx.progress)
        if result.is_error:
            text = " ".join(part.text for part in result.parts if part.text is not None)
            raise RemoteFailed(text.strip() or "the server reported an error without a message")
        return _ResultReader(self, ctx).read(result)


class _ResultReader:
    """Converts a result to JSON data for a model and saves its files as artifacts."""

    def __init__(self, tool: McpTool, context: ToolContext) -> None:
        self._tool = tool
        self._context = context
        self._file_count = 0

    def read(self, result: McpToolResult) -> Any:
        """Return the content of a result and its files."""
        content = self._content(result)
        files = [part for part in result.parts if part.raw is not None]
        return [content, *files] if files else content

    def _content(self, result: McpToolResult) -> Any:
        """Return text as str, structured data as data, and a mapping for anything more."""
        texts = [part.text for part in result.parts if part.text is not None]
        files = [self._describe_file(part) for part in result.parts if part.text is None]
        content: dict[str, Any] = {}
        if texts and not _is_copy(texts, result.structured):
            content["text"] = self._truncate("\n".join(texts))
        if result.structured is not None:
            encoded = msgspec.json.encode(result.structured).decode()
            is_short = len(encoded) <= self._tool.max_characters
            content["data"] = result.structured if is_short else self._truncate(encoded)
        if files:
            content["files"] = files
        if len(content) == 1 and not files:
            return next(iter(content.values()))
        return content or ""

    def _describe_file(self, part: Part) -> Any:
        if part.raw is None:
            link = {"link": part.url, "name": part.filename, "media_type": part.media_type}
            return {key: value for key, value in link.items() if value}
        media_type = part.media_type or "application/octet-stream"
        name = self._save(part.raw, media_type, part.filename)
        return {"artifact": name, "media_type": media_type, "bytes": len(part.raw)}

    def _save(self, content: str | bytes, media_type: str, filename: str = "") -> str:
        self._file_count += 1
        suffix = PurePath(filename).suffix or _SUFFIXES.get(media_type, "")
        if not suffix.isprintable() or len(suffix) > _MAX_SUFFIX_LENGTH:
            suffix = ""
        call_id = self._context.call_id[:_MAX_CALL_ID_LENGTH]
        name = f"{self._tool.name}-{call_id}-{self._file_count}{suffix}"
        name = "".join(character if character.isprintable() else "_" for character in name)
        self._context.save_artifact(name, content, media_type=media_type)
        return name

    def _truncate(self, text: str) -> str:
        limit = self._tool.max_characters
        if len(text) <= limit:
            return text
        name = self._save(text, "text/plain; charset=utf-8")
        return (
            f"{text[:limit]}\n[truncated: {limit} of {len(text)} characters; the full text is the "
            f"artifact {name}]"
        )


def _is_copy(texts: Sequence[str], structured: Any) -> bool:
    """Return True if the text repeats the structured data, as the protocol recommends."""
    if structured is None or len(texts) != 1:
        return False
    content: Any = texts[0]
    with suppress(msgspec.DecodeError, UnicodeEncodeError):
        content = msgspec.json.decode(texts[0])
    wrapped = structured.get("result") if isinstance(structured, dict) else None
    return content in (structured, wrapped)


def _option_for(option: T | Mapping[str, T] | None, tool_name: str) -> T | None:
    """Return the option of one tool; an option is one value or a mapping by tool name."""
    return option.get(tool_name) if isinstance(option, Mapping) else option


def _environment(env: Mapping[str, str] | Sequence[str]) -> tuple[tuple[str, str], ...]:
    if isinstance(env, Mapping):
        return tuple(env.items())
    if isinstance(env, str):
        raise InvalidInput(f'env must be a mapping or a sequence of names, such as ("{env}",)')
    return tuple((name, f"env:{name}") for name in env)


def _default_name(endpoint: McpEndpoint) -> str:
    """Return a name for a server: its host, or the file or program that is started."""
    if endpoint.url:
        name = (urlsplit(endpoint.url).hostname or "").split(".")[0]
    else:
        name = PurePath(endpoint.program).stem
    name = _replace_invalid_characters(name)
    return name if _is_valid_name(name) else f"mcp_{name}"


def _is_valid_name(name: str) -> bool:
    return name.replace("-", "_").isidentifier() and name != "user"


def _replace_invalid_characters(name: str) -> str:
    characters = (
        character if character == "-" or f"a{character}".isidentifier() else "_"
        for character in name
    )
    return "".join(characters)[:MAX_NAME_LENGTH]


def _candidate_name(name: str, prefix: str, fallback_prefix: str, reserved: frozenset[str]) -> str:
    candidate = _replace_invalid_characters(f"{prefix}_{name}" if prefix else name)
    if candidate in reserved or not _is_valid_name(candidate):
        candidate = _replace_invalid_characters(f"{fallback_prefix}_{name}")
    return f"{candidate[: MAX_NAME_LENGTH - 4]}_mcp" if candidate in reserved else candidate


def _with_hash(candidate: str, name: str) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{candidate[: MAX_NAME_LENGTH - 7]}_{digest}"
