"""ACC memory in a real crew, and the crew behind A2A. `make test-crewai` installs CrewAI."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("crewai")
# CrewAI sends telemetry unless it is told not to.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

from crewai import Agent, BaseLLM, Crew, Task

from acc import InvalidInput
from acc.bootstrap.memory import token_counter
from acc.frameworks.crewai import AccMemory

EXAMPLES = Path(__file__).parents[2] / "examples" / "crew"
ACC = Path(sys.executable).with_name("acc")

pytestmark = pytest.mark.filterwarnings("ignore")  # of CrewAI and its dependencies


class RecordingLlm(BaseLLM):
    """Answers with a fixed text and records what it got."""

    def call(self, messages: Any, *arguments: Any, **options: Any) -> str:
        REQUESTS.append([dict(message) for message in messages])
        return "Final Answer: Noted."


REQUESTS: list[list[dict[str, Any]]] = []


@pytest.fixture
def crew() -> Crew:
    REQUESTS.clear()
    clerk = Agent(role="clerk", goal="Help", backstory="A desk.", llm=RecordingLlm(model="none"))
    task = Task(description="Request: {message}", expected_output="One sentence", agent=clerk)
    return Crew(agents=[clerk], tasks=[task])


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[AccMemory]:
    opened = AccMemory(store=tmp_path / "crew.db", budget=512)
    yield opened
    opened.close()


def say(crew: Crew, memory: AccMemory, message: str, session: str = "s1") -> str:
    with memory.conversation(session, message):
        crew.kickoff(inputs={"message": message})
    return "\n".join(message["content"] for message in REQUESTS[-1])


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("The desk of Ana is B12.", "What is the desk of Ana?"),
        ("アナの机はB12です。", "アナの机はどこですか。"),
    ],
)
def test_a_kickoff_continues_the_conversation(
    crew: Crew, memory: AccMemory, fact: str, question: str
) -> None:
    say(crew, memory, fact)
    assert fact in say(crew, memory, question)
    assert fact not in say(crew, memory, question, session="other")


def test_a_conversation_continues_after_a_restart(crew: Crew, tmp_path: Path) -> None:
    first = AccMemory(store=tmp_path / "crew.db")
    say(crew, first, "The code is 4711.")
    first.close()
    second = AccMemory(store=tmp_path / "crew.db")
    assert "The code is 4711." in say(crew, second, "What is the code?")
    second.close()


def test_calls_outside_a_conversation_are_not_changed(crew: Crew, memory: AccMemory) -> None:
    say(crew, memory, "The code is 4711.")
    crew.kickoff(inputs={"message": "What is the code?"})
    assert len(REQUESTS[-1]) == 2
    assert "4711" not in str(REQUESTS[-1])


def test_the_messages_of_the_crew_are_not_changed(crew: Crew, memory: AccMemory) -> None:
    for _ in range(3):
        say(crew, memory, "The code is 4711.")
    prompts = [one for one in REQUESTS[-1] if "Current Task" in one["content"]]
    assert len(prompts) == 1
    executor = crew.agents[0].agent_executor
    assert not any("<memory>" in str(message) for message in executor.messages)


def message(number: int) -> str:
    return (
        f"About order {number * 37}: the guest of room {number} wants {number % 7 + 1} towels, "
        f"a late breakfast at {number % 12} o'clock and a taxi to the station on day {number}. "
        f"部屋{number}の予約は{number % 28 + 1}日までです。 Please note all of it for the "
        "reception, because the manager wants a complete list of what guests ask for."
    )


def test_input_at_turn_500_is_at_most_a_quarter_larger_than_at_turn_10(
    crew: Crew, memory: AccMemory
) -> None:
    count = token_counter().count
    sizes = [count(say(crew, memory, message(number))) for number in range(1, 501)]
    assert max(sizes[-10:]) <= 1.25 * max(sizes[7:10])


def test_a_failing_memory_fails_the_kickoff(crew: Crew, memory: AccMemory) -> None:
    memory.close()
    with pytest.raises(Exception, match="ACC memory failed"):
        say(crew, memory, "The code is 4711.")
    assert REQUESTS == []


def test_a_block_without_model_calls_is_reported(
    memory: AccMemory, caplog: pytest.LogCaptureFixture
) -> None:
    with memory.conversation("s1", "Hello."):
        pass
    assert "before the first kickoff" in caplog.text


def test_a_conversation_without_words_is_rejected(memory: AccMemory) -> None:
    with pytest.raises(InvalidInput), memory.conversation("s1", " "):
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Serve the crew of the example and return its URL."""
    words = [str(ACC), "serve", "crew_agent:agent", "--port", "0"]
    environment = {**os.environ, "CREW_STORE": str(tmp_path / "crew.db"), "COLUMNS": "200"}
    process = subprocess.Popen(  # noqa: S603 - our own command
        words,
        cwd=EXAMPLES,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield found[0]
                break
        else:
            pytest.fail(seen)
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def call(url: str, text: str) -> str:
    words = [str(ACC), "call", url, text, "--context", "c1"]
    done = subprocess.run(  # noqa: S603 - our own command
        words, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def test_a_served_crew_is_called_over_a2a(url: str) -> None:
    call(url, "The desk of Ana is B12.")
    call(url, "The code is 4711.")
    assert "The desk of Ana is B12." in call(url, "Which desk has Ana?")
