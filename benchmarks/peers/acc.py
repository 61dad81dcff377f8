"""acc through its public API: every turn of a runner is stored in a session, here in memory."""

from itertools import count

from acc import (
    Agent,
    BaseAgent,
    LoopAgent,
    ModelRequest,
    ModelResponse,
    ParallelAgent,
    Runner,
    SequentialAgent,
    ToolCall,
    make_memory,
    tool,
)
from peers import stub

DISTRIBUTION = "acc"


class Model:
    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        stub.asked(len(prompt.memory))
        return ModelResponse(text=stub.ANSWER)


class ToolModel:
    def __init__(self) -> None:
        self._calls = False

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        stub.asked(len(prompt.memory))
        self._calls = not self._calls
        if self._calls:
            call = ToolCall(id="call-1", name=stub.TOOL, arguments={"city": stub.CITY})
            return ModelResponse(calls=(call,))
        return ModelResponse(text=stub.ANSWER)


def _agent(name: str = "agent") -> Agent:
    return Agent(name=name, model=Model(), instruction=stub.INSTRUCTION)


def _turn(agent: BaseAgent) -> stub.Turn:
    runner = Runner(agent)
    numbers = count()

    async def turn() -> str:
        session = f"session-{next(numbers)}"
        done = await runner.run(user_id="user", session_id=session, message=stub.QUESTION)
        return done.text

    return turn


def one_turn() -> stub.Turn:
    return _turn(_agent())


def tool_turn() -> stub.Turn:
    tools = [tool(stub.weather)]
    return _turn(Agent(name="agent", model=ToolModel(), instruction=stub.INSTRUCTION, tools=tools))


def sequential() -> stub.Turn:
    return _turn(SequentialAgent(name="all", sub_agents=[_agent(name) for name in "abc"]))


def parallel() -> stub.Turn:
    return _turn(ParallelAgent(name="all", sub_agents=[_agent(name) for name in "abc"]))


def loop() -> stub.Turn:
    return _turn(LoopAgent(name="all", sub_agents=[_agent()], max_iterations=5))


def session() -> stub.Talk:
    return _talk(_agent())


def session_whole() -> stub.Talk:
    """Show the model everything, as the peers do, not the newest 4,096 tokens."""
    return _talk(
        Agent(
            name="agent",
            model=Model(),
            instruction=stub.INSTRUCTION,
            memory=lambda: make_memory("transcript", window=10_000_000),
        )
    )


def session_compressed() -> stub.Talk:
    return _talk(Agent(name="agent", model=Model(), instruction=stub.INSTRUCTION, memory="acc"))


def _talk(agent: Agent) -> stub.Talk:
    runner = Runner(agent)

    async def turn(message: str) -> str:
        return (await runner.run(user_id="user", session_id="long", message=message)).text

    return turn
