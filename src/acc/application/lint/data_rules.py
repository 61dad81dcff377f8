"""Rules about the data that agents exchange: parallel writes, state keys, schemas."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations

from acc.application.agents.base import BaseAgent
from acc.application.agents.graph import Edge, GraphAgent
from acc.application.agents.instructions import placeholders
from acc.application.agents.llm import LlmAgent
from acc.application.agents.workflow import ParallelAgent
from acc.application.lint.state_flow import MissingKind, MissingRead, StateFlow, output_key
from acc.application.lint.structure_rules import Finding, RuleResult, problem, warning

_NESTED_PLACEHOLDER = re.compile(
    r"(?<!\{)\{((?:(?:app|user|temp):)?[^\W\d]\w*)(\.\w+|\[[^{}]*\])+\??\}(?!\})"
)
_PLACEHOLDER_KEY = re.compile(r"(?:(?:app|user|temp):)?[^\W\d]\w*")
_SCOPES = ("app", "user", "temp")
_CASES = {
    "snake_case": re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+"),
    "camelCase": re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+"),
    "PascalCase": re.compile(r"(?:[A-Z][a-z0-9]+)+"),
    "UPPER_CASE": re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"),
}


def check_branches(agents: Sequence[BaseAgent], flow: StateFlow) -> RuleResult:
    """Find agents that run concurrently and write the same key."""
    findings: list[Finding] = []
    applies = False
    for agent in agents:
        if isinstance(agent, ParallelAgent):
            applies = True
            for pair in combinations(agent.sub_agents, 2):
                findings += _conflicts(agent, pair, flow, is_certain=True)
        elif isinstance(agent, GraphAgent):
            for pair, is_certain in _concurrent_nodes(agent):
                applies = True
                findings += _conflicts(agent, pair, flow, is_certain=is_certain)
    return RuleResult(applies=applies, findings=tuple(findings))


def check_state_keys(agents: Sequence[BaseAgent], flow: StateFlow) -> RuleResult:
    """Find keys with inconsistent names, and keys that are read before they are written."""
    fields = _schema_fields(agents)
    keys = list(
        dict.fromkeys(key for key in (*map(output_key, agents), *sorted(flow.read_keys)) if key)
    )
    findings = [*_case_findings(agents, keys)]
    for key in keys:
        findings += _key_findings(key, flow)
    findings += _spelling_findings(keys, flow)
    missing = [read for read in flow.missing if not _is_schema_field(read, fields, flow)]
    possible = [read for read in missing if _may_be_written_in_code(read, flow)]
    if possible:
        findings.append(_possible_keys_finding(possible))
    findings += [_missing_key_finding(read) for read in missing if read not in possible]
    return RuleResult(applies=bool(keys), findings=tuple(findings), note=", ".join(keys))


def check_schemas(agents: Sequence[BaseAgent], flow: StateFlow) -> RuleResult:
    """Find structured answers that later agents cannot use."""
    llm_agents = [agent for agent in agents if isinstance(agent, LlmAgent)]
    with_schema = [agent for agent in llm_agents if agent.output_schema is not None]
    findings = [finding for agent in with_schema for finding in _schema_findings(agent)]
    findings += _conflicting_schemas(llm_agents)
    nested = [finding for agent in llm_agents for finding in _nested_placeholders(agent)]
    findings += nested
    fields = _schema_fields(agents)
    for read in flow.missing:
        if _is_schema_field(read, fields, flow):
            owner, key = fields[read.key]
            fix = f"use the whole answer, {{{key}}}"
            if not key:
                fix = f"set output_key on {owner!r} and use the whole answer"
            findings.append(
                problem(
                    f"uses {{{read.key}}}, which is a field of the answer of {owner!r} and not a "
                    "state key",
                    read.agent,
                    fix=fix,
                )
            )
    return RuleResult(applies=bool(with_schema or nested), findings=tuple(findings))


def _concurrent_nodes(
    graph: GraphAgent,
) -> Iterator[tuple[tuple[BaseAgent, BaseAgent], bool]]:
    """Yield pairs of nodes that may run in the same step, and whether they always do."""
    nodes = {agent.name: agent for agent in graph.sub_agents}
    for name in nodes:
        edges: dict[str, Edge] = {
            edge.target: edge
            for edge in graph.all_edges
            if edge.source == name and not edge.otherwise
        }
        for first, second in combinations(edges, 2):
            is_certain = edges[first].when is None and edges[second].when is None
            yield (nodes[first], nodes[second]), is_certain


def _conflicts(
    owner: ParallelAgent | GraphAgent,
    pair: Sequence[BaseAgent],
    flow: StateFlow,
    *,
    is_certain: bool,
) -> Iterator[Finding]:
    first, second = pair
    finding = problem if is_certain else warning
    for key in sorted(flow.written_below(first) & flow.written_below(second)):
        if any(fnmatchcase(key, pattern) for pattern in owner.merge):
            continue
        yield finding(
            f"{owner.name!r} runs them concurrently and both write {key!r} without a merge rule",
            first.name,
            second.name,
            fix=f'give each its own output_key, or set merge={{"{key}": "list"}} on {owner.name!r}',
        )


def _users(key: str, flow: StateFlow) -> tuple[str, ...]:
    """Return the names of the agents that write or read a key."""
    readers = [
        agent.name
        for agent in flow.agents
        if isinstance(agent, LlmAgent) and key in dict(placeholders(agent.instruction))
    ]
    return tuple(dict.fromkeys((*flow.writers(key), *readers)))


def _case_findings(agents: Sequence[BaseAgent], keys: Sequence[str]) -> Iterator[Finding]:
    by_case: dict[str, list[str]] = {}
    for key in keys:
        for case, pattern in _CASES.items():
            if pattern.fullmatch(key.rpartition(":")[2]):
                by_case.setdefault(case, []).append(key)
    if len(by_case) < 2:
        return
    usual = max(by_case, key=lambda case: len(by_case[case]))
    others = [key for case, found in by_case.items() if case != usual for key in found]
    owners = [agent.name for agent in agents if output_key(agent) in others]
    yield warning(
        f"most keys use {usual}, except {', '.join(others)}",
        *owners,
        fix=f"use {usual} for all keys",
    )


def _key_findings(key: str, flow: StateFlow) -> Iterator[Finding]:
    scope, colon, _ = key.partition(":")
    if colon and scope not in _SCOPES:
        yield warning(
            f"{key!r}: {scope!r} is not a scope, so the key has the lifetime of the session",
            *_users(key, flow),
            fix="use app:, user: or temp:, or no colon",
        )
    elif not _PLACEHOLDER_KEY.fullmatch(key):
        yield warning(
            f"{key!r} cannot be used in an instruction",
            *_users(key, flow),
            fix="use letters, digits and _, optionally after app:, user: or temp:",
        )


def _spelling_findings(keys: Sequence[str], flow: StateFlow) -> Iterator[Finding]:
    for first, second in combinations(keys, 2):
        first_name, second_name = first.rpartition(":")[2], second.rpartition(":")[2]
        agents = tuple(dict.fromkeys((*_users(first, flow), *_users(second, flow))))
        if first_name == second_name:
            yield warning(
                f"{first!r} and {second!r} are different keys in different scopes",
                *agents,
                fix="use one scope, or different names",
            )
        elif _normalize(first_name) == _normalize(second_name):
            yield warning(
                f"{first!r} and {second!r} look like the same key with different spelling",
                *agents,
                fix=f"use {first!r} in both places",
            )


def _normalize(key: str) -> str:
    return re.sub(r"[_\W]", "", key).casefold()


def _may_be_written_in_code(read: MissingRead, flow: StateFlow) -> bool:
    """Return True if callbacks, tools or agents of the user may write a key in time."""
    if read.kind is MissingKind.NEVER_WRITTEN:
        return flow.has_unknown_writes or read.key.startswith(("user:", "app:"))
    is_written_by_code = read.key not in map(output_key, flow.agents)
    return read.kind is MissingKind.MAYBE_WRITTEN and (
        is_written_by_code or flow.has_unknown_writes
    )


def _is_schema_field(
    read: MissingRead, fields: Mapping[str, tuple[str, str]], flow: StateFlow
) -> bool:
    """Return True if a field of a structured answer is used as if it were a state key."""
    is_unwritten = read.kind is MissingKind.NEVER_WRITTEN and not flow.has_unknown_writes
    return is_unwritten and read.key in fields


def _possible_keys_finding(reads: Sequence[MissingRead]) -> Finding:
    """Return one finding for all keys that only code can provide."""
    keys = list(dict.fromkeys(read.key for read in reads))
    agents = dict.fromkeys(read.agent for read in reads)
    names = ", ".join(f"{{{key}}}" for key in keys)
    return warning(
        f"{names}: used in instructions, and no agent answers with output_key; callbacks, tools or "
        "earlier sessions may write it",
        *agents,
        fix=f"make sure that they write it first, or use {{{keys[0]}?}} where it may be missing",
    )


def _missing_key_finding(read: MissingRead) -> Finding:
    text = f"its instruction uses {{{read.key}}}"
    make_optional = f"write {{{read.key}?}} if it may be missing"
    others = [name for name in read.writers if name != read.agent]
    reorder = f"run {', '.join(others) or 'its writer'} before {read.agent}"
    if read.writers and not others:
        reorder = f"let another agent write it before {read.agent}"
    if read.kind is MissingKind.MAYBE_WRITTEN:
        writers = ", ".join(read.writers) or "code"
        return warning(
            f"{text}, which {writers} may not have written yet",
            read.agent,
            fix=f"{reorder} in all cases, or {make_optional}",
        )
    if read.kind is MissingKind.WRITTEN_LATER:
        if others:
            verb = "writes" if len(others) == 1 else "write"
            writers = f"{', '.join(others)} {verb} only later or in another branch"
        else:
            writers = "only the agent itself writes, after reading it"
        return problem(f"{text}, which {writers}", read.agent, fix=f"{reorder}, or {make_optional}")
    fix = f'set output_key="{read.key}" on the agent that provides it, or {make_optional}'
    return problem(f"{text}, and no agent writes it", read.agent, fix=fix)


def _schema_fields(agents: Sequence[BaseAgent]) -> dict[str, tuple[str, str]]:
    """Return the agent and output key for each field of a structured answer."""
    fields: dict[str, tuple[str, str]] = {}
    for agent in agents:
        if isinstance(agent, LlmAgent) and agent.json_schema is not None:
            schema = agent.json_schema
            definition = str(schema.get("$ref", "")).rpartition("/")[2]
            top = schema.get("$defs", {}).get(definition, schema)
            for name in top.get("properties", ()):
                fields.setdefault(name, (agent.name, agent.output_key))
    return fields


def _schema_findings(agent: LlmAgent) -> Iterator[Finding]:
    if not agent.output_key:
        yield warning(
            "has an output_type but no output_key, so other agents receive its answer as text",
            agent.name,
            fix="set output_key= to the state key that other agents read",
        )
    targets = [target.name for target in agent.transfer_targets()]
    if targets:
        yield warning(
            f"has an output_type but may transfer to {', '.join(targets)}, which need not match it",
            agent.name,
            fix="disallow its transfers, or use the other agents as tools: tools=[other_agent]",
        )


def _conflicting_schemas(llm_agents: Sequence[LlmAgent]) -> Iterator[Finding]:
    by_key: dict[str, list[LlmAgent]] = {}
    for agent in llm_agents:
        if agent.output_key:
            by_key.setdefault(agent.output_key, []).append(agent)
    for key, writers in by_key.items():
        for first, second in combinations(writers, 2):
            if first.json_schema != second.json_schema:
                yield problem(
                    f"write {key!r} with different schemas, so that readers can rely on neither",
                    first.name,
                    second.name,
                    fix="use the same output_type for both, or different keys",
                )


def _nested_placeholders(agent: LlmAgent) -> Iterator[Finding]:
    if not isinstance(agent.instruction, str):
        return
    for match in _NESTED_PLACEHOLDER.finditer(agent.instruction):
        if match[1] == "artifact":
            continue
        yield problem(
            f"its instruction contains {match[0]}, which is not replaced",
            agent.name,
            fix=f"placeholders name whole keys: write {{{match[1]}}} and state which part to use",
        )
