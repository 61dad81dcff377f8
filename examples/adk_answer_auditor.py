"""A critic and a reviser in sequence: the structure of the ADK sample `llm-auditor`.

The critic checks an answer with the provider's web search. The reviser returns a corrected answer
and ends it with a mark, which a callback removes. `docs/adk.md` lists what changes in a port.

Run it: python examples/adk_answer_auditor.py
"""

import asyncio

from acc import Agent, ModelResponse, RunContext, Runner, SequentialAgent
from acc.testing import ScriptedModel

END_MARK = "<<end of answer>>"


def remove_end_mark(ctx: RunContext, response: ModelResponse) -> ModelResponse | None:
    """Return the response without the mark and what follows it."""
    if END_MARK not in response.text:
        return None
    return ModelResponse(text=response.text.partition(END_MARK)[0].strip(), usage=response.usage)


critic = Agent(
    name="critic",
    model=ScriptedModel("Claim 1 (boiling point 90 °C): inaccurate. It is 100 °C at sea level."),
    instruction="List the claims of the answer, check each with a search, and give a verdict.",
    native_tools=["web_search"],
)
reviser = Agent(
    name="reviser",
    model=ScriptedModel(f"Water boils at 100 °C at sea level.\n{END_MARK}\nI changed one number."),
    instruction=f"Correct the answer by the verdicts, change little, and end with {END_MARK}",
    after_model_callback=remove_end_mark,
)
root_agent = SequentialAgent(
    name="answer_auditor",
    description="Checks the claims of an answer and corrects them",
    sub_agents=[critic, reviser],
)


async def main() -> None:
    """Audit one answer."""
    result = await Runner(root_agent).run("Q: When does water boil? A: At 90 °C.")
    print(result.text)
    assert result.text == "Water boils at 100 °C at sea level."


if __name__ == "__main__":
    asyncio.run(main())
