"""Tools that MCP servers offer, as tools of an agent."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import msgspec

from acc.application.agents.base import Confirm, check_name
from acc.application.runtime.context import RunContext
from acc.application.tools.tool import Tool, ToolContext
from acc.application.tools.transfer import TRANSFER
from acc.domain.errors import AccError, InvalidInput, InvalidTree, RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import McpEndpoint, McpToolInfo, McpToolResult
from acc.ports.outbound.mcp_ports import McpServerPort
from acc.ports.outbound.model_ports import ToolSpec

_MOST_NAME = 64
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "audio/wav": ".wav", "audio/mpeg": ".mp3"}


@dataclass(eq=False, kw_only=True)
class McpToolset:
    """The tools of an MCP server, as one entry in an agent's list of tools.

    Give a `command` that starts the server, or the `url` of one that runs; see McpAddress for
    `token`, `env`, `cwd`, `allow`, `start_timeout` and `max_bytes`. `env` maps names to values, or
    lists names to be handed on. `only` are patterns of the names to take. With several servers
    every tool's name begins with its server's `name`; `prefix` sets what it begins with, "" for
    nothing. `confirm`, `requires` and `timeout` are as with other tools, for all of the server's or
    by the server's own tool names. Without `confirm`, a person is asked before tools that call
    themselves destructive. A result's text above `max_characters` is cut, and kept whole as a file.
    A server that is not `required` may be away: then its tools are too.
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
    start_timeout: float = 30.0
    max_bytes: int = 4 * 1024 * 1024
    max_characters: int = 100_000
    required: bool = True
    address: McpEndpoint = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            self.address = McpEndpoint(
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
            raise InvalidTree(f'only takes several patterns, such as ("{self.only}",)')
        if self.max_characters <= 0:
            raise InvalidTree("max_characters must be above 0")
        self.name = self.name or _name_of(self.address)
        check_name(self.name, "an MCP server")
        if self.prefix:
            check_name(self.prefix, "a prefix")

    async def offered(
        self, ctx: RunContext, *, alone: bool, taken: frozenset[str]
    ) -> Sequence[Tool]:
        """Return what the server offers now, under names that a model can call."""
        connections = ctx.services.mcp
        if connections is None:
            raise InvalidInput(f"{self.name!r}: this run has no connections to MCP servers")
        server = connections.server(self.address)
        try:
            found = await server.tools()
        except AccError:
            if self.required:
                raise
            return ()
        wanted = [info for info in found if any(fnmatchcase(info.name, p) for p in self.only)]
        prefix = self.prefix if self.prefix is not None else "" if alone else self.name
        names = offered_names(
            [info.name for info in wanted],
            prefix=prefix,
            fallback=self.name,
            taken=taken | {TRANSFER},
        )
        return [self._tool(server, info, names[info.name]) for info in wanted]

    def _tool(self, server: McpServerPort, info: McpToolInfo, name: str) -> "McpTool":
        return McpTool(
            server=server,
            info=info,
            name=name,
            confirm=self._confirm(info),
            confirm_expires=self.confirm_expires,
            requires=_chosen(self.requires, info.name, ""),
            timeout=_chosen(self.timeout, info.name, None),
            max_characters=self.max_characters,
        )

    def _confirm(self, info: McpToolInfo) -> Confirm:
        """Return whether to ask first: what a server says of itself can only add a question."""
        own: Confirm = info.destructive is True and info.read_only is not True
        chosen: Confirm | None = _chosen(self.confirm, info.name, None)
        return own if chosen is None else chosen


def _chosen(given: Any, name: str, default: Any) -> Any:
    return given.get(name, default) if isinstance(given, Mapping) else given


def _environment(given: Mapping[str, str] | Sequence[str]) -> tuple[tuple[str, str], ...]:
    if isinstance(given, Mapping):
        return tuple(given.items())
    if isinstance(given, str):
        raise InvalidInput(f'env takes several names, such as ("{given}",)')
    return tuple((name, f"env:{name}") for name in given)


def _name_of(address: McpEndpoint) -> str:
    """Return what a server can be called: its host, or the file or program that is started."""
    if address.url:
        found = (urlsplit(address.url).hostname or "").split(".")[0]
    else:
        found = PurePath(address.program).stem
    made = _spelled(found)
    return made if made.replace("-", "_").isidentifier() and made != "user" else f"mcp_{made}"


def _spelled(name: str) -> str:
    """Return a name with everything in it replaced that no tool's name may have."""
    fits = (letter == "-" or f"a{letter}".isidentifier() for letter in name)
    kept = (letter if fit else "_" for letter, fit in zip(name, fits, strict=True))
    return "".join(kept)[:_MOST_NAME]


def offered_names(
    names: Sequence[str], *, prefix: str, fallback: str, taken: frozenset[str]
) -> dict[str, str]:
    """Return under which name each tool is offered, whatever its server calls it.

    A name goes to who is called so by right; others whose names become the same when they are
    spelled as a model needs them are told apart by a mark of the original name.
    """
    made = {name: _made(name, prefix, fallback, taken) for name in names}
    offered = list(made.values())
    return {
        name: _marked(found, name)
        if offered.count(found) > 1 and not found.endswith(name)
        else found
        for name, found in made.items()
    }


def _marked(offered: str, name: str) -> str:
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{offered[: _MOST_NAME - 7]}_{mark}"


def _made(name: str, prefix: str, fallback: str, taken: frozenset[str]) -> str:
    offered = _spelled(f"{prefix}_{name}" if prefix else name)
    is_name = offered.replace("-", "_").isidentifier() and offered != "user"
    if offered in taken or not is_name:
        offered = _spelled(f"{fallback}_{name}")
    return f"{offered[: _MOST_NAME - 4]}_mcp" if offered in taken else offered


@dataclass(eq=False, kw_only=True)
class McpTool:
    """One tool of an MCP server, by a name that a model can call."""

    server: McpServerPort
    info: McpToolInfo
    name: str
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires: str = ""
    timeout: float | None = None
    max_characters: int = 100_000
    long_running: bool = field(default=False, init=False)
    parallel: bool = field(default=True, init=False)
    replayable: bool = field(default=False, init=False)

    @property
    def description(self) -> str:
        """Return what the server says the tool does."""
        return self.info.description

    @description.setter
    def description(self, text: str) -> None:
        raise AttributeError("what a tool does is for its server to say")

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as a model sees it, with the server's own schema."""
        return ToolSpec(
            name=self.name, description=self.info.description, parameters=self.info.schema
        )

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are, or raise ValueError where they do not fit."""
        fault = self.server.fault(self.info, arguments)
        if fault:
            raise ValueError(fault)
        return dict(arguments)

    async def invoke(
        self, context: RunContext, tool_context: ToolContext, arguments: Mapping[str, Any]
    ) -> Any:
        """Call the server; files in its answer are kept as artifacts, and named in the result."""
        answer = await self.server.call(self.info.name, arguments, hear=tool_context.progress)
        if answer.is_error:
            said = " ".join(part.text for part in answer.parts if part.text is not None)
            raise RemoteFailed(said.strip() or "the server says that it failed, and not why")
        return _Content(self, tool_context).of(answer)


class _Content:
    """Turns an answer into plain data for a model, and its files into artifacts."""

    def __init__(self, tool: McpTool, context: ToolContext) -> None:
        self._tool = tool
        self._context = context
        self._files = 0

    def of(self, answer: McpToolResult) -> Any:
        """Return a text as a text, data as data, and anything more by its name."""
        texts = [part.text for part in answer.parts if part.text is not None]
        others = [self._entry(part) for part in answer.parts if part.text is None]
        told = [] if _repeats(texts, answer.structured) else texts
        found: dict[str, Any] = {}
        if told:
            found["text"] = self._bounded("\n".join(told))
        if answer.structured is not None:
            found["data"] = self._small(answer.structured)
        if others:
            found["files"] = others
        if len(found) == 1 and not others:
            return next(iter(found.values()))
        return found or ""

    def _entry(self, part: Part) -> Any:
        if part.raw is None:
            link = {"link": part.url, "name": part.filename, "media_type": part.media_type}
            return {key: value for key, value in link.items() if value}
        media_type = part.media_type or "application/octet-stream"
        name = self._save(part.raw, media_type, part.filename)
        return {"artifact": name, "media_type": media_type, "bytes": len(part.raw)}

    def _save(self, content: str | bytes, media_type: str, filename: str = "") -> str:
        self._files += 1
        ending = PurePath(filename).suffix or _ENDINGS.get(media_type, "")
        ending = ending if ending.isprintable() and len(ending) < 16 else ""
        name = f"{self._tool.name}-{self._context.call_id[:80]}-{self._files}{ending}"
        name = "".join(letter if letter.isprintable() else "_" for letter in name)
        self._context.save_artifact(name, content, media_type=media_type)
        return name

    def _bounded(self, text: str) -> str:
        most = self._tool.max_characters
        if len(text) <= most:
            return text
        name = self._save(text, "text/plain; charset=utf-8")
        return (
            f"{text[:most]}\n[cut: these are {most} of {len(text)} characters; the whole is kept as"
            f" the artifact {name}]"
        )

    def _small(self, data: Any) -> Any:
        written = msgspec.json.encode(data).decode()
        return data if len(written) <= self._tool.max_characters else self._bounded(written)


def _repeats(texts: Sequence[str], structured: Any) -> bool:
    """Tell whether the texts only say again what the data holds, as servers are asked to do."""
    if structured is None or len(texts) != 1:
        return False
    try:
        said = msgspec.json.decode(texts[0])
    except (msgspec.DecodeError, UnicodeEncodeError):
        said = texts[0]
    return said in (structured, structured.get("result") if isinstance(structured, dict) else None)
