"""GraphAgent: agents on a graph with conditional edges, joins and bounded cycles."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from acc.application.agents.base import BaseAgent, StandardAgent, check_count, require
from acc.application.agents.callbacks import maybe_await
from acc.application.agents.workflow import (
    Branches,
    branch_texts,
    check_branching,
    check_has_sub_agents,
    record_failure,
)
from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RUN_LEVEL_ERRORS
from acc.application.runtime.state import MergeRule
from acc.application.runtime.type_variables import (
    AnyDepsT,
    AnyOutputT,
)
from acc.domain.call_options import accepts, explains_call
from acc.domain.errors import (
    AccError,
    BranchFailed,
    BudgetExceeded,
    GraphStuck,
    InvalidInput,
    InvalidTree,
    ReplayMismatch,
)
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.event import Event, EventKind

#: Decides from the state whether an edge is taken: if the result, or what it awaits, is true.
Condition: TypeAlias = Callable[[Mapping[str, JsonData]], object]
#: The contexts of finished nodes by name, and a collected error.
StepResult = tuple[Mapping[str, RunContext], AccError | None]


@explains_call(
    {
        **dict.fromkeys(("from", "from_", "start"), "source"),
        **dict.fromkeys(("to", "end"), "target"),
        **dict.fromkeys(("condition", "if", "if_", "guard"), "when"),
        **dict.fromkeys(("default", "else", "else_"), "otherwise"),
    }
)
@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one node to another, taken if `when(state)` is true.

    An edge with `otherwise` has no condition and is taken if no other edge of its node is taken.
    """

    source: str
    target: str
    when: Condition | None = None
    otherwise: bool = False


@dataclass(kw_only=True, eq=False)
class GraphAgent(StandardAgent[AnyDepsT, AnyOutputT]):
    """Runs agents along edges, from `start` until no edge is taken.

    Nodes that are due in the same step run concurrently, each in a branch, as in a ParallelAgent. A
    node in `joins` waits until all its incoming edges have been taken. With `on_error="collect"` a
    join does not wait for nodes that cannot run because of a failure, and a failure ends the graph
    only if no other node can run. A graph with a cycle needs `max_steps`.
    """

    edges: Sequence[Edge | tuple[str, str] | tuple[str, str, Condition]] = ()
    start: str = ""
    joins: Sequence[str] = ()
    max_steps: int | None = None
    merge: Mapping[str, MergeRule] = field(default_factory=dict)
    on_error: Literal["cancel", "collect"] = "cancel"
    _edges: tuple[Edge, ...] = field(init=False, repr=False)

    def check(self) -> None:
        """Raise InvalidTree if an option is invalid."""
        check_has_sub_agents(self)
        for option in ("edges", "joins"):
            value = getattr(self, option)
            is_list = isinstance(value, Iterable) and not isinstance(value, str)
            require(is_list, self, option, "a list")
        self._edges = tuple(self._parse_edge(edge) for edge in self.edges)
        self.start = self.start or self.sub_agents[0].name
        names = {agent.name for agent in self.sub_agents}
        for edge in self._edges:
            for node in (edge.source, edge.target):
                if node not in names:
                    raise InvalidTree(
                        f"graph {self.name!r}: edge {edge.source} → {edge.target} uses {node!r}, "
                        f"which is not a node; nodes: {', '.join(sorted(names))}"
                    )
        for name in (self.start, *self.joins):
            if not isinstance(name, str) or name not in names:
                raise InvalidTree(
                    f"graph {self.name!r}: {_names_only(name)!r} is not the name of a node; nodes: "
                    f"{', '.join(sorted(names))}"
                )
        check_branching(self, self.merge, self.on_error)
        self._check_reachable(names)
        self._check_cycles(names)
        for name in self.joins:
            if len(self._sources(name)) < 2:
                raise InvalidTree(
                    f"graph {self.name!r}: join {name!r} needs at least two incoming edges"
                )

    def _parse_edge(self, value: Edge | tuple[Any, ...]) -> Edge:
        try:
            edge = value if isinstance(value, Edge) else Edge(*value)
        except (InvalidInput, TypeError):
            edge = None
        is_named = edge is not None and all(isinstance(n, str) for n in (edge.source, edge.target))
        if edge is None or not is_named or isinstance(value, str):
            raise InvalidTree(
                f"graph {self.name!r}: {_names_only(value)!r} is not an edge; expected Edge, "
                "(source, target) or (source, target, condition), with the names of agents"
            )
        if edge.when is not None and not callable(edge.when):
            raise InvalidTree(
                f"graph {self.name!r}: the condition of edge {edge.source} → {edge.target} must be "
                f"a function of the state, got {edge.when!r}"
            )
        if edge.when is not None and not accepts(edge.when, 1):
            raise InvalidTree(
                f"graph {self.name!r}: the condition of edge {edge.source} → {edge.target} is "
                "called with the state: write def condition(state)"
            )
        if edge.when is not None and edge.otherwise:
            raise InvalidTree(
                f"graph {self.name!r}: edge {edge.source} → {edge.target} has a condition and "
                "otherwise=True; set only one of them"
            )
        return edge

    @property
    def all_edges(self) -> tuple[Edge, ...]:
        """Return all edges as Edge objects."""
        return self._edges

    async def _run(self, ctx: RunContext) -> None:
        """Run the due nodes and follow their edges; the answer is that of the last step."""
        nodes = {agent.name: agent for agent in self.sub_agents}
        due = [self.start]
        arrived: dict[str, set[str]] = {name: set() for name in self.joins}
        failed: set[str] = set()
        steps = 0
        while due:
            steps += 1
            if self.max_steps is not None and steps > self.max_steps:
                raise BudgetExceeded("max_steps", self.max_steps, ctx.path)
            finished, error = await self._run_step(ctx, [nodes[name] for name in due])
            if ctx.escalated:
                return
            failed = failed.union(due).difference(finished)
            due = await self._due_nodes(ctx, [name for name in due if name in finished], arrived)
            if failed and not due:
                due = self._release_joins(arrived, failed)
            if error is not None and not finished and not due:
                raise error
        waiting = [
            f"{name!r} waits for {', '.join(sorted(self._sources(name) - sources))}"
            for name, sources in arrived.items()
            if sources
        ]
        if waiting:
            raise GraphStuck(
                f"graph {self.name!r} ended with joins that cannot continue: {'; '.join(waiting)}"
            )

    async def _run_step(self, ctx: RunContext, agents: list[BaseAgent]) -> StepResult:
        if len(agents) == 1 and self.on_error == "collect":
            return await self._run_single_collecting(ctx, agents[0])
        if len(agents) == 1:
            return await self._run_single(ctx, agents[0]), None
        branches = Branches(ctx, merge=self.merge, on_error=self.on_error)
        finished = await branches.run(agents)
        if finished:
            ctx.text = branch_texts(finished)
        return finished, branches.error

    async def _run_single(self, ctx: RunContext, agent: BaseAgent) -> Mapping[str, RunContext]:
        child = await ctx.run_agent(agent)
        ctx.adopt(child)
        ctx.escalated = child.escalated
        return {agent.name: child}

    async def _run_single_collecting(self, ctx: RunContext, agent: BaseAgent) -> StepResult:
        """Run a node without a branch; state written before a failure is not reverted."""
        error_scope = ctx.fork(f"{agent.name}.alone")
        if (recorded := error_scope.next_recorded()) is not None:
            await ctx.child(agent).skip_recorded()
            await error_scope.emit(EventKind.FAULT)
            return {}, BranchFailed(agent.name, recorded.text)
        thread = ctx.current_branch.thread
        thread_length = len(thread)
        try:
            return await self._run_single(ctx, agent), None
        except AccError as error:
            if isinstance(error, RUN_LEVEL_ERRORS):
                raise
            await record_failure(error_scope, agent, error, branch=ctx.branch)
            authors = {found.name for found in agent.walk()}
            thread[thread_length:] = [
                message for message in thread[thread_length:] if message.author not in authors
            ]
            return {}, error

    async def _due_nodes(
        self, ctx: RunContext, finished: Sequence[str], arrived: dict[str, set[str]]
    ) -> list[str]:
        """Return the targets of finished nodes; a join is due once all sources have arrived."""
        due: dict[str, None] = {}
        for name in finished:
            for target in await self._choose_targets(ctx, name):
                if target not in arrived:
                    due[target] = None
                    continue
                arrived[target].add(name)
                if arrived[target] == self._sources(target):
                    arrived[target] = set()
                    due[target] = None
        return list(due)

    async def _choose_targets(self, ctx: RunContext, name: str) -> list[str]:
        """Return the targets of the edges that are taken; the result of conditions is recorded."""
        edges = [edge for edge in self._edges if edge.source == name]
        if all(edge.when is None for edge in edges):
            return await _evaluate_edges(ctx, edges)
        scope = ctx.fork(f"{name}.edges")
        recorded = scope.next_recorded()
        if recorded is None:
            targets = await _evaluate_edges(ctx, edges)
        else:
            targets = _recorded_targets(recorded, edges)
        await scope.emit(EventKind.ROUTE, detail={"from": name, "to": targets})
        return targets

    def _release_joins(self, arrived: dict[str, set[str]], failed: set[str]) -> list[str]:
        """Return the joins whose missing sources cannot run because of failed nodes."""
        unreachable = self._descendants(failed)
        waiting = [
            name
            for name, sources in arrived.items()
            if sources and self._sources(name) - sources <= unreachable
        ]
        downstream = {
            name
            for name in waiting
            for other in waiting
            if name in self._descendants({other}) - {other}
        }
        due = [name for name in waiting if name not in downstream] or waiting
        arrived.update((name, set()) for name in due)
        return due

    def _targets(self, name: str) -> list[str]:
        return [edge.target for edge in self._edges if edge.source == name]

    def _sources(self, name: str) -> set[str]:
        return {edge.source for edge in self._edges if edge.target == name}

    def _descendants(self, names: set[str]) -> set[str]:
        """Return these nodes and all nodes that can be reached from them."""
        reached: set[str] = set()
        remaining = list(names)
        while remaining:
            name = remaining.pop()
            if name not in reached:
                reached.add(name)
                remaining += self._targets(name)
        return reached

    def _check_reachable(self, names: set[str]) -> None:
        if unreachable := sorted(names - self._descendants({self.start})):
            raise InvalidTree(
                f"graph {self.name!r}: {', '.join(unreachable)} cannot be reached from "
                f"{self.start!r}; add edges or remove the nodes"
            )

    def _check_cycles(self, names: set[str]) -> None:
        check_count(self, "max_steps")
        if self.max_steps is not None:
            return
        remaining = set(names)
        while remaining:
            targets = {target for name in remaining for target in self._targets(name)}
            ends = {
                name
                for name in remaining
                if name not in targets or not remaining.intersection(self._targets(name))
            }
            if not ends:
                raise InvalidTree(
                    f"graph {self.name!r} has a cycle through {', '.join(sorted(remaining))}; set "
                    "max_steps, because the cycle might not end"
                )
            remaining -= ends


async def _evaluate_edges(ctx: RunContext, edges: Sequence[Edge]) -> list[str]:
    """Return the targets of the edges that are taken in the current state."""
    targets = [
        edge.target
        for edge in edges
        if not edge.otherwise and (edge.when is None or await maybe_await(edge.when, ctx.state))
    ]
    return targets or [edge.target for edge in edges if edge.otherwise]


def _recorded_targets(recorded: Event, edges: Sequence[Edge]) -> list[str]:
    """Return the targets that were chosen before the run paused."""
    targets = [str(target) for target in recorded.detail["to"]]
    missing = sorted(set(targets) - {edge.target for edge in edges})
    if missing:
        raise ReplayMismatch(
            f"{recorded.step}: the recorded edge to {', '.join(missing)} no longer exists"
        )
    return targets


def _names_only(value: object) -> object:
    """Return a value for an error, with the names of agents in place of the agents."""
    if isinstance(value, BaseAgent):
        return value.name
    return tuple(map(_names_only, value)) if isinstance(value, tuple) else value
