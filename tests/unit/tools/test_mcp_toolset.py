"""McpToolset with a scripted MCP server."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from acc import (
    Agent,
    BaseAgent,
    InvalidTree,
    McpToolset,
    RemoteFailed,
    RunContext,
    RunResult,
    ToolLabels,
    approve,
    tool,
)
from acc.application.tools.mcp import assign_tool_names
from acc.application.tools.toolset import UnavailableTool
from acc.bootstrap.agents import Runner, make_services
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import Part, ToolResult
from acc.domain.value_objects.endpoint import (
    McpEndpoint,
    McpToolInfo,
    McpToolResult,
    redact_secrets,
)
from acc.domain.value_objects.event import EventKind
from acc.ports.outbound.mcp_ports import ProgressListener
from acc.testing import ScriptedModel, call


class ScriptedMcpServer:
    """Offers the given tools and returns scripted answers."""

    def __init__(self, *tools: McpToolInfo, answer: McpToolResult | None = None) -> None:
        self.offers: Sequence[McpToolInfo] | Exception = tools
        self.answer = answer or McpToolResult(parts=(Part(text="ok"),))
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.closed = False

    def server(self, address: McpEndpoint) -> "ScriptedMcpServer":
        return self

    async def tools(self) -> Sequence[McpToolInfo]:
        if isinstance(self.offers, Exception):
            raise self.offers
        return self.offers

    def schema_error(self, tool: McpToolInfo, arguments: Mapping[str, Any]) -> str:
        return "bad is wrong" if "bad" in arguments else ""

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        on_progress: ProgressListener | None = None,
    ) -> McpToolResult:
        self.calls.append((name, arguments))
        if on_progress is not None:
            await on_progress("half")
        return self.answer

    async def aclose(self) -> None:
        self.closed = True


def info(name: str, **fields: Any) -> McpToolInfo:
    return McpToolInfo(name=name, description=f"does {name}", **fields)


def runner_of(server: ScriptedMcpServer | None, *script: Any, tools: Sequence[Any] = ()) -> Runner:
    services = make_services()
    services.mcp = server
    source = tools or [McpToolset(command=["shop"])]
    agent = Agent(name="a", model=ScriptedModel(*script), tools=source)
    return Runner(agent, services=services)


async def run_once(runner: Runner) -> RunResult:
    return await runner.run(user_id="u", session_id="s", message="go")


def results(done: RunResult) -> list[ToolResult]:
    return [e.result for e in done.events if e.kind is EventKind.TOOL_RESULT and e.result]


async def content_of(answer: McpToolResult, **options: Any) -> tuple[Any, RunResult, Runner]:
    server = ScriptedMcpServer(info("t"), answer=answer)
    runner = runner_of(server, call("t"), "done", tools=[McpToolset(command=["shop"], **options)])
    done = await run_once(runner)
    return results(done)[0].content, done, runner


async def test_tool_call_reports_progress() -> None:
    server = ScriptedMcpServer(info("買う"))
    runner = runner_of(server, call("買う", 数=3), "買いました")
    done = await run_once(runner)
    await runner.aclose()
    assert server.calls == [("買う", {"数": 3})] and server.closed
    assert results(done)[0].content == "ok"
    assert [e.text for e in done.events if e.kind is EventKind.PROGRESS] == ["half"]


async def test_invalid_arguments_are_not_sent() -> None:
    server = ScriptedMcpServer(info("t"))
    done = await run_once(runner_of(server, call("t", bad=1), "sorry"))
    assert "invalid arguments for t: bad is wrong" in results(done)[0].content["error"]
    assert server.calls == []


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((Part(text="no"), Part(text="more")), "no more"),
        ((), "without a message"),
    ],
)
async def test_error_response_becomes_error_result(parts: tuple[Part, ...], expected: str) -> None:
    content, done, _ = await content_of(McpToolResult(parts=parts, is_error=True))
    assert results(done)[0].is_error and expected in content["error"]


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (McpToolResult(), ""),
        (McpToolResult(parts=(Part(text="a"), Part(text="b"))), "a\nb"),
        (McpToolResult(structured={"x": 1}), {"x": 1}),
        (McpToolResult(parts=(Part(text='{"x": 1}'),), structured={"x": 1}), {"x": 1}),
        (McpToolResult(parts=(Part(text="hi"),), structured={"result": "hi"}), {"result": "hi"}),
        (McpToolResult(parts=(Part(text="1"),), structured=1), 1),
        (
            McpToolResult(parts=(Part(text="see"),), structured={"x": 1}),
            {"text": "see", "data": {"x": 1}},
        ),
        (
            McpToolResult(parts=(Part(url="https://x.example/a"),)),
            {"files": [{"link": "https://x.example/a"}]},
        ),
    ],
)
async def test_result_is_simplified(answer: McpToolResult, content: Any) -> None:
    assert (await content_of(answer))[0] == content


async def test_files_are_saved_as_artifacts() -> None:
    parts = (
        Part(raw=b"png", media_type="image/png"),
        Part(raw=b"pdf", filename="報告.pdf"),
        Part(raw=b"odd", filename="x." + "y" * 40),
    )
    content, _, runner = await content_of(McpToolResult(parts=parts))
    names = [entry["artifact"] for entry in content["files"]]
    assert [name.rpartition(".")[2] for name in names[:2]] == ["png", "pdf"]
    assert content["files"][1]["media_type"] == "application/octet-stream"
    for name, part in zip(names, parts, strict=True):
        stored = await runner.load_artifact(name, user_id="u", session_id="s")
        assert stored is not None and stored.data == part.raw


async def test_long_result_is_truncated_and_saved() -> None:
    content, _, runner = await content_of(
        McpToolResult(parts=(Part(text="長" * 50),), structured={"x": "y" * 50}), max_characters=20
    )
    assert content["text"].startswith("長" * 20 + "\n[truncated: 20 of 50 characters")
    assert content["data"].startswith('{"x":"')
    name = content["text"].rpartition("artifact ")[2].rstrip("]")
    stored = await runner.load_artifact(name, user_id="u", session_id="s")
    assert stored is not None and stored.text == "長" * 50


async def test_destructive_tools_require_approval_by_default() -> None:
    wipe = info("wipe", destructive=True)
    look = info("look", destructive=True, read_only=True)
    paused = await run_once(runner_of(ScriptedMcpServer(wipe), call("wipe")))
    assert paused.status == "input_required"
    fine = await run_once(runner_of(ScriptedMcpServer(look), call("look"), "seen"))
    assert fine.text == "seen"
    trusted = McpToolset(command=["shop"], confirm=False)
    assert (
        await run_once(runner_of(ScriptedMcpServer(wipe), call("wipe"), "gone", tools=[trusted]))
    ).text
    careful = McpToolset(command=["shop"], confirm={"look": "Really look?"})
    asked = await run_once(runner_of(ScriptedMcpServer(look), call("look"), tools=[careful]))
    assert asked.requests[0].message == "Really look?"
    other = await run_once(runner_of(ScriptedMcpServer(wipe), call("wipe"), tools=[careful]))
    assert other.status == "input_required"


async def test_annotations_of_a_server_only_reduce_trust() -> None:
    offers = (
        info("look", read_only=True),
        info("wipe", destructive=True),
        info("search", read_only=True),
    )
    labels = {"wipe": ToolLabels(effect="none"), "search": ToolLabels(effect="none")}
    source = McpToolset(command=["shop"], labels=labels)
    services = make_services()
    services.mcp = ScriptedMcpServer(*offers)
    found: dict[str, ToolLabels | None] = {}

    class Lists(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            found.update({tool.name: tool.labels for tool in await source.list_tools(ctx)})
            return "listed"

    await Runner(Lists(name="a"), services=services).run("go")
    assert found["look"] is None, "a read-only tool stays undeclared"
    assert found["wipe"] == ToolLabels(effect="destructive")
    assert found["search"] == ToolLabels(effect="none")


async def test_options_apply_to_all_tools_or_by_name() -> None:
    source = McpToolset(command=["shop"], requires={"t": "shop:use"}, timeout={"t": 3.0})
    server = ScriptedMcpServer(info("t"), info("u"))
    runner = runner_of(server, "x", tools=[source])
    context: Any = type("C", (), {"services": runner.services})
    found = await source.list_tools(context)
    assert [(one.name, one.requires, one.timeout) for one in found] == [
        ("t", "shop:use", 3.0),
        ("u", "", None),
    ]
    assert found[0].description == "does t"


def test_tool_names_are_valid_and_unique() -> None:
    names = ["a.b", "a b", "a_b", "3d", "在庫", "user", "own", "x" * 70, "x" * 71, "no²"]
    found = assign_tool_names(names, prefix="", fallback_prefix="shop", reserved=frozenset({"own"}))
    assert found["a_b"] == "a_b" and found["在庫"] == "在庫"
    assert found["a.b"].startswith("a_b_") and found["a b"].startswith("a_b_")
    assert found["3d"] == "shop_3d" and found["user"] == "shop_user" and found["own"] == "shop_own"
    assert found["no²"] == "no_"
    assert len(set(found.values())) == len(names)
    assert all(len(name) <= 64 and name.replace("-", "_").isidentifier() for name in found.values())
    taken = frozenset({"own", "shop_own"})
    assert (
        assign_tool_names(["own"], prefix="", fallback_prefix="shop", reserved=taken)["own"]
        == "shop_own_mcp"
    )
    assert assign_tool_names(["x"], prefix="p", fallback_prefix="p", reserved=taken) == {"x": "p_x"}


async def test_own_tool_takes_precedence_over_server_tool() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "own"

    server = ScriptedMcpServer(info("look"), info("transfer_to_agent"))
    source = McpToolset(command=["shop"])
    runner = runner_of(server, [call("look"), call("shop_look")], "both", tools=[look, source])
    done = await run_once(runner)
    assert {r.name: r.content for r in results(done)} == {"look": "own", "shop_look": "ok"}


async def test_first_tool_of_a_name_is_used() -> None:
    server = ScriptedMcpServer(info("t"))
    sources = [
        McpToolset(command=["one"], prefix=""),
        McpToolset(command=["two"], prefix=""),
        McpToolset(command=["three"], prefix="third"),
    ]
    done = await run_once(runner_of(server, [call("t"), call("third_t")], "x", tools=sources))
    assert [r.content for r in results(done)] == ["ok", "ok"]


async def test_only_selects_tools_by_pattern() -> None:
    server = ScriptedMcpServer(info("get_a"), info("put_a"))
    source = McpToolset(command=["shop"], only=["get_*"])
    runner = runner_of(server, call("put_a"), "no", tools=[source])
    done = await run_once(runner)
    assert results(done)[0].content == {
        "error": "tool 'put_a' does not exist; available tools: get_a"
    }


async def test_unknown_tool_error_lists_server_tools() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "own"

    server = ScriptedMcpServer(info("wipe"), info("dry"))
    source = McpToolset(command=["shop"])
    calls = [call("wip"), call("wipe"), call("look")]
    done = await run_once(runner_of(server, calls, "done", tools=[look, source]))
    assert {r.name: r.content for r in results(done)} == {
        "wip": {"error": "tool 'wip' does not exist; available tools: dry, look, wipe"},
        "wipe": "ok",
        "look": "own",
    }


async def test_removed_tool_fails_and_new_tool_is_used() -> None:
    server = ScriptedMcpServer(info("old"))

    def swap(prompt: Any) -> Any:
        server.offers = (info("new"),)
        return call("old")

    done = await run_once(runner_of(server, swap, call("old"), call("new"), "done"))
    first, gone, fresh = results(done)
    assert first.content == "ok" and fresh.content == "ok"
    assert gone.is_error and "no longer available" in gone.content["error"]


async def test_unavailable_server_fails_run_if_required() -> None:
    server = ScriptedMcpServer()
    server.offers = RemoteFailed("away")
    with pytest.raises(RemoteFailed, match="away"):
        await run_once(runner_of(server, "x"))
    optional = McpToolset(command=["shop"], required=False)
    assert (await run_once(runner_of(server, "alone", tools=[optional]))).text == "alone"


async def test_run_without_connections_fails() -> None:
    runner = runner_of(None, "x")
    with pytest.raises(InvalidInput, match="no connections to MCP servers"):
        await run_once(runner)
    await runner.aclose()


async def test_resume_calls_only_open_tools() -> None:
    server = ScriptedMcpServer(info("done"), info("ask", destructive=True))
    runner = runner_of(server, [call("done"), call("ask")], "end")
    paused = await run_once(runner)
    server.offers = (info("ask", destructive=True), info("other"))
    answers = [approve(paused.requests[0].id)]
    end = await runner.resume(user_id="u", session_id="s", answers=answers)
    assert end.text == "end"
    assert [name for name, _ in server.calls] == ["done", "ask"]


async def test_resume_without_server_fails_only_open_call() -> None:
    server = ScriptedMcpServer(info("ask", destructive=True))
    source = McpToolset(command=["shop"])

    def back(prompt: Any) -> str:
        return "end"

    runner = runner_of(server, call("ask"), back, tools=[source])
    paused = await run_once(runner)
    server.offers = RemoteFailed("the shop is shut")
    answers = [approve(paused.requests[0].id)]
    with pytest.raises(RemoteFailed, match="shut"):  # the model must be called with its tools
        await runner.resume(user_id="u", session_id="s", answers=answers)
    events = await runner.events(user_id="u", session_id="s")
    found = [e.result for e in events if e.result is not None]
    assert found[0].is_error and "the shop is shut" in found[0].content["error"]


async def test_unknown_tool_stays_unknown_on_resume() -> None:
    server = ScriptedMcpServer(info("ask", destructive=True))
    runner = runner_of(server, [call("ghost"), call("ask")], "end")
    paused = await run_once(runner)
    server.offers = (info("ask", destructive=True), info("ghost"))
    answers = [approve(paused.requests[0].id)]
    await runner.resume(user_id="u", session_id="s", answers=answers)
    assert [name for name, _ in server.calls] == ["ask"]


def test_unavailable_tool_accepts_any_arguments() -> None:
    gone = UnavailableTool("t", "why")
    assert gone.spec.name == "t" and gone.validate({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "either a command or a url"),
        ({"command": ["x"], "url": "https://x.example"}, "either a command"),
        ({"command": "python server.py"}, "command must be a list"),
        ({"command": ["x"], "allow": "localhost"}, "must be a list"),
        ({"command": ["x\0"]}, "must be strings"),
        ({"command": ["x"], "token": "t"}, "requires a url"),
        ({"url": "ftp://x"}, "not an absolute http or https URL"),
        ({"url": "https://x.example", "token": "a\nb"}, "printable ASCII"),
        ({"url": "https://x.example", "token": "a b"}, "printable ASCII"),
        ({"command": ["x"], "start_timeout": 0}, "must be positive"),
        ({"command": ["x"], "env": "KEY"}, "env must be"),
        ({"command": ["x"], "only": "a*"}, "only must be"),
        ({"command": ["x"], "max_characters": 0}, "max_characters"),
        ({"command": ["x"], "name": "1 2"}, "valid name for an MCP server"),
        ({"command": ["x"], "prefix": "1 2"}, "valid name for a prefix"),
    ],
)
def test_invalid_options_are_rejected(fields: Any, expected: str) -> None:
    with pytest.raises(InvalidTree, match=expected):
        McpToolset(**fields)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"command": ["python", "my server.py"]}, "my_server"),
        ({"command": ["/usr/bin/uvx", "shop"]}, "uvx"),
        ({"url": "https://shop.example.com/mcp"}, "shop"),
        ({"url": "https://127.0.0.1/mcp"}, "mcp_127"),
        ({"command": ["user"]}, "mcp_user"),
    ],
)
def test_default_name_is_host_or_program(fields: Any, name: str) -> None:
    assert McpToolset(**fields).name == name


def test_toolsets_of_same_name_are_rejected() -> None:
    with pytest.raises(InvalidTree, match="two toolsets named 'shop'"):
        Agent(name="a", tools=[McpToolset(command=["shop"]), McpToolset(command=["shop"])])


def test_environment_accepts_values_or_names_and_is_hidden() -> None:
    source = McpToolset(command=["x"], env=["KEY"])
    assert source.endpoint.env == (("KEY", "env:KEY"),)
    named = McpToolset(command=["x"], env={"KEY": "secret"})
    assert named.endpoint.env == (("KEY", "secret"),)
    assert "secret" not in repr(named) + repr(named.endpoint)
    assert named.endpoint.display_name == "x"
    assert McpToolset(url="https://x.example/mcp?q=1").endpoint.display_name == "https://x.example"
    run = McpToolset(command=["/usr/bin/python3.12", "-S", "srv/shop.py", "--token", "ey.J0.x"])
    assert run.endpoint.display_name == "shop.py"


def test_redact_secrets_removes_known_and_likely_secrets() -> None:
    text = (
        "skipped-because-of api_key=abcdefgh12 and sk-abcdefghijkl, Bearer 1234567890, 鍵は秘密の鍵"
    )
    actual = redact_secrets(text, ["秘密の鍵", "of", ""])
    assert actual == "skipped-because-of api_key=*** and ***, Bearer ***, 鍵は***"


@pytest.mark.parametrize(
    "written",
    [
        "zebra%2Fquilt%209 鍵",
        "zebra/quilt+9+%E9%8D%B5",
        "%7aebra%2fquilt%209%20鍵",
        "zebra%252Fquilt%25209%2520%25E9%258D%25B5",
    ],
)
def test_redact_secrets_finds_encoded_secrets(written: str) -> None:
    actual = redact_secrets(f"100% of ?key={written}&n=1", ["zebra/quilt 9 鍵"])
    assert actual == "100% of ?key=***&n=1"
