"""AdkAgent: what only agents of ADK have, with the real Agent Development Kit."""

import pytest
import scripted_google_adk as scripted
from google.adk.agents import LlmAgent

import acc
from acc.frameworks import AdkAgent


async def test_exception_of_a_tool_is_the_cause() -> None:
    def broken() -> str:
        """Fail."""
        raise ConnectionError("the shop is closed")

    agent = LlmAgent(name="desk", model=scripted.ScriptedModel(requests=[]), tools=[broken])
    with pytest.raises(acc.AgentFailed) as failed:
        await acc.Runner(AdkAgent(agent)).run("break it")
    assert isinstance(failed.value.__cause__, ConnectionError)
