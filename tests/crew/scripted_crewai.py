"""A crew of CrewAI with a scripted model, in the form of the suite of memories."""

import asyncio
from typing import Any

import script
from crewai import Agent, BaseLLM, Crew, Task
from recording import Sent

from acc.frameworks.crewai import AccMemory

REQUESTS: list[list[Sent]] = []


class ScriptedLlm(BaseLLM):
    """Answers as the script says, and keeps the requests that it got."""

    def call(self, messages: Any, *arguments: Any, **options: Any) -> str:
        REQUESTS.append([Sent(one["role"], one["content"]) for one in messages])
        *earlier, prompt = messages[1:]
        request = prompt["content"].partition("Request: ")[2].partition("\n\nThis is the")[0]
        texts = [script.Message(one["role"], one["content"]) for one in earlier]
        return f"Final Answer: {script.reply([*texts, script.Message('user', request)])}"


class MemoryConversation:
    """A conversation of a crew with ACC memory, or without it for comparison."""

    def __init__(
        self,
        store: str = "memory",
        *,
        session_id: str = "a",
        has_memory: bool = True,
        **options: Any,
    ) -> None:
        self._memory = AccMemory(store=store, **options)
        self._has_memory = has_memory
        self._session_id = session_id
        clerk = Agent(
            role="desk", goal="Help", backstory="A helpful desk.", llm=ScriptedLlm(model="none")
        )
        task = Task(description="Request: {message}", expected_output="An answer", agent=clerk)
        self._crew = Crew(agents=[clerk], tasks=[task])

    async def send(self, text: str) -> str:
        return await asyncio.to_thread(self._kickoff, text)

    def _kickoff(self, text: str) -> str:
        if not self._has_memory:
            return str(self._crew.kickoff(inputs={"message": text}).raw)
        with self._memory.conversation(self._session_id, text):
            return str(self._crew.kickoff(inputs={"message": text}).raw)

    @property
    def requests(self) -> list[list[Sent]]:
        return REQUESTS

    def forget_requests(self) -> None:
        REQUESTS.clear()

    async def close(self) -> None:
        self._memory.close()
