"""Who a person of the console talks with: agents, their variants by memory, A2A addresses.

The application name of a session says which partner it belongs to, so it has the same partner after
a restart: `app` is the first agent, `app.NAME` another one, `app@MEMORY` an agent with another
memory, and a URL is an A2A address.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import has_memory
from acc.application.memory.registry import AGENT_MEMORIES, check_agent_memory
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import check_agent_url

_SCHEMES = ("http://", "https://", "grpc://", "grpcs://")
MAX_CACHED_RUNNERS = 64


def is_address(name: str) -> bool:
    """Return True if a name is a URL and not a reference to an agent."""
    return name.startswith(_SCHEMES)


class Partner(NamedTuple):
    """An agent that sessions of `app_name` belong to; `memories` are those it can have."""

    app_name: str
    name: str
    memories: tuple[str, ...]


class PartnerRunners(Protocol):
    """Constructs runners and agents of other servers."""

    def runner(self, agent: BaseAgent, app_name: str, memory: str) -> SessionRunner:
        """Return the runner of an agent; a `memory` replaces those of its tree."""
        ...

    def remote_agent(self, url: str, token: str) -> BaseAgent:
        """Return an agent that passes messages to an A2A address."""
        ...


class Partners:
    """The partners of a console; addresses may be added, their tokens are never stored."""

    def __init__(
        self,
        agents: Sequence[BaseAgent],
        *,
        addresses: Sequence[str] = (),
        app_name: str,
        runners: PartnerRunners,
    ) -> None:
        names = [app_name, *(f"{app_name}.{agent.name}" for agent in agents[1:])]
        self._agents = dict(zip(names, agents, strict=False))
        if len(self._agents) != len(agents):
            raise InvalidInput("the names of the agents must differ")
        self._addresses = tuple(addresses)
        self._factory = runners
        self._tokens: dict[str, str] = {}
        self._cached: dict[str, SessionRunner] = {}

    @property
    def agents(self) -> tuple[BaseAgent, ...]:
        """Return the agents that the console was started with."""
        return tuple(self._agents.values())

    def agent_of(self, app_name: str) -> BaseAgent | None:
        """Return the agent that runs the sessions of an application, None for an address."""
        if is_address(app_name):
            return None
        return self._agents.get(self._split(app_name)[0]) or next(iter(self._agents.values()), None)

    def listed(self) -> tuple[Partner, ...]:
        """Return the agents and addresses that the console was started with."""
        agents = (
            Partner(app_name, agent.name, AGENT_MEMORIES if has_memory(agent) else ())
            for app_name, agent in self._agents.items()
        )
        return (*agents, *(Partner(url, url, ()) for url in self._addresses))

    def add_address(self, url: str, *, token: str = "") -> str:
        """Return the application name for an A2A address; the token is used for its calls."""
        check_agent_url(url)
        if token != self._tokens.get(url, ""):
            self._tokens[url] = token
            self._cached.pop(url, None)
        return url

    def with_memory(self, app_name: str, memory: str) -> str:
        """Return the application name for an agent with another memory."""
        check_agent_memory(memory)
        return f"{app_name}@{memory}"

    def name_of(self, app_name: str) -> str:
        """Return the name of the partner of an application."""
        base, memory = self._split(app_name)
        agent = self._agents.get(base)
        name = base if agent is None else agent.name
        return f"{name} ({memory})" if memory else name

    def runner(self, app_name: str) -> SessionRunner | None:
        """Return the runner of an application, None if no agent of the console can run it.

        Applications of other programs run the first agent. Addresses need no agent, but a console
        without agents and addresses is read-only.
        """
        if not (self._agents or (is_address(app_name) and self._addresses)):
            return None
        if app_name not in self._cached:
            while len(self._cached) >= MAX_CACHED_RUNNERS:
                del self._cached[next(iter(self._cached))]
            self._cached[app_name] = self._new_runner(app_name)
        return self._cached[app_name]

    def _new_runner(self, app_name: str) -> SessionRunner:
        if is_address(app_name):
            check_agent_url(app_name)
            remote = self._factory.remote_agent(app_name, self._tokens.get(app_name, ""))
            return self._factory.runner(remote, app_name, "")
        agent = self.agent_of(app_name)
        assert agent is not None  # noqa: S101 - checked by runner
        return self._factory.runner(agent, app_name, self._split(app_name)[1])

    def _split(self, app_name: str) -> tuple[str, str]:
        """Return the application name of an agent, and the memory that replaces its own."""
        base, _, memory = app_name.rpartition("@")
        return (
            (base, memory) if base in self._agents and memory in AGENT_MEMORIES else (app_name, "")
        )
