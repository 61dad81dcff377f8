"""Microsoft Agent Framework: agents inside executors of workflows that are built once."""

from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    Executor,
    FunctionInvocationLayer,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    handler,
)

from peers import stub

DISTRIBUTION = "agent-framework-core"


class StubClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Answers, or with `tool` asks for the tool every other time."""

    def __init__(self, *, tool: bool = False) -> None:
        super().__init__()
        self._tool = tool
        self._calls = False

    async def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **named: Any
    ) -> ChatResponse[Any]:
        stub.asked(len(messages))
        self._calls = self._tool and not self._calls
        content = Content.from_text(stub.ANSWER)
        if self._calls:
            content = Content.from_function_call("call-1", stub.TOOL, arguments={"city": stub.CITY})
        return ChatResponse(messages=[Message(role="assistant", contents=[content])])


def _agent() -> Agent[Any]:
    return Agent(StubClient(), instructions=stub.INSTRUCTION)


def one_turn() -> stub.Turn:
    agent = _agent()

    async def turn() -> str:
        return (await agent.run(stub.QUESTION)).text

    return turn


def tool_turn() -> stub.Turn:
    agent = Agent(StubClient(tool=True), instructions=stub.INSTRUCTION, tools=[stub.weather])

    async def turn() -> str:
        return (await agent.run(stub.QUESTION)).text

    return turn


class Step(Executor):
    """Runs its agent and passes the answer on."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self.agent = _agent()

    @handler
    async def run_agent(self, message: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message((await self.agent.run(message)).text)


class LastStep(Executor):
    """Runs its agent and gives the answer out."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self.agent = _agent()

    @handler
    async def run_agent(self, message: str, ctx: WorkflowContext[str, str]) -> None:
        await ctx.yield_output((await self.agent.run(message)).text)


class Start(Executor):
    """Passes the question to all branches."""

    @handler
    async def start(self, message: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(message)


class Join(Executor):
    """Gives the branches' answers out."""

    @handler
    async def join(self, messages: list[str], ctx: WorkflowContext[str, str]) -> None:
        await ctx.yield_output("\n".join(messages))


class Again(Executor):
    """Runs its agent, five times in all."""

    def __init__(self) -> None:
        super().__init__(id="again")
        self.agent = _agent()
        self.rounds = 0

    @handler
    async def run_agent(self, message: str, ctx: WorkflowContext[str, str]) -> None:
        text = (await self.agent.run(message)).text
        self.rounds += 1
        if self.rounds % 5:
            await ctx.send_message(text)
        else:
            await ctx.yield_output(text)


def _turn(workflow: Any) -> stub.Turn:
    async def turn() -> str:
        return str((await workflow.run(stub.QUESTION)).get_outputs()[-1])

    return turn


def sequential() -> stub.Turn:
    steps = [Step("a"), Step("b"), LastStep("c")]
    builder = WorkflowBuilder(start_executor=steps[0], output_from=[steps[2]])
    return _turn(builder.add_chain(steps).build())


def parallel() -> stub.Turn:
    start, join = Start(id="start"), Join(id="join")
    steps = [Step(name) for name in "abc"]
    builder = WorkflowBuilder(start_executor=start, output_from=[join])
    return _turn(builder.add_fan_out_edges(start, steps).add_fan_in_edges(steps, join).build())


def loop() -> stub.Turn:
    again = Again()
    builder = WorkflowBuilder(start_executor=again, output_from=[again])
    return _turn(builder.add_edge(again, again).build())


def session() -> stub.Talk:
    agent = _agent()
    session = agent.create_session()

    async def turn(message: str) -> str:
        return (await agent.run(message, session=session)).text

    return turn
