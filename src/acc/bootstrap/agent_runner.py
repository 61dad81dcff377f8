"""The runner behind `agent.run(...)`. Imported together with the agents."""

from acc.application.agents.agent_runner import AgentRunner, set_runner_factory
from acc.application.agents.base import BaseAgent


def make_runner(agent: BaseAgent) -> AgentRunner:
    """Return a runner with sessions in memory."""
    from acc.bootstrap.agents import Runner

    return Runner(agent)


set_runner_factory(make_runner)
