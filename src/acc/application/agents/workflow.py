"""Workflow agents: SequentialAgent, LoopAgent and ParallelAgent."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Literal

from acc.application.agents.base import (
    BaseAgent,
    StandardAgent,
    check_count,
    is_positive_int,
    require,
)
from acc.application.runtime.context import UNSET, RunContext
from acc.application.runtime.interrupts import RUN_LEVEL_ERRORS, RunPaused, RunRejected
from acc.application.runtime.run import Branch
from acc.application.runtime.state import MergeRule, check_merge_rule, merge_branches
from acc.application.runtime.type_variables import AnyDepsT, AnyOutputT
from acc.domain.errors import AccError, BranchFailed, InvalidTree
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import EventKind


@dataclass(kw_only=True, eq=False)
class SequentialAgent(StandardAgent[AnyDepsT, AnyOutputT]):
    """Runs its sub-agents in order. Each receives the answers and state of those before it."""

    sub_agents: "Sequence[BaseAgent[AnyDepsT, AnyOutputT]]" = field(default=())

    def check(self) -> None:
        """Raise InvalidTree if an option is invalid."""
        check_has_sub_agents(self)

    async def _run(self, ctx: RunContext) -> None:
        """Run the sub-agents; the last answer counts. An escalation ends the sequence."""
        for agent in self.sub_agents:
            child = await ctx.run_agent(agent)
            ctx.adopt(child)
            if child.escalated:
                ctx.escalated = True
                return


@dataclass(kw_only=True, eq=False)
class LoopAgent(StandardAgent[AnyDepsT, AnyOutputT]):
    """Repeats its sub-agents until one escalates or calls `exit_loop`, up to max_iterations."""

    sub_agents: "Sequence[BaseAgent[AnyDepsT, AnyOutputT]]" = field(default=())
    max_iterations: int | None = None

    def check(self) -> None:
        """Raise InvalidTree if an option is invalid."""
        check_has_sub_agents(self)
        if not is_positive_int(self.max_iterations):
            raise InvalidTree(
                f"loop {self.name!r} needs max_iterations of at least 1, got "
                f"{self.max_iterations!r}; without it the loop might not end"
            )

    async def _run(self, ctx: RunContext) -> None:
        """Repeat the sub-agents; the last answer counts. An escalation ends only this loop.

        The answer is that of the round that ended the loop. If nothing was said in it, it is the
        answer of the round before. The result of a tool is never the answer.
        """
        for _ in range(self.max_iterations or 0):
            for agent in self.sub_agents:
                child = await ctx.run_agent(agent)
                ctx.adopt(child)
                if child.escalated:
                    return


@dataclass(kw_only=True, eq=False)
class ParallelAgent(StandardAgent[AnyDepsT, Mapping[str, object]]):
    """Runs its sub-agents concurrently, each in a branch with its own state.

    Its answer has one line for each branch, its output is a mapping from names to outputs.

    Every branch starts from the current state. When all branches have finished, their writes are
    merged. Two writes to one key are an error unless `merge` has a rule for the key: first, last,
    list, sum (of the increments), total (of the values), union, or a function. With
    `on_error="collect"` the failure of a branch is recorded and the other branches count. Otherwise
    it cancels them. An error of the whole run, such as an exceeded budget, always cancels them.
    `max_concurrency` limits the number of concurrent branches.
    """

    merge: Mapping[str, MergeRule] = field(default_factory=dict)
    on_error: Literal["cancel", "collect"] = "cancel"
    max_concurrency: int | None = None

    def check(self) -> None:
        """Raise InvalidTree if an option is invalid."""
        check_has_sub_agents(self)
        check_branching(self, self.merge, self.on_error)
        check_count(self, "max_concurrency")

    async def _run(self, ctx: RunContext) -> None:
        """Run and merge the branches; the answer has one line for each branch."""
        branches = Branches(
            ctx, merge=self.merge, on_error=self.on_error, max_concurrency=self.max_concurrency
        )
        finished = await branches.run(self.sub_agents)
        if not finished and branches.error is not None:
            raise branches.error
        ctx.text = branch_texts(finished)
        ctx.output = {
            name: context.text if context.output is UNSET else context.output
            for name, context in finished.items()
        }


def check_has_sub_agents(agent: BaseAgent) -> None:
    """Raise InvalidTree if an agent has no sub-agents."""
    if not agent.sub_agents:
        raise InvalidTree(f"agent {agent.name!r} needs at least one sub-agent")


def check_branching(agent: BaseAgent, merge: Mapping[str, MergeRule], on_error: str) -> None:
    """Raise InvalidTree if a merge rule or `on_error` is invalid."""
    require(isinstance(merge, Mapping), agent, "merge", "a mapping from keys to rules")
    for rule in merge.values():
        check_merge_rule(rule)
    require(on_error in ("cancel", "collect"), agent, "on_error", '"cancel" or "collect"')


def branch_texts(finished: Mapping[str, RunContext]) -> str:
    """Return the answers of branches, one line each, as `name: answer`."""
    return "\n".join(f"{name}: {context.text}" for name, context in finished.items())


class Branches:
    """Runs agents concurrently, each in its own branch, and merges their writes."""

    def __init__(
        self,
        ctx: RunContext,
        *,
        merge: Mapping[str, MergeRule],
        on_error: str = "cancel",
        max_concurrency: int | None = None,
    ) -> None:
        self._ctx = ctx
        self._merge = merge
        self._collect_errors = on_error == "collect"
        self._semaphore = None if max_concurrency is None else asyncio.Semaphore(max_concurrency)
        self._pauses: list[RunPaused] = []
        self._rejection: RunRejected | None = None
        self._errors: dict[str, BranchFailed] = {}

    async def run(self, agents: Sequence[BaseAgent]) -> dict[str, RunContext]:
        """Return the finished contexts by agent name, without those that failed.

        If a branch pauses, the other branches finish first, so that their events are recorded.
        """
        ctx = self._ctx
        contexts = [
            (ctx.child(agent, branch=self._new_branch(agent)), ctx.fork(f"{agent.name}.fault"))
            for agent in agents
        ]
        finished: dict[str, RunContext] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for context, error_scope in contexts:
                    group.create_task(self._run_branch(context, error_scope, finished))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if self._rejection is not None:
            raise self._rejection
        if self._pauses:
            raise RunPaused.join(self._pauses)
        ordered = {agent.name: finished[agent.name] for agent in agents if agent.name in finished}
        self._merge_branches(ordered)
        return ordered

    @property
    def error(self) -> AccError | None:
        """Return the first collected error."""
        return next(iter(self._errors.values()), None)

    async def _run_branch(
        self, context: RunContext, error_scope: RunContext, finished: dict[str, RunContext]
    ) -> None:
        name = context.agent.name
        recorded = error_scope.next_recorded()
        if recorded is not None:
            self._errors[name] = BranchFailed(name, recorded.text)
            context.run.discard(context.current_branch, before=recorded.seq)
            return
        async with AsyncExitStack() as stack:
            if self._semaphore is not None:
                await stack.enter_async_context(self._semaphore)
            try:
                await context.agent.execute(context)
                finished[name] = await self._follow_transfers(context)
            except RunPaused as pause:
                self._pauses.append(pause)
            except RunRejected as rejection:
                self._rejection = rejection
            except AccError as error:
                if not self._collect_errors or isinstance(error, RUN_LEVEL_ERRORS):
                    raise
                self._errors[name] = BranchFailed(name, str(error))
                await record_failure(error_scope, context.agent, error, branch=context.branch)

    async def _follow_transfers(self, context: RunContext) -> RunContext:
        """Run the agents that a branch transfers to and return the last context."""
        message = context.message
        while (target := context.transfer_to) is not None:
            context = await self._ctx.run_transfer(
                context, target, branch=context.current_branch, message=message
            )
        return context

    def _new_branch(self, agent: BaseAgent) -> Branch:
        ctx = self._ctx
        outer = ctx.branch
        if not outer:
            outer = ctx.agent.name
        elif not outer.endswith(f".{ctx.agent.name}"):
            outer = f"{outer}.{ctx.agent.name}"
        return Branch(
            ctx.current_branch.state.branch(),
            name=f"{outer}.{agent.name}",
            path=ctx.path,
            thread=ctx.current_branch.thread,
        )

    def _merge_branches(self, finished: Mapping[str, RunContext]) -> None:
        ctx = self._ctx
        parent = ctx.current_branch
        branches = {name: context.current_branch for name, context in finished.items()}
        writes = [(name, branch.state.written()) for name, branch in branches.items()]
        parent.state.write(*merge_branches(parent.state, writes, self._merge))
        for branch in branches.values():
            parent.thread += branch.thread[branch.inherited :]
            ctx.unpublished += tuple(branch.published)
        ctx.escalated = ctx.escalated or any(context.escalated for context in finished.values())


async def record_failure(
    scope: RunContext, agent: BaseAgent, error: AccError, *, branch: str
) -> None:
    """Record that an agent failed while the run continues without it."""
    detail = {"code": error.code, "agent": agent.name, "branch": branch}
    await scope.emit(EventKind.FAULT, parts=text_part(str(error)), detail=detail)
