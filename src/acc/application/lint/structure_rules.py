"""Rules about the structure of an agent tree: tasks, loops, transfers, privileges, memories."""

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
from acc.application.lint.state_flow import can_end_loop, tools_of
from acc.application.memory.registry import AGENT_MEMORIES, is_agent_memory
from acc.application.tools.flow_guard import flow_mode
from acc.application.tools.tool import AgentTool, BaseTool
from acc.domain.language import is_japanese, terms
from acc.domain.value_objects.endpoint import redact_secrets

MAX_TOOLS = 10
MAX_TOOLS_BEFORE_PROBLEM = 20
MAX_CHOICES = 8
MAX_SUB_AGENTS_WITH_TOOLS = 5
MAX_INSTRUCTION_LENGTH = 4_000
MIN_DESCRIPTION_LENGTH = 12
MIN_JAPANESE_DESCRIPTION_LENGTH = 6
MIN_SIMILARITY = 0.8
MAX_ITERATIONS = 25
_TRANSFER_RULE = re.compile(
    r"transfer|hand\w* (?:it |them |this )?(?:over|back|off)|\breturn (?:it )?to\b|delegate"
    r"|転送|引き継|引継|戻[すしせ]|委譲|委任|担当外|渡[すしせ]",
    re.I,
)
_READS = re.compile(
    r"\s*(?:get|gets|list|lists|search|find|read|reads|check|checks|show|shows|count|look|lookup"
    r"|fetch|fetches|preview|draft|drafts|estimate|calculate|simulate|validate|view|describe|return"
    r"|returns|tell|tells|is|has|can)\b|\s*\S*(?:確認|検索|一覧|取得|参照|照会|下書き|見積)",
    re.I,
)
_HIGH_PRIVILEGE = re.compile(
    r"\b(?:pay(?:ment|out)?s?|refunds?|charge|withdraw(?:al)?|wire|deletes?|remove|drop|destroy|purge"
    r"|wipe|erase|truncate|sends?|purchase|buy|transfer (?:money|funds?)"
    r"|(?:money|funds?) transfer|place order|deploy|execute|exec|shell|run (?:command|code|sql)"
    r"|grant|revoke|terminate|shut ?down|format disk)\b"
    r"|支払|送金|振込|振り込|返金|払い?戻|課金|決済|削除|消去|破棄|送信|購入|発注|解約|権限|出金|公開|停止|実行",
    re.I,
)
_POSSIBLE_PRIVILEGE = re.compile(
    r"\b(?:cancel|post|publish|email|mail|update|overwrite|write|restart|reboot|disable|approve"
    r"|order|book|reserve|submit|transfer|move|merge|close)\b|取消|取り消|更新|変更|予約|登録|承認",
    re.I,
)


class Severity(StrEnum):
    """The result of a rule or a finding, from best to worst."""

    NOT_APPLICABLE = "not applicable"
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem or a warning, the agents it concerns, and how to fix it."""

    severity: Severity
    agents: tuple[str, ...]
    text: str
    fix: str


def problem(text: str, *agents: str, fix: str) -> Finding:
    """Return a finding for something that will fail."""
    return Finding(severity=Severity.PROBLEM, agents=agents, text=text, fix=fix)


def warning(text: str, *agents: str, fix: str) -> Finding:
    """Return a finding for something that may fail."""
    return Finding(severity=Severity.WARNING, agents=agents, text=text, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The findings of one rule; `applies` is False if the tree has nothing to check."""

    applies: bool
    findings: tuple[Finding, ...] = ()
    note: str = ""

    @property
    def severity(self) -> Severity:
        """Return the worst severity of the findings."""
        order = list(Severity)
        if self.findings:
            return max((finding.severity for finding in self.findings), key=order.index)
        return Severity.OK if self.applies else Severity.NOT_APPLICABLE


def check_responsibility(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find agents with too many tasks, or without an instruction."""
    llm_agents = [agent for agent in agents if isinstance(agent, LlmAgent)]
    findings = [finding for agent in llm_agents for finding in _workload_findings(agent)]
    findings += [
        _too_many_choices(agent)
        for agent in agents
        if isinstance(agent, RouterAgent) and len(agent.sub_agents) > MAX_CHOICES
    ]
    return RuleResult(applies=bool(llm_agents), findings=tuple(findings))


def check_memories(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find agents whose memory does not exist."""
    named = {
        agent.name: memory
        for agent in agents
        if isinstance(memory := getattr(agent, "memory", None), str)
    }
    fix = f"choose one of {', '.join(AGENT_MEMORIES)}, or acc:MODEL"
    findings = tuple(
        problem(f"unknown memory {redact_secrets(memory)!r}", name, fix=fix)
        for name, memory in named.items()
        if not is_agent_memory(memory)
    )
    return RuleResult(applies=bool(named), findings=findings)


def check_descriptions(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find sub-agents and tools whose descriptions are missing, too short or too similar."""
    findings: list[Finding] = []
    missing: list[str] = []
    applies = False
    for parent in agents:
        descriptions = _descriptions_of_choices(parent)
        applies = applies or bool(descriptions)
        missing += [name for name, text in descriptions.items() if not text]
        for name, text in descriptions.items():
            findings += _description_findings(name, text)
        for first, second in combinations(descriptions.items(), 2):
            findings += _similarity_findings(parent, first, second)
        tools = [tool for tool in tools_of(parent) if not isinstance(tool, AgentTool)]
        applies = applies or bool(tools)
        findings += [
            warning(
                f"its tool {tool.name!r} has no docstring; the model chooses tools by description",
                parent.name,
                fix=f"add a docstring to {tool.name!r}: what it does, and what its arguments are",
            )
            for tool in tools
            if not tool.description.strip()
        ]
    if missing:
        fix = "add a description= of one sentence: what the agent does and for which requests"
        findings.insert(0, warning("no description", *missing, fix=fix))
    return RuleResult(applies=applies, findings=tuple(findings))


def check_loop_bounds(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find loops that always run to their limit, and cycles without an exit."""
    findings: list[Finding] = []
    bounds: list[str] = []
    for agent in agents:
        if isinstance(agent, LoopAgent):
            bounds.append(f"{agent.name}: at most {agent.max_iterations} rounds")
            findings += _loop_findings(agent)
        elif isinstance(agent, GraphAgent) and agent.max_steps is not None:
            bounds.append(f"{agent.name}: at most {agent.max_steps} steps")
            findings += _cycle_findings(agent)
    return RuleResult(applies=bool(bounds), findings=tuple(findings), note="; ".join(bounds))


def check_transfers(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find cycles of transfers between agents whose instructions do not mention transfers."""
    llm_agents = {agent.name: agent for agent in agents if isinstance(agent, LlmAgent)}
    targets: dict[str, list[str]] = {name: [] for name in llm_agents}
    applies = False
    for name, agent in llm_agents.items():
        for target in agent.transfer_targets():
            applies = True
            if target.name in llm_agents and not llm_agents[target.name].returns_control:
                targets[name].append(target.name)
    findings: list[Finding] = []
    for cycle in _find_cycles(targets):
        without_rule = [name for name in cycle if not _has_transfer_rule(llm_agents[name])]
        if not without_rule:
            continue
        text = f"can transfer in a cycle: {' ⇄ '.join(cycle)}"
        fix = (
            f"state in the instruction of {', '.join(without_rule)} when to transfer and when to "
            "answer, or set disallow_transfer_to_parent and disallow_transfer_to_peers, or "
            "returns_control"
        )
        if all(not llm_agents[name].instruction for name in cycle):
            text += "; no instruction states when to answer"
            findings.append(problem(text, *cycle, fix=fix))
        else:
            findings.append(warning(f"{text}; only max_hops ends the cycle", *cycle, fix=fix))
    return RuleResult(applies=applies, findings=tuple(findings))


def check_privileges(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find tools with irreversible effects that do not require approval."""
    findings: list[Finding] = []
    confirmed: list[str] = []
    applies = False
    for agent in agents:
        agent_is_confirmed = _requires_approval(agent)
        for tool in tools_of(agent):
            applies = True
            if tool.confirm or agent_is_confirmed:
                confirmed.append(tool.name)
            elif not isinstance(tool, AgentTool):
                findings += _privilege_findings(agent, tool)
    names = ", ".join(dict.fromkeys(confirmed))
    note = f"approval is required for {names}" if confirmed else ""
    return RuleResult(applies=applies, findings=tuple(findings), note=note)


def check_labels(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find tools without labels of agents with an information-flow policy."""
    findings: list[Finding] = []
    root = agents[0]
    guarded = [agent for agent in agents if flow_mode(agent, root) != "off"]
    for agent in guarded:
        names = [tool.name for tool in tools_of(agent) if _lacks_labels(tool)]
        if names:
            findings.append(
                warning(
                    f"{', '.join(names)}: no labels, so all values of a call must be the user's",
                    agent.name,
                    fix='declare what the tool does, such as @tool(effect="none") for a tool that '
                    'only reads, or @tool(target=("recipient",))',
                )
            )
        findings += [
            warning(
                f"toolset {toolset.name!r}: no labels, so its tools count as write tools",
                agent.name,
                fix='declare them, such as labels={"search": ToolLabels(effect="none")}',
            )
            for toolset in getattr(agent, "toolsets", ())
            if not getattr(toolset, "labels", True)
        ]
    return RuleResult(applies=bool(guarded), findings=tuple(findings))


def _lacks_labels(tool: BaseTool) -> bool:
    return tool.labels is None and not isinstance(tool, AgentTool)


def _workload_findings(agent: LlmAgent) -> Iterator[Finding]:
    tool_count, sub_agent_count = len(agent.own_tools), len(agent.sub_agents)
    if tool_count > MAX_TOOLS:
        finding = problem if tool_count > MAX_TOOLS_BEFORE_PROBLEM else warning
        yield finding(
            f"has {tool_count} tools; models choose less reliably among many tools",
            agent.name,
            fix=f"group the tools by task into sub-agents with at most {MAX_TOOLS} tools each",
        )
    if sub_agent_count > MAX_CHOICES:
        yield _too_many_choices(agent)
    elif tool_count and sub_agent_count > MAX_SUB_AGENTS_WITH_TOOLS:
        yield warning(
            f"uses {tool_count} tools and delegates to {sub_agent_count} sub-agents",
            agent.name,
            fix="let it only delegate, and move its tools to a sub-agent",
        )
    if not isinstance(agent.instruction, str):
        return
    length = len(agent.instruction.strip())
    if not length:
        yield warning(
            "its instruction is empty, so its responsibility is not stated",
            agent.name,
            fix="state in instruction= what it does and what it leaves to other agents",
        )
    elif length > MAX_INSTRUCTION_LENGTH:
        yield warning(
            f"its instruction has {length:,} characters, more than one task needs",
            agent.name,
            fix="split its tasks into agents of a SequentialAgent or a RouterAgent",
        )


def _too_many_choices(agent: BaseAgent) -> Finding:
    return warning(
        f"chooses among {len(agent.sub_agents)} sub-agents",
        agent.name,
        fix=f"add a level: groups of at most {MAX_CHOICES} sub-agents, each with a RouterAgent",
    )


def _descriptions_of_choices(parent: BaseAgent) -> dict[str, str]:
    descriptions = {child.name: child.description.strip() for child in parent.sub_agents}
    if isinstance(parent, RouterAgent):
        descriptions = {
            name: " ".join([text, *parent.intents.get(name, ())]).strip()
            for name, text in descriptions.items()
        }
    for tool in tools_of(parent):
        if isinstance(tool, AgentTool):
            descriptions[tool.name] = tool.description.strip()
    return descriptions


def _description_findings(name: str, text: str) -> Iterator[Finding]:
    if not text:
        return
    fix = f"describe {name!r} in one sentence: what it does and for which requests"
    is_japanese_text = is_japanese(text)
    min_length = MIN_JAPANESE_DESCRIPTION_LENGTH if is_japanese_text else MIN_DESCRIPTION_LENGTH
    if len(text) < min_length:
        yield warning(f"its description {text!r} is too short", name, fix=fix)
    elif terms(text) <= terms(name.replace("_", " ").replace("-", " ")):
        yield warning(f"its description {text!r} only repeats its name", name, fix=fix)


def _similarity_findings(
    parent: BaseAgent, first: tuple[str, str], second: tuple[str, str]
) -> Iterator[Finding]:
    first_terms, second_terms = terms(first[1]), terms(second[1])
    union = first_terms | second_terms
    similarity = len(first_terms & second_terms) / len(union) if union else 0.0
    names = (first[0], second[0])
    fix = f"state in each description what {first[0]!r} does that {second[0]!r} does not"
    if similarity == 1.0:
        chooses_by_text = isinstance(parent, LlmAgent) or (
            isinstance(parent, RouterAgent) and not callable(parent.by)
        )
        finding = problem if chooses_by_text else warning
        yield finding("have the same description", *names, fix=fix)
    elif similarity >= MIN_SIMILARITY:
        yield warning("have nearly the same description", *names, fix=fix)


def _loop_findings(loop: LoopAgent) -> Iterator[Finding]:
    rounds = loop.max_iterations or 0
    if rounds > MAX_ITERATIONS:
        yield warning(
            f"may run {rounds} rounds",
            loop.name,
            fix=f"set max_iterations to what the work needs; {MAX_ITERATIONS} rounds are many",
        )
    if rounds > 1 and not any(can_end_loop(child) for child in loop.sub_agents):
        yield warning(
            f"no agent in it ends the loop, so it always runs {rounds} rounds",
            loop.name,
            fix="add tools=[exit_loop] to the agent that checks the result, or set "
            "ctx.escalated = True in code",
        )


def _cycle_findings(graph: GraphAgent) -> Iterator[Finding]:
    """Yield findings for cycles of unconditional edges, which the graph never leaves."""
    unconditional: dict[str, list[str]] = {agent.name: [] for agent in graph.sub_agents}
    for edge in graph.all_edges:
        if edge.when is None and not edge.otherwise:
            unconditional[edge.source].append(edge.target)
    for cycle in _find_cycles(unconditional):
        nodes = [agent for agent in graph.sub_agents if agent.name in cycle]
        if not any(can_end_loop(node) for node in nodes):
            yield problem(
                f"repeats {' → '.join([*cycle, cycle[0]])} without a condition until "
                f"max_steps={graph.max_steps} fails the run",
                graph.name,
                fix="add a condition to one of these edges: Edge(source, target, when=...)",
            )


def _find_cycles(targets: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the groups of nodes that can all reach each other, in the given order."""

    def descendants(name: str) -> set[str]:
        visited: set[str] = set()
        remaining = list(targets[name])
        while remaining:
            node = remaining.pop()
            if node not in visited:
                visited.add(node)
                remaining += targets[node]
        return visited

    reachable = {name: descendants(name) for name in targets}
    cycles: dict[tuple[str, ...], None] = {}
    for name in targets:
        if name in reachable[name]:
            cycle = (n for n in targets if n in reachable[name] and name in reachable[n])
            cycles[tuple(cycle)] = None
    return list(cycles)


def _has_transfer_rule(agent: LlmAgent) -> bool:
    instruction = agent.instruction
    return not isinstance(instruction, str) or bool(_TRANSFER_RULE.search(instruction))


def _requires_approval(agent: BaseAgent) -> bool:
    ancestor: BaseAgent | None = agent
    while ancestor is not None:
        if ancestor.confirm:
            return True
        ancestor = ancestor.parent
    return False


def _privilege_findings(agent: BaseAgent, tool: BaseTool) -> Iterator[Finding]:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+", " ", tool.name)
    if _READS.match(name):
        return
    fix = (
        f"set confirm=True on {tool.name!r}, or confirm= to a predicate over its arguments, so that"
        " a person approves the call"
    )
    match = _HIGH_PRIVILEGE.search(name)
    if match:
        text = f"its tool {tool.name!r} can {match[0].strip()} without approval"
        if isinstance(agent, LlmAgent) and agent.before_tool_callback is not None:
            text = f"{text}; only before_tool_callback can prevent it"
            yield warning(text, agent.name, fix=fix)
        else:
            yield problem(text, agent.name, fix=fix)
        return
    description = tool.description.strip()
    match = _POSSIBLE_PRIVILEGE.search(name)
    if not match and not _READS.match(description):
        match = _HIGH_PRIVILEGE.search(description)
    if match:
        text = f"its tool {tool.name!r} may {match[0].strip()} without approval"
        yield warning(text, agent.name, fix=fix)
