"""A graph of agents: conditional edges, joins, and cycles that are bounded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from acc.application.agents.base import BaseAgent, called, check_count, refuse_unless
from acc.application.agents.workflow import Branches, check_branching, check_has_steps, report_fault
from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RUN_LEVEL_ERRORS
from acc.application.runtime.state import MergeRule
from acc.domain.errors import (
    AccError,
    BranchFailed,
    BudgetExceeded,
    GraphStuck,
    InvalidTree,
    ReplayMismatch,
)
from acc.domain.value_objects.event import Event, EventKind

#: Whether an edge is taken, told from the state.
Condition = Callable[[Mapping[str, Any]], Any]
#: The contexts of nodes that have finished, by name, and a failure that was collected.
Step = tuple[Mapping[str, RunContext], AccError | None]


@dataclass(frozen=True, slots=True)
class Edge:
    """Leads from one node to another, if `when` holds for the state.

    An edge with `otherwise`, which has no condition, is taken where no other edge of its node is.
    """

    source: str
    target: str
    when: Condition | None = None
    otherwise: bool = False


@dataclass(kw_only=True, eq=False)
class GraphAgent(BaseAgent):
    """Runs agents along edges, from `start` until no edge leads on.

    The nodes that are due run at the same time, each in a branch, as in a ParallelAgent. A node in
    `joins` waits until all edges into it have been taken; with `on_error="collect"` it goes on
    without those that were lost by a failure, and only a failure after which nothing can go on
    ends the graph. A graph with a cycle needs `max_steps`.
    """

    edges: Sequence[Edge | tuple[str, str] | tuple[str, str, Condition]] = ()
    start: str = ""
    joins: Sequence[str] = ()
    max_steps: int | None = None
    merge: Mapping[str, MergeRule] = field(default_factory=dict)
    on_error: Literal["cancel", "collect"] = "cancel"
    _edges: tuple[Edge, ...] = field(init=False, repr=False)

    def check(self) -> None:
        """Refuse what cannot work."""
        check_has_steps(self)
        for name in ("edges", "joins"):
            given = getattr(self, name)
            is_list = isinstance(given, Iterable) and not isinstance(given, str)
            refuse_unless(is_list, self, name, "a list")
        self._edges = tuple(self._edge(edge) for edge in self.edges)
        self.start = self.start or self.sub_agents[0].name
        names = {agent.name for agent in self.sub_agents}
        for edge in self._edges:
            for end in (edge.source, edge.target):
                if end not in names:
                    raise InvalidTree(
                        f"graph {self.name!r}: the edge {edge.source} → {edge.target} leads to "
                        f"{end!r}, which is none of its nodes ({', '.join(sorted(names))})"
                    )
        for name in (self.start, *self.joins):
            if name not in names:
                raise InvalidTree(f"graph {self.name!r}: {name!r} is none of its nodes")
        check_branching(self, self.merge, self.on_error)
        self._check_reach(names)
        self._check_cycles(names)
        self._check_joins()

    def _edge(self, given: Edge | tuple[Any, ...]) -> Edge:
        try:
            edge = given if isinstance(given, Edge) else Edge(*given)
        except TypeError:
            edge = None
        if edge is None or isinstance(given, str):
            raise InvalidTree(
                f"graph {self.name!r}: {given!r} is no edge: give source, target and, if you like, "
                "a condition"
            )
        if edge.when is not None and not callable(edge.when):
            raise InvalidTree(
                f"graph {self.name!r}: the condition of the edge {edge.source} → {edge.target} is "
                f"a function of the state, not {edge.when!r}"
            )
        if edge.when is not None and edge.otherwise:
            raise InvalidTree(
                f"graph {self.name!r}: the edge {edge.source} → {edge.target} has both a condition "
                "and otherwise, which asks for none: give it one of the two"
            )
        return edge

    @property
    def all_edges(self) -> tuple[Edge, ...]:
        """Return the edges as they were understood."""
        return self._edges

    async def run(self, ctx: RunContext) -> None:
        """Run what is due, follow the edges, and again; the answer is that of the last step."""
        by_name = {agent.name: agent for agent in self.sub_agents}
        due = [self.start]
        arrived: dict[str, set[str]] = {name: set() for name in self.joins}
        failed: set[str] = set()
        steps = 0
        while due:
            steps += 1
            if self.max_steps is not None and steps > self.max_steps:
                raise BudgetExceeded("max_steps", self.max_steps, ctx.path)
            done, error = await self._step(ctx, [by_name[name] for name in due])
            if ctx.escalated:
                return
            failed = failed.union(due).difference(done)
            due = await self._next(ctx, [name for name in due if name in done], arrived)
            if failed and not due:
                due = self._left_waiting(arrived, failed)
            if error is not None and not done and not due:
                raise error
        waiting = {name: came for name, came in arrived.items() if came}
        if waiting:
            self._report_stuck(waiting)

    async def _step(self, ctx: RunContext, agents: list[BaseAgent]) -> Step:
        """Return the finished contexts of nodes, and a failure that was collected."""
        if len(agents) == 1 and self.on_error == "collect":
            return await self._tried(ctx, agents[0])
        if len(agents) == 1:
            return await self._alone(ctx, agents[0]), None
        branches = Branches(ctx, merge=self.merge, on_error=self.on_error)
        found = await branches.run(agents)
        if found:
            ctx.text = "\n".join(f"{name}: {context.text}" for name, context in found.items())
        return found, branches.error

    async def _alone(self, ctx: RunContext, agent: BaseAgent) -> Mapping[str, RunContext]:
        done = await ctx.run_agent(agent)
        ctx.text = done.text or ctx.text
        ctx.escalated = done.escalated
        return {agent.name: done}

    async def _tried(self, ctx: RunContext, agent: BaseAgent) -> Step:
        """Run a node in no branch of its own: what it wrote before it failed stays written."""
        fault = ctx.fork(f"{agent.name}.alone")
        if (recorded := fault.next_recorded()) is not None:
            await ctx.child(agent).skip_recorded()
            await fault.emit(EventKind.FAULT)
            return {}, BranchFailed(agent.name, recorded.text)
        thread = ctx.current_branch.thread
        heard = len(thread)
        try:
            return await self._alone(ctx, agent), None
        except AccError as error:
            if isinstance(error, RUN_LEVEL_ERRORS):
                raise
            await report_fault(fault, agent, error, branch=ctx.branch)
            lost = {one.name for one in agent.walk()}
            thread[heard:] = [said for said in thread[heard:] if said.author not in lost]
            return {}, error

    async def _next(
        self, ctx: RunContext, finished: Sequence[str], arrived: dict[str, set[str]]
    ) -> list[str]:
        due: dict[str, None] = {}
        for name in finished:
            for target in await self._targets(ctx, name):
                if target not in arrived:
                    due[target] = None
                    continue
                arrived[target].add(name)
                if arrived[target] == self._sources(target):
                    arrived[target] = set()
                    due[target] = None
        return list(due)

    async def _targets(self, ctx: RunContext, name: str) -> list[str]:
        """Return where a node leads; what its conditions said is on record, and said once."""
        leaving = [edge for edge in self._edges if edge.source == name]
        if all(edge.when is None for edge in leaving):
            return await _taken(ctx, leaving)
        scope = ctx.fork(f"{name}.edges")
        recorded = scope.next_recorded()
        if recorded is not None:
            targets = _again(recorded, leaving)
        else:
            targets = await _taken(ctx, leaving)
        await scope.emit(EventKind.ROUTE, detail={"from": name, "to": targets})
        return targets

    def _left_waiting(self, arrived: dict[str, set[str]], failed: set[str]) -> list[str]:
        """Return the joins that go on with what came, as all they wait for was lost by failures."""
        lost = self._reached(failed)
        waiting = [n for n, came in arrived.items() if came and self._sources(n) - came <= lost]
        behind = {n for n in waiting for other in waiting if n in self._reached({other}) - {other}}
        due = [name for name in waiting if name not in behind] or waiting
        arrived.update((name, set()) for name in due)
        return due

    def _report_stuck(self, waiting: Mapping[str, set[str]]) -> None:
        told: list[str] = []
        for name, came in waiting.items():
            missing = sorted(self._sources(name) - came)
            told.append(f"{name!r} waits for {', '.join(missing)}, which can no longer come")
        raise GraphStuck(f"graph {self.name!r} ended, but {'; '.join(told)}")

    def _followers(self, name: str) -> list[str]:
        return [edge.target for edge in self._edges if edge.source == name]

    def _sources(self, name: str) -> set[str]:
        return {edge.source for edge in self._edges if edge.target == name}

    def _reached(self, names: set[str]) -> set[str]:
        """Return these nodes and all that edges lead to from them."""
        reached: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += self._followers(name)
        return reached

    def _check_reach(self, names: set[str]) -> None:
        if lost := sorted(names - self._reached({self.start})):
            raise InvalidTree(
                f"graph {self.name!r}: no edge leads from {self.start!r} to {', '.join(lost)}"
            )

    def _check_cycles(self, names: set[str]) -> None:
        check_count(self, "max_steps")
        if self.max_steps is not None:
            return
        left = set(names)
        while left:
            led_to = {follower for name in left for follower in self._followers(name)}
            ends = {n for n in left if n not in led_to or not left.intersection(self._followers(n))}
            if not ends:
                raise InvalidTree(
                    f"graph {self.name!r} has a cycle through {', '.join(sorted(left))}: give it "
                    "max_steps, or it might never end"
                )
            left -= ends

    def _check_joins(self) -> None:
        for name in self.joins:
            if len({edge.source for edge in self._edges if edge.target == name}) < 2:
                raise InvalidTree(
                    f"graph {self.name!r}: join {name!r} has fewer than two edges into it"
                )


async def _taken(ctx: RunContext, leaving: Sequence[Edge]) -> list[str]:
    """Return where edges lead that are taken as the state is now."""
    taken = [
        edge.target
        for edge in leaving
        if not edge.otherwise and (edge.when is None or await called(edge.when, ctx.state))
    ]
    return taken or [edge.target for edge in leaving if edge.otherwise]


def _again(recorded: Event, leaving: Sequence[Edge]) -> list[str]:
    """Return where edges led that were taken before the run paused."""
    targets = [str(target) for target in recorded.detail["to"]]
    gone = sorted(set(targets) - {edge.target for edge in leaving})
    if gone:
        raise ReplayMismatch(
            f"{recorded.step}: the way to {', '.join(gone)} is on record, and no edge leads there "
            "any more"
        )
    return targets
