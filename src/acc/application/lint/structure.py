"""Rules about the shape of a tree: responsibilities, descriptions, ends, privileges."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from acc.application.agents.base import BaseAgent
from acc.application.agents.graph import GraphAgent
from acc.application.agents.llm import LlmAgent
from acc.application.agents.router import RouterAgent
from acc.application.agents.workflow import LoopAgent
from acc.application.lint.data_flow import can_end_a_loop, tools_of
from acc.application.tools.tool import AgentTool, Tool
from acc.domain.language import is_japanese, terms


class Severity(StrEnum):
    """How a rule is kept, from best to worst."""

    NOT_APPLICABLE = "not applicable"
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or looks so, with the agents it is about and what to do."""

    verdict: Severity
    agents: tuple[str, ...]
    text: str
    fix: str


def problem(text: str, *agents: str, fix: str) -> Finding:
    """Return something that will go wrong."""
    return Finding(verdict=Severity.PROBLEM, agents=agents, text=text, fix=fix)


def warning(text: str, *agents: str, fix: str) -> Finding:
    """Return something that may go wrong."""
    return Finding(verdict=Severity.WARNING, agents=agents, text=text, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one rule came to; `applies` tells whether there was anything to look at."""

    applies: bool
    findings: tuple[Finding, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> Severity:
        """Return the worst that was found."""
        order = list(Severity)
        if self.findings:
            return max((finding.verdict for finding in self.findings), key=order.index)
        return Severity.OK if self.applies else Severity.NOT_APPLICABLE


_MANY_TOOLS, _TOO_MANY_TOOLS = 10, 20
_MANY_CHOICES = 8
_MANY_BESIDE_TOOLS = 5
_LONG_INSTRUCTION = 4_000
_SHORT, _SHORT_JAPANESE = 12, 6
_ALIKE = 0.8
_MANY_ROUNDS = 25
_SAYS_WHEN = re.compile(
    r"transfer|hand\w* (?:it |them |this )?(?:over|back|off)|\breturn (?:it )?to\b|delegate"
    r"|転送|引き継|引継|戻[すしせ]|委譲|委任|担当外|渡[すしせ]",
    re.I,
)


def single_responsibility(agents: Sequence[BaseAgent]) -> Outcome:
    """Look for agents that do too much, or are not told what to do."""
    models = [agent for agent in agents if isinstance(agent, LlmAgent)]
    found = [finding for agent in models for finding in _load_of(agent)]
    for agent in agents:
        if isinstance(agent, RouterAgent) and len(agent.sub_agents) > _MANY_CHOICES:
            found.append(_many_choices(agent))
    return Outcome(applies=bool(models), findings=tuple(found))


def _load_of(agent: LlmAgent) -> Iterator[Finding]:
    count, below = len(agent.own_tools), len(agent.sub_agents)
    if count > _MANY_TOOLS:
        made = problem if count > _TOO_MANY_TOOLS else warning
        yield made(
            f"{count} tools: a model chooses worse the more there are",
            agent.name,
            fix=f"group them by task into sub-agents of at most {_MANY_TOOLS} tools each",
        )
    if below > _MANY_CHOICES:
        yield _many_choices(agent)
    elif count and below > _MANY_BESIDE_TOOLS:
        yield warning(
            f"works with {count} tools and hands out to {below} sub-agents",
            agent.name,
            fix="let it only choose, and give its tools to a sub-agent of their own",
        )
    if not isinstance(agent.instruction, str):
        return
    length = len(agent.instruction.strip())
    if not length:
        yield warning(
            "its instruction is empty, so nothing says what it is responsible for",
            agent.name,
            fix="say in instruction= what it does, and what it leaves to others",
        )
    elif length > _LONG_INSTRUCTION:
        yield warning(
            f"its instruction has {length:,} characters, which is more than one task needs",
            agent.name,
            fix="split the tasks in it over agents in a SequentialAgent or behind a RouterAgent",
        )


def _many_choices(agent: BaseAgent) -> Finding:
    return warning(
        f"chooses among {len(agent.sub_agents)} sub-agents",
        agent.name,
        fix=f"put a level between: groups of at most {_MANY_CHOICES}, each behind a RouterAgent",
    )


def descriptions(agents: Sequence[BaseAgent]) -> Outcome:
    """Look for sub-agents that cannot be told apart by what they are said to do."""
    found: list[Finding] = []
    silent: list[str] = []
    applies = False
    for parent in agents:
        listed = _described(parent)
        applies = applies or bool(listed)
        silent += [name for name, text in listed.items() if not text]
        for name, text in listed.items():
            found += _description_faults(name, text)
        for first, second in combinations(listed, 2):
            found += _alike(parent, (first, listed[first]), (second, listed[second]))
    if silent:
        fix = "give each a description= of one sentence: what it does, and for which requests"
        found.insert(0, warning("no description", *silent, fix=fix))
    return Outcome(applies=applies, findings=tuple(found))


def _described(parent: BaseAgent) -> dict[str, str]:
    listed = {child.name: child.description.strip() for child in parent.sub_agents}
    if isinstance(parent, RouterAgent):
        listed = {
            name: " ".join([text, *parent.intents.get(name, ())]).strip()
            for name, text in listed.items()
        }
    for tool in tools_of(parent):
        if isinstance(tool, AgentTool):
            listed[tool.name] = tool.description.strip()
    return listed


def _description_faults(name: str, text: str) -> Iterator[Finding]:
    fix = f"give {name!r} a description= of one sentence: what it does, and for which requests"
    if not text:
        return
    if len(text) < (_SHORT_JAPANESE if is_japanese(text) else _SHORT):
        yield warning(f"its description {text!r} is too short to choose by", name, fix=fix)
    elif terms(text) <= terms(name.replace("_", " ").replace("-", " ")):
        yield warning(f"its description {text!r} only repeats its name", name, fix=fix)


def _alike(parent: BaseAgent, one: tuple[str, str], other: tuple[str, str]) -> Iterator[Finding]:
    (first, text), (second, other_text) = one, other
    left, right = terms(text), terms(other_text)
    together = left | right
    likeness = len(left & right) / len(together) if together else 0.0
    fix = f"say in each what {first!r} does that {second!r} does not"
    if likeness == 1.0:
        made = problem if _chooses_by_words(parent) else warning
        yield made("have the same description", first, second, fix=fix)
    elif likeness >= _ALIKE:
        yield warning("have nearly the same description", first, second, fix=fix)


def _chooses_by_words(parent: BaseAgent) -> bool:
    if isinstance(parent, RouterAgent):
        return not callable(parent.by)
    return isinstance(parent, LlmAgent)


def loop_bounds(agents: Sequence[BaseAgent]) -> Outcome:
    """Look for loops that run longer than they need to, and cycles that nothing ends."""
    found: list[Finding] = []
    bounds: list[str] = []
    for agent in agents:
        if isinstance(agent, LoopAgent):
            bounds.append(f"{agent.name}: at most {agent.max_iterations} rounds")
            found += _loop_faults(agent)
        elif isinstance(agent, GraphAgent) and agent.max_steps is not None:
            bounds.append(f"{agent.name}: at most {agent.max_steps} steps")
            found += _cycle_faults(agent)
    return Outcome(applies=bool(bounds), findings=tuple(found), note="; ".join(bounds))


def _loop_faults(loop: LoopAgent) -> Iterator[Finding]:
    rounds = loop.max_iterations or 0
    if rounds > _MANY_ROUNDS:
        yield warning(
            f"may run {rounds} rounds",
            loop.name,
            fix=f"set max_iterations to what the work needs; {_MANY_ROUNDS} rounds are many",
        )
    if rounds > 1 and not any(can_end_a_loop(child) for child in loop.sub_agents):
        yield warning(
            f"nothing in it ends it, so it always runs all {rounds} rounds",
            loop.name,
            fix="give the agent that checks the result tools=[exit_loop], or let code in it set "
            "ctx.escalated = True",
        )


def _cycle_faults(graph: GraphAgent) -> Iterator[Finding]:
    """Find nodes on a cycle of edges without a condition: once there, the graph never ends."""
    certain: dict[str, list[str]] = {agent.name: [] for agent in graph.sub_agents}
    for edge in graph.all_edges:
        if edge.when is None and not edge.otherwise:
            certain[edge.source].append(edge.target)
    for circle in _circles(certain):
        nodes = [agent for agent in graph.sub_agents if agent.name in circle]
        if not any(can_end_a_loop(node) for node in nodes):
            yield problem(
                f"goes round {' → '.join([*circle, circle[0]])} without a condition until "
                f"max_steps={graph.max_steps} fails the run",
                graph.name,
                fix="give one of these edges a condition: Edge(source, target, when=...)",
            )


def _circles(followers: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the groups of nodes that all lead to each other, in the order given."""

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        todo = list(followers[name])
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += followers[here]
        return seen

    reach = {name: reached(name) for name in followers}
    groups: dict[tuple[str, ...], None] = {}
    for name in followers:
        if name in reach[name]:
            groups[tuple(n for n in followers if n in reach[name] and name in reach[n])] = None
    return list(groups)


def transfers(agents: Sequence[BaseAgent]) -> Outcome:
    """Look for agents that may hand a conversation round and are not told when to keep it."""
    models = {agent.name: agent for agent in agents if isinstance(agent, LlmAgent)}
    followers: dict[str, list[str]] = {name: [] for name in models}
    any_transfer = False
    for name, agent in models.items():
        for target in agent.transfer_targets():
            any_transfer = True
            if target.name in models and not models[target.name].returns_control:
                followers[name].append(target.name)
    found: list[Finding] = []
    for circle in _circles(followers):
        silent = [name for name in circle if not _says_when(models[name])]
        if not silent:
            continue
        told = f"can hand the conversation round: {' ⇄ '.join(circle)}"
        fix = (
            f"say in the instruction of {', '.join(silent)} when to transfer and when to answer, "
            "or set disallow_transfer_to_parent and disallow_transfer_to_peers, or returns_control"
        )
        if all(not models[name].instruction for name in circle):
            found.append(problem(f"{told}, and none is told when to answer", *circle, fix=fix))
        else:
            found.append(warning(f"{told}, and only max_hops ends that", *circle, fix=fix))
    return Outcome(applies=any_transfer, findings=tuple(found))


def _says_when(agent: LlmAgent) -> bool:
    return not isinstance(agent.instruction, str) or bool(_SAYS_WHEN.search(agent.instruction))


def privileges(agents: Sequence[BaseAgent]) -> Outcome:
    """Look for tools that do what cannot be undone, with no person asked first."""
    found: list[Finding] = []
    asked: list[str] = []
    applies = False
    for agent in agents:
        guarded = _is_confirmed(agent)
        for tool in tools_of(agent):
            applies = True
            if tool.confirm or guarded:
                asked.append(tool.name)
            elif not isinstance(tool, AgentTool):
                found += _privilege_of(agent, tool)
    note = f"a person is asked before {', '.join(dict.fromkeys(asked))}" if asked else ""
    return Outcome(applies=applies, findings=tuple(found), note=note)


def _is_confirmed(agent: BaseAgent) -> bool:
    above: BaseAgent | None = agent
    while above is not None:
        if above.confirm:
            return True
        above = above.parent
    return False


def _privilege_of(agent: BaseAgent, tool: Tool) -> Iterator[Finding]:
    named = _spaced(tool.name)
    if _READS.match(named):
        return
    fix = f"ask a person first: confirm=True on {tool.name!r}, or confirm= with a predicate over "
    fix += "its arguments"
    word = _GRAVE.search(named)
    by_code = isinstance(agent, LlmAgent) and agent.before_tool_callback is not None
    if word:
        text = f"its tool {tool.name!r} can {word[0].strip()} with nobody asked"
        made = warning if by_code else problem
        yield made(
            f"{text}; only before_tool_callback guards it" if by_code else text, agent.name, fix=fix
        )
        return
    said = tool.description.strip()
    word = _RISKY.search(named) or (None if _READS.match(said) else _GRAVE.search(said))
    if word:
        yield warning(
            f"its tool {tool.name!r} looks as if it could {word[0].strip()} with nobody asked",
            agent.name,
            fix=fix,
        )


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+", " ", name)


_READS = re.compile(
    r"\s*(?:get|gets|list|lists|search|find|read|reads|check|checks|show|shows|count|look|lookup"
    r"|fetch|fetches|preview|draft|drafts|estimate|calculate|simulate|validate|view|describe|return"
    r"|returns|tell|tells|is|has|can)\b|\s*\S*(?:確認|検索|一覧|取得|参照|照会|下書き|見積)",
    re.I,
)
_GRAVE = re.compile(
    r"\b(?:pay(?:ment|out)?s?|refunds?|charge|withdraw(?:al)?|wire|deletes?|remove|drop|destroy|purge"
    r"|wipe|erase|truncate|sends?|purchase|buy|transfer (?:money|funds?)"
    r"|(?:money|funds?) transfer|place order|deploy|execute|exec|shell|run (?:command|code|sql)"
    r"|grant|revoke|terminate|shut ?down|format disk)\b"
    r"|支払|送金|振込|振り込|返金|払い?戻|課金|決済|削除|消去|破棄|送信|購入|発注|解約|権限|出金|公開|停止|実行",
    re.I,
)
_RISKY = re.compile(
    r"\b(?:cancel|post|publish|email|mail|update|overwrite|write|restart|reboot|disable|approve"
    r"|order|book|reserve|submit|transfer|move|merge|close)\b|取消|取り消|更新|変更|予約|登録|承認",
    re.I,
)
