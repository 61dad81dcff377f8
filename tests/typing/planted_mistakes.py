"""Mistakes of users, one per numbered line, that both type checkers must find in strict mode.

Every line that ends with `# mistake N` must have an error, and no other line may have one.
"""

from dataclasses import dataclass

from acc import (
    Agent,
    BaseTool,
    ModelRequest,
    ModelRetry,
    ParallelAgent,
    Part,
    Plugin,
    RunConfig,
    RunContext,
    Runner,
    ToolContext,
    tool,
)


@dataclass
class Weather:
    city: str
    degrees: float


@dataclass
class Deps:
    key: str


@tool
def pay(amount: int, payee: str) -> dict[str, str]:
    """Pay."""
    return {"payee": payee}


@tool
def read(ctx: ToolContext[Deps]) -> str:
    """Read."""
    return ctx.deps.kye  # mistake 1: misspelled attribute of the dependencies


def wrong_parameters(ctx: RunContext, prompt: str) -> None:
    print(ctx.message, prompt)


def one_parameter(ctx: RunContext) -> None:
    print(ctx.message)


def wrong_result(ctx: RunContext, prompt: ModelRequest) -> int:
    return len(prompt.query) + len(ctx.message)


class WrongPlugin(Plugin):
    def before_model_callback(self, ctx: RunContext) -> None:  # mistake 2: wrong override
        print(ctx.message)


async def main(weather: Agent[Deps, Weather]) -> None:
    pay(amount="12", payee="Sato")  # mistake 3: wrong call of a tool
    pay(amount=12)  # mistake 4: missing argument of a tool
    Agent(name="a", before_model_callback=wrong_parameters)  # mistake 5: wrong callback
    Agent(name="a", before_model_callback=[one_parameter])  # mistake 6: wrong callback in a list
    Agent(name="a", before_model_callback=wrong_result)  # mistake 7: wrong result of a callback
    Agent(name="a", memory="akk")  # mistake 8: misspelled memory
    Agent(name="a", output_type=3)  # mistake 9: an output type that is no type
    Agent(name="a", instrction="x")  # mistake 10: misspelled option
    Agent(name="a", tools=[3])  # mistake 11: a tool that is no function
    Agent[Deps](name="a", instruction=lambda ctx: ctx.dps.key)  # mistake 12: misspelled context
    text = await Runner(Agent(name="a")).run(user_id="u", session_id="s", message="hi")
    print(text.output / 2)  # mistake 13: a text output used as a number
    runner = Runner(weather)
    result = await runner.run(user_id="u", session_id="s", message="hi", deps=Deps("k"))
    print(result.output.degres)  # mistake 14: misspelled field of the output
    await runner.run(user_id="u", session_id="s", message="hi", deps="k")  # mistake 15: wrong deps
    print(runner.run(user_id="u", session_id="s", message="hi").output)  # mistake 16: no await
    await runner.run(user_id="u", session_id="s", text="hi")  # mistake 17: wrong argument
    RunConfig(max_llm_calls="3")  # mistake 18: a text instead of a number
    Agent(name="a", sub_agents=[pay])  # mistake 19: a tool as a sub-agent
    BaseTool(name="x")  # mistake 20: a tool without a description
    weather.run_sync("hi", deps="k")  # mistake 21: wrong deps of an agent
    print(weather.run_sync("hi").output.degres)  # mistake 22: misspelled field of the output
    print((await weather.run("hi")).output.degres)  # mistake 23: misspelled field of the output
    runner.run_sync("hi", sesion_id="s")  # mistake 24: misspelled option of a run
    Part(raw="text")  # mistake 25: a text instead of bytes
    Part(txt="hi")  # mistake 26: misspelled field of a part
    ModelRequest(mesages=())  # mistake 27: misspelled field of a request
    ParallelAgent(name="p", sub_agents=[], merge={"k": "avg"})  # mistake 28: unknown merge rule
    print(ModelRetry(3))  # mistake 29: a number instead of a message
    print((await runner.state(), runner.sessions.list()[0]))  # mistake 30: no await
