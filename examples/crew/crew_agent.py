"""A crew of CrewAI behind A2A, with ACC memory in the hooks of its model calls.

It needs an environment of its own, because CrewAI and the extra `mcp` of acc require different
versions of MCP:

    python -m venv crew && crew/bin/pip install crewai 'acc-agents[a2a]'
    cd examples/crew && CREW_MODEL=openai/gpt-5.2 ../../crew/bin/acc serve crew_agent:agent

Without CREW_MODEL a scripted model answers, which repeats what the memory and the user said.
Agents and commands of any other environment call the crew:

    acc call http://127.0.0.1:8000 "My name is Ana." --context first
"""

import os
import re
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task

from acc import FunctionAgent
from acc.frameworks.crewai import AccMemory


class ScriptedLlm(BaseLLM):
    """Answers with the newest earlier statement that shares a word with the request."""

    def call(self, messages: Any, *arguments: Any, **options: Any) -> str:
        """Return a sentence of the messages."""
        *earlier, prompt = [message["content"] for message in messages[1:]]
        request = prompt.partition("Request:")[2].partition("\n")[0]
        facts = [fact for text in earlier for fact in re.findall(r"fact\((.*?)\)", text)]
        wanted = words(request) - {"what", "is", "my", "the"}
        found = [fact for fact in facts if wanted & words(fact)]
        return f"Final Answer: {found[-1] if found else 'Noted.'}"


def words(text: str) -> set[str]:
    """Return the words of a text; of Japanese text, the runs of kanji and kana."""
    return set(re.findall(r"[a-z0-9]+|[一-龯]+|[ァ-ヶー]+", text.lower()))


clerk = Agent(
    role="clerk",
    goal="Answer from what you know",
    backstory="You work at a desk.",
    llm=os.environ.get("CREW_MODEL") or ScriptedLlm(model="scripted"),
)
task = Task(description="Request: {message}", expected_output="One sentence", agent=clerk)
crew = Crew(agents=[clerk], tasks=[task])
memory = AccMemory(store=os.environ.get("CREW_STORE", "memory"))


def answer(message: str, session_id: str) -> str:
    """Answer a message of a conversation with the crew."""
    with memory.conversation(session_id, message):
        return str(crew.kickoff(inputs={"message": message}).raw)


agent = FunctionAgent(answer, name="crew", description="A crew that answers questions.")
