"""Mistakes of first programs: each error names the problem and the fix.

An error is one of ours, or an AttributeError with our advice; never an error of Python from inside
of acc.
"""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acc
from acc import (
    AccError,
    AccMemory,
    Agent,
    BaseAgent,
    GraphAgent,
    LoopAgent,
    McpToolset,
    RemoteAgent,
    RouterAgent,
    RunConfig,
    Runner,
    SequentialAgent,
    approve,
    tool,
)
from acc.testing import ScriptedModel

ANY: Any = acc  # mistakes that type checkers would find


def agent(**options: Any) -> Any:
    return ANY.Agent(**{"name": "a", "model": ScriptedModel("ok", repeat=True), **options})


def runner(**options: Any) -> Any:
    return ANY.Runner(agent(), **options)


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


class Search:
    """A class with a method."""

    def find(self, query: str) -> str:
        """Find something."""
        return query


def untyped(a, b):  # type: ignore[no-untyped-def]
    """Add numbers."""
    return a + b


def numbers(count: int) -> Any:
    """Return numbers."""
    yield from range(count)


async def async_numbers(count: int) -> Any:
    """Return numbers."""
    for number in range(count):
        yield number


async def fetch(url: str) -> str:
    """Fetch a page."""
    return url


def call_async_tool() -> None:
    called = fetch("x")
    try:
        agent(tools=[called])
    finally:
        called.close()


def variadic(*numbers: int) -> int:
    """Add numbers."""
    return sum(numbers)


def with_object(search: Search) -> str:
    """Find something."""
    return search.find("x")


def used_twice() -> None:
    child = agent(name="c", description="Helps.")
    SequentialAgent(name="s", sub_agents=[child])
    SequentialAgent(name="t", sub_agents=[child])


def sub_agent_alone() -> None:
    child = agent(name="c")
    SequentialAgent(name="s", sub_agents=[child])
    Runner(child)


def define_run_without_context() -> None:
    class Own(BaseAgent):
        async def run(self) -> str:  # type: ignore[override]
            return "x"


def define_run_that_yields() -> None:
    class Own(BaseAgent):
        async def run(self, ctx: Any) -> Any:
            yield "x"


def run_that_is_not_async() -> None:
    class Own(BaseAgent):
        def run(self, ctx: Any) -> Any:
            return "x"

    Own(name="own").run_sync("hello")


def init_without_super() -> None:
    class Own(BaseAgent):
        def __init__(self) -> None:
            self.x = 1

        async def run(self, ctx: Any) -> str:
            return "x"

    Runner(Own())


def no_run() -> None:
    class Own(BaseAgent):
        pass

    Own(name="own").run_sync("hello")


class Deps:
    pass


class PluginWithoutPrompt:
    def before_model_callback(self, ctx: Any) -> None:
        pass


def answer_that_cannot_be_stored() -> None:
    class Own(BaseAgent):
        async def run(self, ctx: Any) -> Any:
            return print

    Own(name="own").run_sync("hello")


def wrong_attribute_of_context() -> None:
    class Own(BaseAgent):
        async def run(self, ctx: Any) -> str:
            return str(ctx.session.state["x"])

    Own(name="own").run_sync("hello")


def state_value_that_cannot_be_stored() -> None:
    class Own(BaseAgent):
        async def run(self, ctx: Any) -> str:
            ctx.state["x"] = object()
            return "x"

    Own(name="own").run_sync("hello")


def not_awaited() -> None:
    call = runner().run("hello")
    try:
        call.text  # noqa: B018 - the mistake
    finally:
        call.close()


def iterate_run() -> None:
    async def main() -> None:
        async for _ in runner().run("hello"):
            pass

    asyncio.run(main())


def await_stream() -> None:
    async def main() -> None:
        await runner().stream("hello")

    asyncio.run(main())


def iterate_stream_without_async() -> None:
    for _ in runner().stream("hello"):
        pass


def stream_without_message() -> None:
    async def main() -> None:
        async for _ in runner().stream():
            pass

    asyncio.run(main())


def two_contexts(ctx: acc.ToolContext, context: acc.ToolContext) -> str:
    """Find something."""
    return f"{ctx.call_id} {context.call_id}"


class Query(acc.BaseTool):
    """A tool whose schema is a list."""

    parameters = ["x"]  # type: ignore[assignment]

    async def invoke(self, arguments: Any, ctx: Any) -> str:
        return "x"


def edge_between_agents() -> None:
    first, second = agent(), agent(name="b")
    ANY.GraphAgent(name="g", sub_agents=[first, second], edges=[(first, second)], start="a")


def key_of_provider_is_missing() -> None:
    Agent(name="a", model="groq:some-model").run_sync("hello")


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    # Agents
    "no name": (lambda: ANY.Agent(), r'needs a name: name="helper"'),
    "name by position": (lambda: ANY.Agent("helper"), r"Agent\(name=\.\.\., \.\.\.\)"),
    "name with a space": (lambda: agent(name="my agent"), "use letters, digits, _ and -"),
    "name of the user": (lambda: agent(name="user"), "reserved"),
    "instructions": (lambda: agent(instructions="x"), "use instruction="),
    "system_prompt": (lambda: agent(system_prompt="x"), "use instruction="),
    "handoffs": (lambda: agent(handoffs=[]), "use sub_agents="),
    "max_turns of an agent": (lambda: agent(max_turns=3), r"RunConfig\(max_llm_calls="),
    "instruction that is a list": (
        lambda: agent(instruction=["x"]),
        "must be a text or a function",
    ),
    "instruction without ctx": (lambda: agent(instruction=lambda: "x"), r"def instruction\(ctx\)"),
    "placeholder without a value": (
        lambda: agent(instruction="Hi {name}").run_sync("hello"),
        r"\{name\}, which is not in the state.*write \{name\?\}",
    ),
    "bare model name": (lambda: agent(model="gpt-4o"), 'did you mean model="openai:gpt-4o"'),
    "misspelled provider": (lambda: agent(model="opnai:gpt-5"), 'mean model="openai:gpt-5"'),
    "space in a model name": (
        lambda: agent(model="openai: gpt-5"),
        'did you mean model="openai:gpt-5"',
    ),
    "model None": (lambda: agent(model=None), "set model= to PROVIDER:MODEL"),
    "model that is no model": (lambda: agent(model=3), "a name such as openai:gpt-5.2"),
    "class of a model": (lambda: agent(model=ScriptedModel), "an object with `async complete"),
    "model without its key": (key_of_provider_is_missing, "set the environment variable GROQ"),
    "unset variable for a model": (
        lambda: Runner(agent(model="env:NOT_SET")),
        "variable NOT_SET is not set to a model",
    ),
    "misspelled memory": (lambda: agent(memory="akk"), "mean 'acc'.*transcript, retrieval, acc"),
    "memory of evaluations": (lambda: agent(memory="oracle"), "only in evaluations"),
    "product as model: claude": (lambda: agent(model="claude"), 'mean model="anthropic:MODEL"'),
    "product as model: gemini": (lambda: agent(model="gemini"), 'mean model="google:MODEL"'),
    "provider as model": (lambda: agent(model="ollama"), 'mean model="ollama:MODEL"'),
    "provider without a model": (lambda: agent(model="openai:"), 'mean model="openai:MODEL"'),
    "description that is a number": (lambda: agent(description=3), "description must be a text"),
    "flag that is a text": (
        lambda: agent(disallow_transfer_to_parent="yes"),
        "must be True or False, got 'yes'",
    ),
    "settings as a dictionary": (
        lambda: agent(model_settings={"temperature": 0}),
        r"such as ModelSettings\(temperature=0\)",
    ),
    "temperature as a text": (
        lambda: ANY.ModelSettings(temperature="0"),
        "a number from 0 to 2, got '0'",
    ),
    "tool of another provider": (
        lambda: agent(native_tools=["google_search"]),
        '"web_search" or "code_execution"',
    ),
    "name of an output type": (lambda: agent(output_type="str"), "'str' is not a type"),
    "class of a memory": (lambda: agent(memory=AccMemory), 'a name such as "acc"'),
    "callback with too few parameters": (
        lambda: agent(before_model_callback=lambda ctx: None),
        r"def before_model_callback\(ctx, prompt\)",
    ),
    "callback with too few parameters in a list": (
        lambda: agent(after_tool_callback=[lambda tool, arguments, ctx: None]),
        r"def after_tool_callback\(tool, arguments, ctx, result\)",
    ),
    "error callback without the error": (
        lambda: agent(on_agent_error_callback=lambda ctx: None),
        r"def on_agent_error_callback\(ctx, error\)",
    ),
    "callback of a plugin with too few parameters": (
        lambda: runner(plugins=[PluginWithoutPrompt()]),
        r"def before_model_callback\(self, ctx, prompt\)",
    ),
    "deps of an agent": (lambda: agent(deps=3), "pass deps=... to Runner or to run"),
    "missing deps": (
        lambda: agent(deps_type=Deps).run_sync("hello"),
        "needs deps of type Deps; the run has none",
    ),
    "callback that is a text": (lambda: agent(after_agent_callback="x"), "must be a function"),
    "callback with a wrong result": (
        lambda: agent(before_agent_callback=lambda ctx: 3).run_sync("hello"),
        "returned int; expected str or None",
    ),
    "missing attribute of an agent": (lambda: agent().invoke("hello"), "use .run_sync"),
    # Tools
    "tools by name": (lambda: agent(tools=["search"]), "pass the function itself"),
    "called function as tool": (lambda: agent(tools=[double(3)]), "without calling it"),
    "one function as tools": (lambda: agent(tools=double), r"must be a list, such as \[function\]"),
    "tools as a dictionary": (lambda: agent(tools={"double": double}), "must be a list"),
    "generator as tool": (lambda: agent(tools=[numbers]), "yields: return one result"),
    "async generator as tool": (lambda: agent(tools=[async_numbers]), "'async_numbers' yields"),
    "partial as tool": (
        lambda: agent(tools=[functools.partial(double, 1)]),
        "write a function with def that calls it",
    ),
    "method without its object": (lambda: agent(tools=[Search.find]), r"such as Search\(\)\.find"),
    "function of Python": (lambda: agent(tools=[print]), "write a function whose parameters have"),
    "tool decorator of a class": (lambda: ANY.tool(Search), r"Search\(\).method"),
    "async tool that was called": (call_async_tool, "without calling it"),
    "list in the list of tools": (lambda: agent(tools=[[double]]), r"pass the function itself"),
    "description of a tool as a number": (
        lambda: ANY.tool(description=3)(double),
        "description must be a text, got 3",
    ),
    "timeout of a tool as a text": (
        lambda: ANY.tool(timeout="5")(double),
        "timeout must be a positive number, got '5'",
    ),
    "agent tool by position": (lambda: ANY.AgentTool(agent()), r"AgentTool\(agent=\.\.\."),
    "agent tool of a text": (lambda: ANY.AgentTool(agent="a"), r"expected an agent such as"),
    "unknown option of an agent tool": (
        lambda: ANY.AgentTool(agent=agent(), confrm=True),
        "'confrm': use confirm=",
    ),
    "command of an MCP server as a number": (
        lambda: ANY.McpToolset(command=3),
        r'must be a list, such as \["python", "server.py"\]',
    ),
    "tool with two contexts": (lambda: agent(tools=[two_contexts]), "'ctx' and 'context' are both"),
    "schema of a tool as a list": (
        lambda: Query(name="query", description="Ask."),
        r"parameters must be a JSON schema, such as .*got \['x'\]",
    ),
    "schema as tool": (lambda: agent(tools=[{"type": "function"}]), "pass a function with type"),
    "class as tool": (lambda: agent(tools=[Search]), r"Search\(\).method"),
    "object as tool": (lambda: agent(tools=[Search()]), r"pass a method of it"),
    "lambda as tool": (lambda: agent(tools=[lambda x: x]), "write a function with def"),
    "tool without type hints": (lambda: agent(tools=[untyped]), "'a' needs a type hint"),
    "tool with *args": (lambda: agent(tools=[variadic]), "'numbers' cannot be passed by name"),
    "tool with an object": (lambda: agent(tools=[with_object]), "use a dataclass, a TypedDict"),
    "one tool twice": (lambda: agent(tools=[double, double]), "two tools named 'double'"),
    "name of a tool by position": (lambda: tool("x")(double), r'write @tool\(name="x"\)'),  # type: ignore[call-overload]
    "unknown option of a tool": (lambda: ANY.tool(require_approval=True), "use confirm="),
    "MCP server by position": (lambda: ANY.McpToolset("npx x"), r"McpToolset\(command=\.\.\."),
    "MCP server without address": (lambda: McpToolset(), "command"),
    # Trees
    "one agent as sub_agents": (lambda: agent(sub_agents=agent(name="b")), "a list of agents"),
    "class as sub-agent": (
        lambda: SequentialAgent(name="s", sub_agents=[Agent]),  # type: ignore[list-item]
        r"got the class: write Agent\(name=\.\.\.\)",
    ),
    "sub-agent without description": (
        lambda: agent(sub_agents=[agent(name="b")]),
        "'b' needs a description",
    ),
    "one agent in two trees": (used_twice, "create a second agent with another name"),
    "no sub-agents": (lambda: SequentialAgent(name="s", sub_agents=[]), "at least one sub-agent"),
    "loop without bound": (lambda: LoopAgent(name="l", sub_agents=[agent()]), "max_iterations"),
    "tools of a sequence": (
        lambda: ANY.SequentialAgent(name="s", sub_agents=[agent()], tools=[double]),
        r"'tools': only Agent\(...\) has it; set it on the agents with a model",
    ),
    "code executor of a sequence": (
        lambda: ANY.SequentialAgent(name="s", sub_agents=[agent()], code_executor=3),
        r"'code_executor': only Agent\(...\) has it",
    ),
    "agents by position": (
        lambda: ANY.SequentialAgent([agent()]),
        r"^SequentialAgent got a value of type list without a keyword",
    ),
    "agents in an edge": (edge_between_agents, r"\('a', 'b'\) is not an edge.*names of agents"),
    "function of a router without ctx": (
        lambda: ANY.RouterAgent(name="r", by=lambda: "a", sub_agents=[agent()]),
        r"write def by\(ctx\)",
    ),
    "unknown kind of router": (
        lambda: RouterAgent(name="r", by="llm", sub_agents=[agent()]),  # type: ignore[arg-type]
        '"intent", "model" or a function',
    ),
    "edge to nowhere": (
        lambda: GraphAgent(name="g", sub_agents=[agent()], edges=[("a", "b")], start="a"),
        "'b', which is not a node; nodes: a",
    ),
    "remote agent without scheme": (
        lambda: RemoteAgent(name="r", url="localhost:8000"),
        "http or https URL",
    ),
    # Agents of your own
    "run without ctx": (define_run_without_context, r"async def run\(self, ctx\)"),
    "run that yields": (define_run_that_yields, "return its answer"),
    "run without async": (run_that_is_not_async, r"async def run\(self, ctx\)"),
    "no run": (no_run, r"must define `async def run\(self, ctx\)`"),
    "init without super": (init_without_super, r"must call super\(\).__init__\(name="),
    "answer that cannot be stored": (
        answer_that_cannot_be_stored,
        "expected str, or a value that can be converted to JSON",
    ),
    "wrong attribute of the context": (wrong_attribute_of_context, "use ctx.state"),
    "state that cannot be stored": (state_value_that_cannot_be_stored, "not JSON data"),
    # Runner
    "no agent": (lambda: ANY.Runner(), "needs agent="),
    "text as agent": (lambda: ANY.Runner("agent"), r"expected an agent such as Agent\(name="),
    "class as agent": (lambda: ANY.Runner(Agent), r"write Agent\(name="),
    "sub-agent as root": (sub_agent_alone, "run the root of its tree"),
    "app name by position": (lambda: ANY.Runner(agent(), "shop"), r"Runner\(agent=\.\.\."),
    "session_service": (lambda: runner(session_service=None), "use store="),
    "config as a dictionary": (lambda: runner(config={}), "config must be a RunConfig"),
    "models as a list": (lambda: runner(models=["x"]), "must map names to objects"),
    "models by name": (lambda: runner(models={"mine": "openai:x"}), "must map names to objects"),
    "URL of another database": (
        lambda: runner(store="mysql://user:s3cret@db/x"),
        "'mysql' is not supported",
    ),
    "no store": (lambda: runner(store=None), "store must be the path of a SQLite file"),
    "pair of wrong stores": (lambda: runner(store=("a", "b")), "methods of SessionStorePort"),
    "store in a missing folder": (
        lambda: runner(store="/missing/folder/x.db").run_sync("hello"),
        "/missing/folder does not exist; create it",
    ),
    "missing attribute of a runner": (lambda: runner().run_async("hello"), "use .run"),
    "unknown limit": (lambda: ANY.RunConfig(max_turns=3), "use max_llm_calls="),
    "limit of zero": (lambda: RunConfig(max_llm_calls=0), "must be greater than 0, got 0"),
    "limit as a text": (lambda: ANY.RunConfig(timeout="5"), "a number and greater than 0, got '5'"),
    "limit as a fraction": (
        lambda: ANY.RunConfig(max_llm_calls=2.5),
        "an integer and greater than 0, got 2.5",
    ),
    "empty app name": (lambda: runner(app_name=""), "app_name must be a non-empty str"),
    "app name as a number": (lambda: runner(app_name=3), "app_name must be a non-empty str, got 3"),
    "size of the cache as a text": (
        lambda: runner(max_cached_memories="5"),
        "an integer of at least 1, got '5'",
    ),
    "services of another kind": (lambda: runner(services=3), "use store= and models="),
    "budget of a memory as a text": (
        lambda: ANY.acc_memory(budget="512"),
        "an integer of at least 32 tokens",
    ),
    # Runs
    "part of a number": (lambda: ANY.Part(3), r"text of a part must be a str, got int"),
    "bytes as the text of a part": (lambda: ANY.Part(b"x"), r"use raw=\.\.\. for bytes"),
    "empty part": (lambda: ANY.Part(), r'exactly one of text.*Part\("hello"\)'),
    "rewind without a turn": (lambda: runner().sessions.rewind(), r"rewind\(...\) needs turn="),
    "rewind with a turn by position": (
        lambda: runner().sessions.rewind("s", 2),
        "got 2 without a keyword",
    ),
    "list of sessions by position": (lambda: runner().sessions.list("u"), "without a keyword"),
    "fork with a wrong option": (
        lambda: runner().sessions.fork(session="s"),
        "'session': use session_id=",
    ),
    "state by position": (lambda: runner().state("u", "s"), "without a keyword"),
    "approval of nothing": (lambda: ANY.approve(), r"approve\(...\) needs request="),
    "message that is bytes": (lambda: runner().run_sync(b"hello"), 'a str such as "hello"'),
    "config of a run as a dictionary": (
        lambda: runner().run_sync("hello", config={"timeout": 3}),
        "must be a RunConfig",
    ),
    "empty message": (lambda: runner().run_sync(""), "the message is empty"),
    "message of another library": (
        lambda: runner().run_sync([{"role": "user", "content": "hello"}]),
        "pass the text alone; earlier messages are in the session",
    ),
    "list of texts": (lambda: runner().run_sync(["a", "b"]), "a list of str: join them"),
    "number as message": (lambda: runner().run_sync(3), 'a str such as "hello"'),
    "session": (lambda: runner().run_sync("hello", session="s"), "use session_id="),
    "session id that is a number": (
        lambda: runner().run_sync("hello", session_id=3),
        "session_id must be a non-empty str, got 3",
    ),
    "run without await": (not_awaited, r"write `result = await runner.run\(...\)`"),
    "async for over run": (iterate_run, r"async for event in runner.stream"),
    "await of stream": (await_stream, r"async for event in runner.stream"),
    "for over stream": (iterate_stream_without_async, r"async for event in runner.stream"),
    "stream without message": (stream_without_message, r"stream\(message\)"),
    "resume without a pause": (lambda: runner().resume_sync(), r"A message starts a turn"),
    "approval of something else": (lambda: approve(3), "a request of result.requests"),  # type: ignore[arg-type]
    "content of a result": (lambda: runner().run_sync("hello").content, "use .text"),
    "final_output of a result": (lambda: runner().run_sync("hello").final_output, "use .output"),
    # Names
    "misspelled class": (lambda: ANY.LLMAgent, "did you mean LlmAgent"),
    "transposed letters": (lambda: ANY.Agnet, "did you mean Agent"),
    "misspelled setting": (
        lambda: ANY.ProviderModel("openai:gpt-5.2", temprature=1),
        "'temprature': use temperature=",
    ),
    "key as setting": (
        lambda: ANY.ProviderModel("openai:gpt-5.2", api_key="x"),
        "api_key_env names",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_error_names_the_problem_and_the_fix(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    make, advice = MISTAKES[mistake]
    with pytest.raises((AccError, AttributeError), match=advice) as caught:
        make()
    assert "s3cret" not in str(caught.value)


def test_text_of_a_part_may_be_given_without_its_name() -> None:
    assert acc.Part("hello") == acc.Part(text="hello")


def test_tools_may_be_methods_and_async_functions() -> None:
    built = agent(tools=[Search().find, fetch])
    assert sorted(built.own_tools) == ["fetch", "find"]


def test_error_of_a_store_that_is_no_database_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no database " * 100)
    with pytest.raises(AccError, match="notes.txt: it is not an SQLite database; choose another"):
        runner(store=str(file)).run_sync("hello")


def test_explained_attributes_are_not_offered_for_completion() -> None:
    assert "invoke" not in dir(agent())
    assert "run_sync" in dir(agent())
    assert not hasattr(agent(), "invoke")
