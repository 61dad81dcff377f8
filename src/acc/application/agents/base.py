"""What every agent has, and what is checked when a tree of them is built."""

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RunRejected, is_control_flow, paused_in_group
from acc.domain.errors import AccError, AgentFailed, InvalidTree
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.run import Grant

log = logging.getLogger("acc.run")

_MOST_NAME = 64
_RESERVED = frozenset({"user"})

#: A callback may be a plain function or an async one.
Callback = Callable[..., Any]
#: Whether a person must agree: always, always with these words, or by a predicate, which may
#: return the words.
Confirm = bool | str | Callable[..., Any]


@dataclass(kw_only=True, eq=False)
class BaseAgent:
    """An agent. For one of your own, write `async def run(self, ctx)` and return its answer.

    `confirm` asks a person before the agent runs. `grants` narrows what each sub-agent, by name,
    gets to see. `before_agent_callback(ctx)` may return a text, which is then the answer;
    `after_agent_callback(ctx, text)` may return another text in place of the answer.
    """

    name: str
    description: str = ""
    sub_agents: Sequence["BaseAgent"] = ()
    grants: Mapping[str, Grant] = field(default_factory=dict)
    confirm: Confirm = False
    before_agent_callback: Callback | None = None
    after_agent_callback: Callback | None = None
    parent: "BaseAgent | None" = field(default=None, init=False, repr=False)

    #: What an agent reads and writes where it is served to others, and whether it may answer them
    #: with a message alone, by `ctx.reply`, which then makes them wait for its first word.
    input_modes: ClassVar[tuple[str, ...]] = ("text/plain", "application/json")
    output_modes: ClassVar[tuple[str, ...]] = ("text/plain",)
    replies_directly: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name, "an agent")
        if isinstance(self.sub_agents, BaseAgent) or not isinstance(self.sub_agents, Iterable):
            raise InvalidTree(f"{self.name!r}: sub_agents is a list of agents")
        self.sub_agents = tuple(self.sub_agents)
        for child in self.sub_agents:
            if not isinstance(child, BaseAgent):
                raise InvalidTree(f"{self.name!r}: {child!r} is no agent")
            if child.parent is not None:
                raise InvalidTree(
                    f"{child.name!r} already belongs to {child.parent.name!r} and cannot belong to "
                    f"{self.name!r} too; make a second agent with a name of its own"
                )
        self._check_own()
        for name in self.grants:
            if name not in {child.name for child in self.sub_agents}:
                raise InvalidTree(f"{self.name!r} grants something to {name!r}, no sub-agent of it")
        self.check()
        self._check_names()
        for child in self.sub_agents:
            child.parent = self

    def check(self) -> None:
        """Refuse what cannot work; a kind of agent with rules of its own adds them here."""

    async def run(self, ctx: RunContext) -> str | None:
        """Do the work; a returned text is the agent's answer."""
        raise NotImplementedError(f"{type(self).__name__} must define `async def run(self, ctx)`")

    def kept_answer(self, ctx: RunContext) -> Any:
        """Return what stands now where others look for this agent's answer, if anything does."""
        return None

    def keep_answer(self, ctx: RunContext, text: str) -> None:
        """Put what was said in place of this agent where others look for its answer."""

    def walk(self) -> Iterator["BaseAgent"]:
        """Give this agent and everyone below it, top down."""
        yield self
        for child in self.sub_agents:
            yield from child.walk()

    @property
    def agent_tools(self) -> Sequence["BaseAgent"]:
        """Return the agents that this one uses as tools."""
        return ()

    def everyone(self) -> Iterator["BaseAgent"]:
        """Give all that `walk` gives, and the agents that they use as tools, each once."""
        seen: set[int] = set()
        left: list[BaseAgent] = [self]
        while left:
            agent = left.pop(0)
            if id(agent) not in seen:
                seen.add(id(agent))
                yield agent
                left = [*agent.sub_agents, *agent.agent_tools, *left]

    def find(self, name: str) -> "BaseAgent | None":
        """Return the agent of that name in this tree."""
        return next((agent for agent in self.walk() if agent.name == name), None)

    async def execute(self, ctx: RunContext) -> None:
        """Run with all that surrounds it: stand-ins, confirmation, callbacks, snapshots, logs."""
        is_logged = log.isEnabledFor(logging.INFO)
        if is_logged:
            _log(ctx, "agent started")
        config = ctx.run.config
        if config.snapshots:
            await _show_state(ctx, "before")
        try:
            await self._execute(ctx)
        except BaseException:
            ctx.run.mark_unreplayed(ctx.path)
            raise
        if ctx.current_branch.state.pending or ctx.run.journal.steps:
            await flush_state(ctx)
        if config.snapshots:
            await _show_state(ctx, "after")
        if is_logged:
            _log(ctx, "agent finished")

    async def _execute(self, ctx: RunContext) -> None:
        config = ctx.run.config
        try:
            if (config.stubs or config.debug) and await _said_instead(ctx, _stand_in):
                ctx.run.mark_unreplayed(ctx.path)
                return
            if self.confirm:
                await confirm_step(ctx)
            before = self.before_agent_callback
            if before is not None and await _said_instead(ctx, before):
                return
            heard = len(ctx.current_branch.thread)
            text = await self.run(ctx)
            if text is not None:
                await ctx.finish(text)
            if self.after_agent_callback is not None:
                await _say_or_replace(ctx, self.after_agent_callback, heard)
        except AccError:
            raise
        except BaseException as error:
            if is_control_flow(error):
                raise
            failed = AgentFailed(self.name, f"{type(error).__name__}: {error}")
            raise (paused_in_group(error) or failed) from error

    def _check_own(self) -> None:
        """Refuse what no agent can work with, before it is used."""
        grants = self.grants
        fits = isinstance(grants, Mapping) and all(isinstance(g, Grant) for g in grants.values())
        refuse_unless(fits, self, "grants", "a mapping from names of sub-agents to a Grant each")
        fits = isinstance(self.confirm, bool | str) or callable(self.confirm)
        refuse_unless(fits, self, "confirm", "True, a text to ask with, or a function")
        check_callbacks(self, "before_agent_callback", "after_agent_callback")

    def _check_names(self) -> None:
        """Refuse a name, or a place in the tree, that is taken; a tool may have several users."""
        seen: dict[str, BaseAgent] = {}
        for agent in self.walk():
            self._check_name(agent, seen)
        placed = {id(agent) for agent in seen.values()}
        for user in self.everyone():
            for agent in (one for used in user.agent_tools for one in used.walk()):
                if id(agent) in placed or seen.get(agent.name) is not agent:
                    self._check_name(agent, seen)

    def _check_name(self, agent: "BaseAgent", seen: "dict[str, BaseAgent]") -> None:
        if seen.get(agent.name) is agent:
            raise InvalidTree(
                f"{agent.name!r} stands in the tree of {self.name!r} twice; make a second "
                "agent with a name of its own"
            )
        if agent.name in seen:
            raise InvalidTree(
                f"two agents under {self.name!r} are called {agent.name!r}; every name in a "
                "tree must be its own, for transfers, branches and logs to be clear"
            )
        seen[agent.name] = agent


def refuse_unless(fits: bool, agent: BaseAgent, name: str, wanted: str) -> None:
    """Refuse an agent's field that holds something else than it takes."""
    if not fits:
        raise InvalidTree(f"{agent.name!r}: {name} is {wanted}, not {getattr(agent, name)!r}")


def check_callbacks(agent: BaseAgent, *names: str) -> None:
    """Refuse callbacks that cannot be called."""
    for name in names:
        found = getattr(agent, name)
        refuse_unless(found is None or callable(found), agent, name, "a function")


def check_count(agent: BaseAgent, name: str) -> None:
    """Refuse a number of times that is none, where one is given."""
    count = getattr(agent, name)
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise InvalidTree(f"{agent.name!r}: {name} must be at least 1, not {count!r}")


def check_model(agent: BaseAgent, model: object) -> None:
    """Refuse what is neither a model nor the name of one."""
    if not model:
        raise InvalidTree(f"{agent.name!r} has no model")
    fits = isinstance(model, str) or callable(getattr(model, "complete", None))
    refuse_unless(fits, agent, "model", "a name, or an object with `async complete(prompt)`")


def check_name(name: object, what: str) -> None:
    """Refuse a name that could not be told apart in a path, a branch or a model's answer."""
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise InvalidTree(
            f"{name!r} is no name for {what}: use letters, digits, _ and -, not a digit first"
        )
    if len(name) > _MOST_NAME:
        raise InvalidTree(f"{name!r} is longer than {_MOST_NAME} characters")
    if name in _RESERVED:
        raise InvalidTree(f"{name!r} is taken: it is who the messages of people are from")


async def called(callback: Callback, *arguments: Any) -> Any:
    """Return what a callback returns, whether it is a plain function or an async one."""
    found = callback(*arguments)
    return await found if inspect.isawaitable(found) else found


async def _said_instead(ctx: RunContext, callback: Callback) -> bool:
    """Say what a callback returns in place of the agent, and tell whether there was anything."""
    found = await called(callback, ctx)
    if found is None:
        return False
    # A callback that finds an answer there already has not asked for another.
    keep = callback is _stand_in or ctx.agent.kept_answer(ctx) is None
    await _say_instead(ctx, callback, found, keep=keep)
    return True


async def _say_or_replace(ctx: RunContext, callback: Callback, heard: int) -> None:
    """Say an answer, or what a callback returns in its place: then nobody hears the answer."""
    thread, draft = ctx.current_branch.thread, ctx.text
    said = len(thread)
    kept = deepcopy(ctx.agent.kept_answer(ctx))
    found = await called(callback, ctx, draft)
    if found is not None:
        ours = {agent.name for agent in ctx.agent.walk()}
        thread[heard:said] = [one for one in thread[heard:said] if one.author not in ours]
        # What the callback put there itself stays.
        await _say_instead(ctx, callback, found, keep=ctx.agent.kept_answer(ctx) == kept)
    elif ctx.is_draft:
        await ctx.say(draft)


async def _say_instead(ctx: RunContext, callback: Callback, found: object, *, keep: bool) -> None:
    if not isinstance(found, str):
        name = "its stand-in" if callback is _stand_in else getattr(callback, "__name__", "it")
        raise TypeError(f"{name} returned a {type(found).__name__}, which is no text")
    if keep:
        ctx.agent.keep_answer(ctx, found)
    await ctx.say(found)


async def flush_state(ctx: RunContext) -> None:
    """Put on record what was written to the state and not yet told by an event."""
    recorded = ctx.next_recorded()
    if ctx.current_branch.state.pending or (
        recorded is not None and recorded.kind is EventKind.STATE
    ):
        await ctx.emit(EventKind.STATE)


async def confirm_step(ctx: RunContext) -> None:
    """Ask a person whether the agent may run; a no ends the run."""
    agent = ctx.agent
    scope = ctx.fork("confirm")
    needed: Any = agent.confirm
    if callable(needed):
        needed = scope.next_recorded() is not None or await called(needed, ctx)
        if not needed:
            return
    words = needed if isinstance(needed, str) else f"May {agent.name!r} go ahead?"
    answer = await scope.request_input(words, kind=RequestKind.CONFIRMATION)
    if answer.verdict is not ApprovalDecision.APPROVE:
        raise RunRejected(agent.name, answer.reason or answer.verdict.value)


def _stand_in(ctx: RunContext) -> Any:
    config = ctx.config
    agent = ctx.agent
    if agent.name in config.stubs:
        stand_in = config.stubs[agent.name]
        return stand_in if isinstance(stand_in, str) else stand_in(ctx)
    reasons = not agent.sub_agents or hasattr(agent, "instruction")
    if config.debug and agent is not ctx.run.request.root and reasons:
        return f"[debug] {agent.name} would answer: {ctx.message}"
    return None


async def _show_state(ctx: RunContext, when: str) -> None:
    detail = {"when": when, "path": ctx.path, "state": ctx.current_branch.state.copy()}
    await ctx.emit(EventKind.SNAPSHOT, detail=detail)


def _log(ctx: RunContext, what: str) -> None:
    log.info(
        what,
        extra={
            "trace_id": ctx.call.trace_id,
            "request_id": ctx.call.request_id,
            "run_id": ctx.run_id,
            "caller": ctx.call.caller,
            "agent": ctx.agent.name,
            "path": ctx.path,
            "branch": ctx.branch,
        },
    )
