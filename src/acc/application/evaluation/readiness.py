"""Checks of the agents of an evaluation before its first turn."""

from collections.abc import Sequence
from typing import Protocol

from acc.application.agents.remote import check_access
from acc.application.evaluation.configuration import PYTHON_REFERENCE, REMOTE_REFERENCE
from acc.domain.errors import (
    AccError,
    AddressRefused,
    InvalidInput,
    PermissionDenied,
    RemoteFailed,
    Unauthenticated,
)
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.evaluation_run import AgentChoice
from acc.ports.outbound.live_evaluation_ports import AgentRunnerPort
from acc.ports.outbound.remote_ports import RemoteAgentPort


class AgentSource(Protocol):
    """Creates the agents of an evaluation."""

    def create(self, name: str, kind: str) -> AgentRunnerPort:
        """Return an agent by its kind, or raise InvalidInput."""
        ...

    def connect(self, name: str, url: str) -> RemoteAgentPort:
        """Return the client of a remote agent."""
        ...

    def token_variable(self, name: str) -> str:
        """Return the environment variable with the token of a remote agent."""
        ...


async def check_agents_ready(agents: Sequence[AgentChoice], source: AgentSource) -> None:
    """Raise an AccError if user code cannot be loaded or a remote agent cannot be called."""
    for agent in agents:
        if agent.kind.startswith(PYTHON_REFERENCE):
            _check_python_agent(agent, source)
        elif agent.kind.startswith(REMOTE_REFERENCE):
            await _check_remote_agent(agent.name, agent.kind.removeprefix(REMOTE_REFERENCE), source)


def _check_python_agent(agent: AgentChoice, source: AgentSource) -> None:
    try:
        source.create(agent.name, agent.kind)
    except InvalidInput as error:
        raise InvalidInput(f"agent {agent.name!r}: {error}") from error


async def _check_remote_agent(name: str, url: str, source: AgentSource) -> None:
    try:
        await check_access(source.connect(name, url))
    except AddressRefused as error:
        text = f"agent {name!r}: {error.naming('--allow here')}"
        raise AddressRefused(text, detail=error.detail) from None
    except (Unauthenticated, PermissionDenied) as error:
        variable = source.token_variable(name)
        raise type(error)(f"agent {name!r}: {error}; set its token in {variable}") from None
    except AccError as error:
        origin = RemoteEndpoint(url=url).origin
        raise RemoteFailed(
            f"agent {name!r}: {error}; `acc card {origin}` shows what answers there"
        ) from None
