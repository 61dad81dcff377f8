"""Agents that run others: one after another, at the same time, or again and again."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Literal

from acc.application.agents.base import BaseAgent, check_count, refuse_unless
from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RUN_LEVEL_ERRORS, RunPaused, RunRejected
from acc.application.runtime.run import Branch
from acc.application.runtime.state import MergeRule, check_merge_rule, merge_branches
from acc.domain.errors import AccError, BranchFailed, InvalidTree
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import EventKind


@dataclass(kw_only=True, eq=False)
class SequentialAgent(BaseAgent):
    """Runs its sub-agents in order; each hears what those before it said and wrote."""

    def check(self) -> None:
        """Refuse what cannot work."""
        check_has_steps(self)

    async def run(self, ctx: RunContext) -> None:
        """Run them; the last words are the answer. A step that escalates ends the sequence."""
        for agent in self.sub_agents:
            done = await ctx.run_agent(agent)
            ctx.text = done.text or ctx.text
            if done.escalated:
                ctx.escalated = True
                return


@dataclass(kw_only=True, eq=False)
class LoopAgent(BaseAgent):
    """Repeats its sub-agents until one escalates or calls `exit_loop`, at most so many times."""

    max_iterations: int | None = None

    def check(self) -> None:
        """Refuse what cannot work."""
        check_has_steps(self)
        bound = self.max_iterations
        if not isinstance(bound, int) or isinstance(bound, bool) or bound < 1:
            raise InvalidTree(
                f"loop {self.name!r} needs max_iterations of at least 1, not {bound!r}: nothing "
                "else is sure to end it"
            )

    async def run(self, ctx: RunContext) -> None:
        """Repeat; whoever escalates ends this loop and no other. The last words are its answer."""
        for _ in range(self.max_iterations or 0):
            for agent in self.sub_agents:
                done = await ctx.run_agent(agent)
                ctx.text = done.text or ctx.text
                if done.escalated:
                    return


@dataclass(kw_only=True, eq=False)
class ParallelAgent(BaseAgent):
    """Runs its sub-agents at the same time, each in a branch with a state of its own.

    Every branch starts from the state as it is. When all are done, what they wrote is joined; a key
    that two of them wrote is an error, unless `merge` names a rule for it: first, last, list, sum
    (of what each added), total (of what each wrote), union, or a function. With
    `on_error="collect"` a branch that fails is put on record and the others count; otherwise it
    cancels them, and so does what ends the run, such as its budget.
    `max_concurrency` limits how many run at once.
    """

    merge: Mapping[str, MergeRule] = field(default_factory=dict)
    on_error: Literal["cancel", "collect"] = "cancel"
    max_concurrency: int | None = None

    def check(self) -> None:
        """Refuse what cannot work."""
        check_has_steps(self)
        check_branching(self, self.merge, self.on_error)
        check_count(self, "max_concurrency")

    async def run(self, ctx: RunContext) -> None:
        """Run the branches and join them; the answer holds all of theirs, by name."""
        branches = Branches(
            ctx, merge=self.merge, on_error=self.on_error, most=self.max_concurrency
        )
        done = await branches.run(self.sub_agents)
        if not done and branches.error is not None:
            raise branches.error
        ctx.text = "\n".join(f"{name}: {context.text}" for name, context in done.items())


def check_has_steps(agent: BaseAgent) -> None:
    """Refuse a workflow with nothing in it."""
    if not agent.sub_agents:
        raise InvalidTree(f"{agent.name!r} has no sub_agents to run")


def check_branching(agent: BaseAgent, merge: Mapping[str, MergeRule], on_error: str) -> None:
    """Refuse a way to join branches that does not exist."""
    refuse_unless(isinstance(merge, Mapping), agent, "merge", "a mapping from keys to rules")
    for rule in merge.values():
        check_merge_rule(rule)
    if on_error not in ("cancel", "collect"):
        raise InvalidTree(f'{agent.name!r}: on_error is "cancel" or "collect"')


class Branches:
    """Runs agents at the same time, each on a line of its own, and joins what they wrote."""

    def __init__(
        self,
        ctx: RunContext,
        *,
        merge: Mapping[str, MergeRule],
        on_error: str = "cancel",
        most: int | None = None,
    ) -> None:
        self._ctx = ctx
        self._merge = merge
        self._collect = on_error == "collect"
        self._gate = None if most is None else asyncio.Semaphore(most)
        self._requests: list[InputRequest] = []
        self._rejected: RunRejected | None = None
        self._errors: dict[str, BranchFailed] = {}

    async def run(self, agents: Sequence[BaseAgent]) -> dict[str, RunContext]:
        """Return the finished contexts by the agents' names, without those that failed.

        A branch that pauses lets the others finish first: what they did is on record then.
        """
        ctx = self._ctx
        contexts = [
            (ctx.child(agent, branch=self._branch_of(agent)), ctx.fork(f"{agent.name}.fault"))
            for agent in agents
        ]
        done: dict[str, RunContext] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for context, fault in contexts:
                    group.create_task(self._branch(context, fault, done))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        if self._rejected is not None:
            raise self._rejected
        if self._requests:
            raise RunPaused(self._requests)
        return self._joined(agents, done)

    @property
    def error(self) -> AccError | None:
        """Return the first failure that was collected."""
        return next(iter(self._errors.values()), None)

    async def _branch(
        self, context: RunContext, fault: RunContext, done: dict[str, RunContext]
    ) -> None:
        name = context.agent.name
        recorded = fault.next_recorded()
        if recorded is not None:
            self._errors[name] = BranchFailed(name, recorded.text)
            context.run.discard(context.current_branch, before=recorded.seq)
            return
        async with AsyncExitStack() as stack:
            if self._gate is not None:
                await stack.enter_async_context(self._gate)
            try:
                await context.agent.execute(context)
                done[name] = await self._followed(context)
            except RunPaused as pause:
                self._requests += pause.requests
            except RunRejected as rejected:
                self._rejected = rejected
            except AccError as error:
                if not self._collect or isinstance(error, RUN_LEVEL_ERRORS):
                    raise
                self._errors[name] = BranchFailed(name, str(error))
                await report_fault(fault, context.agent, error, branch=context.branch)

    async def _followed(self, context: RunContext) -> RunContext:
        """Follow the transfers out of a branch's agent."""
        message = context.message
        while (target := context.transfer_to) is not None:
            context = await self._ctx.run_transfer(
                context, target, branch=context.current_branch, message=message
            )
        return context

    def _branch_of(self, agent: BaseAgent) -> Branch:
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

    def _joined(
        self, agents: Sequence[BaseAgent], done: dict[str, RunContext]
    ) -> dict[str, RunContext]:
        ctx = self._ctx
        ordered = {agent.name: done[agent.name] for agent in agents if agent.name in done}
        written = [
            (name, context.current_branch.state.written()) for name, context in ordered.items()
        ]
        ctx.current_branch.state.write(
            *merge_branches(ctx.current_branch.state, written, self._merge)
        )
        for context in ordered.values():
            ctx.current_branch.thread += context.current_branch.thread[
                context.current_branch.inherited :
            ]
            ctx.escalated = ctx.escalated or context.escalated
        return ordered


async def report_fault(
    fault: RunContext, agent: BaseAgent, error: AccError, *, branch: str
) -> None:
    """Put on record that an agent failed, and that others go on without it."""
    detail = {"code": error.code, "agent": agent.name, "branch": branch}
    await fault.emit(EventKind.FAULT, parts=text_part(str(error)), detail=detail)
