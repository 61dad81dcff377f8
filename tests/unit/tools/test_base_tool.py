"""Tools and toolsets of users: subclasses of BaseTool and Toolset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from agent_support import WHO, results, turn

from acc import (
    Agent,
    AgentFailed,
    BaseTool,
    InvalidInput,
    InvalidTree,
    RunContext,
    Runner,
    RunStatus,
    ToolContext,
    Toolset,
    ToolSpec,
    approve,
)
from acc.testing import ScriptedModel, call


class RemoteAgentTool(BaseTool):
    """A tool as in the customer's specification, section 8.2."""

    def __init__(self, name: str, description: str, target_agent_url: str) -> None:
        super().__init__(name=name, description=description)
        self.target_agent_url = target_agent_url

    @property
    def spec(self) -> ToolSpec:
        prompt = {"type": "string", "description": "リモートA2A Agentに送信するプロンプト"}
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters={
                "type": "object",
                "properties": {"user_prompt": prompt},
                "required": ["user_prompt"],
            },
        )

    async def invoke(self, arguments: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        return {
            "url": self.target_agent_url,
            "text": arguments["user_prompt"],
            "id": ctx.function_call_id,
            "messageId": f"msg-{ctx.invocation_id}",
        }


def remote() -> RemoteAgentTool:
    return RemoteAgentTool("query_invoices", "請求書Agentに問い合わせる", "https://finance.example")


async def test_tool_with_spec_and_invoke_can_be_called() -> None:
    model = ScriptedModel(call("query_invoices", user_prompt="未払い?"), "done")
    result = await turn(Agent(name="a", model=model, tools=[remote()]))
    assert model.requests[0].tools == (remote().spec,)
    (content,) = results(result)
    assert content == {
        "url": "https://finance.example",
        "text": "未払い?",
        "id": "call-1",
        "messageId": f"msg-{result.run_id}",
    }


async def test_arguments_are_validated_with_the_schema_of_the_spec() -> None:
    model = ScriptedModel(
        call("query_invoices", prompt="x"), call("query_invoices", user_prompt=3), "done"
    )
    result = await turn(Agent(name="a", model=model, tools=[remote()]))
    missing, wrong = (content["error"] for content in results(result))
    assert missing.startswith("invalid arguments for query_invoices:") and "user_prompt" in missing
    assert "user_prompt: 3 is not of type 'string'" in wrong


@dataclass
class Deps:
    prefix: str


class Greet(BaseTool[Deps]):
    def __init__(self, **options: Any) -> None:
        parameters = {"type": "object", "properties": {"name": {"type": "string"}}}
        super().__init__(name="greet", description="Greet.", parameters=parameters, **options)

    async def invoke(self, arguments: Mapping[str, Any], ctx: ToolContext[Deps]) -> str:
        ctx.state["greeted"] = arguments["name"]
        return f"{ctx.deps.prefix} {arguments['name']}"


async def test_tool_has_options_parameters_and_typed_deps() -> None:
    model = ScriptedModel(call("greet", name="Mio"), "done")
    runner = Runner(Agent[Deps, str](name="a", model=model, tools=[Greet(confirm=True)]))
    paused = await runner.run(**WHO, message="go", deps=Deps("Hi"))
    assert paused.status is RunStatus.INPUT_REQUIRED
    edited = approve(paused.requests[0].id, arguments={"name": "Rin"})
    done = await runner.resume(**WHO, answers=edited, deps=Deps("Hello"))
    assert results(done) == ["Hello Rin"]
    assert done.state["greeted"] == "Rin"
    assert model.requests[0].tools[0].parameters["properties"] == {"name": {"type": "string"}}


async def test_tool_without_parameters_has_an_empty_schema() -> None:
    class Now(BaseTool):
        async def invoke(self, arguments: Mapping[str, Any], ctx: ToolContext) -> str:
            return "noon"

    model = ScriptedModel(call("now"), "done")
    result = await turn(Agent(name="a", model=model, tools=[Now(name="now", description="Time.")]))
    assert results(result) == ["noon"]
    assert model.requests[0].tools[0].parameters == {"type": "object", "properties": {}}


def test_tool_without_invoke_is_rejected_when_it_is_built() -> None:
    class Empty(BaseTool):
        """Do nothing."""

    with pytest.raises(InvalidTree, match=r"Empty must define `async def invoke\(self, arguments"):
        Empty(name="x", description="d")


async def test_tool_with_sync_invoke_names_the_signature() -> None:
    class Sync(BaseTool):
        def invoke(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            return 1

    model = ScriptedModel(call("x"), "done")
    result = await turn(Agent(name="a", model=model, tools=[Sync(name="x", description="d")]))
    assert "Sync.invoke must be `async def invoke(self, arguments, ctx)`" in str(results(result))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "not valid"}, "not a valid name for a tool"),
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"retries": -1}, "retries must be an integer"),
        ({"confirm": 3}, "confirm must be"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTree, match=message):
        BaseTool(**{"name": "x", "description": "d", **options})


class Growing(Toolset[Deps]):
    """Offers a second tool after the first model call."""

    name = "growing"

    def __init__(self) -> None:
        self.lists = 0

    async def list_tools(self, ctx: RunContext[Deps]) -> Sequence[Any]:
        self.lists += 1
        assert ctx.deps.prefix == "Hi"

        def twice(n: int) -> int:
            """Double."""
            return 2 * n

        return [Greet(), twice] if self.lists > 1 else [Greet()]


async def test_toolset_may_return_tools_and_functions() -> None:
    model = ScriptedModel(call("greet", name="Mio"), call("twice", n=4), "done")
    agent = Agent[Deps, str](name="a", model=model, tools=[Growing()])
    result = await Runner(agent).run(**WHO, message="go", deps=Deps("Hi"))
    assert results(result) == ["Hi Mio", 8]
    assert [len(request.tools) for request in model.requests] == [1, 2, 2]


async def test_toolset_must_not_use_the_name_of_another_tool() -> None:
    def greet() -> str:
        """Greet."""
        return ""

    class Same(Toolset):
        name = "same"

        async def list_tools(self, ctx: RunContext) -> Sequence[Any]:
            return [Greet()]

    agent = Agent(name="a", model=ScriptedModel("x"), tools=[Same(), greet])
    with pytest.raises(InvalidInput, match="toolset 'same': the agent has another tool .*'greet'"):
        await turn(agent)


async def test_toolset_needs_a_name_and_list_tools() -> None:
    class Nameless(Toolset):
        pass

    class Empty(Toolset):
        name = "empty"

    with pytest.raises(InvalidTree, match="Nameless needs a name"):
        Agent(name="a", tools=[Nameless()])
    with pytest.raises(AgentFailed, match="Empty must define `async def list_tools"):
        await turn(Agent(name="a", model=ScriptedModel("x"), tools=[Empty()]))
