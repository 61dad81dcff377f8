"""Rules about what agents hand to each other: branches, state keys, schemas."""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from acc.application.agents.base import BaseAgent
from acc.application.agents.graph import Edge, GraphAgent
from acc.application.agents.llm import LlmAgent, placeholders
from acc.application.agents.workflow import ParallelAgent
from acc.application.lint.data_flow import Gap, MissingRead, StateFlow, has_rule, output_key
from acc.application.lint.structure import Finding, Outcome, problem, warning

_DOTTED = re.compile(r"(?<!\{)\{((?:(?:app|user|temp):)?[^\W\d]\w*)(\.\w+|\[[^{}]*\])+\??\}(?!\})")
_READABLE = re.compile(r"(?:(?:app|user|temp):)?[^\W\d]\w*")
_PREFIXES = ("app", "user", "temp")
_STYLES = {
    "snake_case": re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+"),
    "camelCase": re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+"),
    "PascalCase": re.compile(r"(?:[A-Z][a-z0-9]+)+"),
    "UPPER_CASE": re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"),
}


def branches(agents: Sequence[BaseAgent], flow: StateFlow) -> Outcome:
    """Look for agents that run at the same time and write the same key."""
    found: list[Finding] = []
    applies = False
    for agent in agents:
        if isinstance(agent, ParallelAgent):
            applies = True
            for pair in combinations(agent.sub_agents, 2):
                found += _collisions(agent, pair, flow, certain=True)
        elif isinstance(agent, GraphAgent):
            for pair, certain in _side_by_side(agent):
                applies = True
                found += _collisions(agent, pair, flow, certain=certain)
    return Outcome(applies=applies, findings=tuple(found))


def _side_by_side(
    graph: GraphAgent,
) -> Iterator[tuple[tuple[BaseAgent, BaseAgent], bool]]:
    """Give the nodes that one step may lead to together, and whether it always does."""
    nodes = {agent.name: agent for agent in graph.sub_agents}
    for name in nodes:
        leaving: dict[str, Edge] = {
            edge.target: edge
            for edge in graph.all_edges
            if edge.source == name and not edge.otherwise
        }
        for first, second in combinations(leaving, 2):
            certain = leaving[first].when is None and leaving[second].when is None
            yield (nodes[first], nodes[second]), certain


def _collisions(
    owner: ParallelAgent | GraphAgent,
    pair: Sequence[BaseAgent],
    flow: StateFlow,
    *,
    certain: bool,
) -> Iterator[Finding]:
    first, second = pair
    shared = flow.written_below(first) & flow.written_below(second)
    for key in sorted(shared):
        if has_rule(key, tuple(owner.merge)):
            continue
        made = problem if certain else warning
        yield made(
            f"{owner.name!r} runs them side by side and both write {key!r}, with no rule to merge",
            first.name,
            second.name,
            fix=f'give each an output_key of its own, or {owner.name} merge={{"{key}": "list"}}',
        )


def state_keys(agents: Sequence[BaseAgent], flow: StateFlow) -> Outcome:
    """Look for keys that are spelled in different ways, or read before they are written."""
    fields = fields_of_schemas(agents)
    found: list[Finding] = []
    keys = {key: None for key in (*map(output_key, agents), *sorted(flow.read)) if key}
    found += _style_faults(agents, keys)
    for key in keys:
        found += _key_faults(key, flow)
    found += _spellings(list(keys), flow)
    for read in flow.missing:
        if not (read.gap is Gap.NOBODY and read.key in fields):
            found.append(_missing(read, flow))
    return Outcome(applies=bool(keys), findings=tuple(found), note=", ".join(keys))


def _users(key: str, flow: StateFlow) -> tuple[str, ...]:
    readers = [
        agent.name
        for agent in flow.agents
        if isinstance(agent, LlmAgent) and key in dict(placeholders(agent.instruction))
    ]
    return tuple(dict.fromkeys((*flow.writers(key), *readers)))


def _style_faults(agents: Sequence[BaseAgent], keys: dict[str, None]) -> Iterator[Finding]:
    by_style: dict[str, list[str]] = {}
    for key in keys:
        bare = key.rpartition(":")[2]
        for style, pattern in _STYLES.items():
            if pattern.fullmatch(bare):
                by_style.setdefault(style, []).append(key)
    if len(by_style) < 2:
        return
    usual = max(by_style, key=lambda style: len(by_style[style]))
    odd = [key for style, found in by_style.items() if style != usual for key in found]
    owners = [agent.name for agent in agents if output_key(agent) in odd]
    yield warning(
        f"most keys are in {usual}, but not {', '.join(odd)}",
        *owners,
        fix=f"write all keys in {usual}",
    )


def _key_faults(key: str, flow: StateFlow) -> Iterator[Finding]:
    prefix, colon, _ = key.partition(":")
    if colon and prefix not in _PREFIXES:
        yield warning(
            f"{key!r}: {prefix!r} is no scope, so the key lasts as long as the session",
            *_users(key, flow),
            fix="use app:, user: or temp:, or no colon",
        )
    elif not _READABLE.fullmatch(key):
        yield warning(
            f"no instruction can ask for {key!r}",
            *_users(key, flow),
            fix="use letters, digits and _, with app:, user: or temp: before it if need be",
        )


def _spellings(keys: Sequence[str], flow: StateFlow) -> Iterator[Finding]:
    for first, second in combinations(keys, 2):
        left, right = first.rpartition(":"), second.rpartition(":")
        names = tuple(dict.fromkeys((*_users(first, flow), *_users(second, flow))))
        if left[2] == right[2]:
            yield warning(
                f"{first!r} and {second!r} are two keys in two scopes",
                *names,
                fix="use one scope, or tell them apart by name",
            )
        elif _bare(left[2]) == _bare(right[2]):
            yield warning(
                f"{first!r} and {second!r} look like one key in two spellings",
                *names,
                fix=f"write {first!r} in both places",
            )


def _bare(key: str) -> str:
    return re.sub(r"[_\W]", "", key).casefold()


def _missing(read: MissingRead, flow: StateFlow) -> Finding:
    ask = f"its instruction asks for {{{read.key}}}"
    absent = f"write {{{read.key}?}} if it may be absent"
    others = [name for name in read.writers if name != read.agent]
    before = f"run {', '.join(others) or 'what writes it'} before {read.agent}"
    if read.writers and not others:
        before = f"let another agent write it before {read.agent}"
    if read.gap is Gap.MAYBE:
        writers = ", ".join(read.writers) or "code"
        return warning(
            f"{ask}, which {writers} may not have written yet",
            read.agent,
            fix=f"{before} in all cases, or {absent}",
        )
    if read.gap is Gap.LATER:
        return problem(f"{ask}, which {_writing(others)}", read.agent, fix=f"{before}, or {absent}")
    fix = f'set output_key="{read.key}" on the agent that provides it, or {absent}'
    if flow.opaque or read.key.startswith(("user:", "app:")):
        return warning(f"{ask}, and no agent seems to write it", read.agent, fix=fix)
    return problem(f"{ask}, and nobody writes it", read.agent, fix=fix)


def _writing(others: Sequence[str]) -> str:
    """Return who besides the reader writes a key too late for it."""
    if not others:
        return "only itself writes, and only later"
    write = "writes" if len(others) == 1 else "write"
    return f"{', '.join(others)} {write} only later or in another branch"


def fields_of_schemas(agents: Sequence[BaseAgent]) -> dict[str, tuple[str, str]]:
    """Return, for each field of an answer's schema, whose it is and under which key it goes."""
    found: dict[str, tuple[str, str]] = {}
    for agent in agents:
        if isinstance(agent, LlmAgent) and agent.json_schema is not None:
            for name in _properties(agent):
                found.setdefault(name, (agent.name, agent.output_key))
    return found


def _properties(agent: LlmAgent) -> tuple[str, ...]:
    schema = agent.json_schema or {}
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    top = schema.get("$defs", {}).get(name, schema)
    return tuple(top.get("properties", ()))


def schemas(agents: Sequence[BaseAgent], flow: StateFlow) -> Outcome:
    """Look for answers in a form that those who come after cannot use."""
    models = [agent for agent in agents if isinstance(agent, LlmAgent)]
    formed = [agent for agent in models if agent.output_schema is not None]
    found: list[Finding] = []
    for agent in formed:
        found += _schema_faults(agent)
    found += _two_forms(models)
    dotted = [item for agent in models for item in _dotted(agent)]
    found += dotted
    fields = fields_of_schemas(agents)
    for read in flow.missing:
        if read.gap is Gap.NOBODY and read.key in fields:
            owner, key = fields[read.key]
            found.append(
                problem(
                    f"asks for {{{read.key}}}, which is a field of what {owner!r} answers and no "
                    "key of the state",
                    read.agent,
                    fix=f"ask for the whole answer, {{{key}}}"
                    if key
                    else f"set output_key on {owner!r} and ask for the whole answer",
                )
            )
    return Outcome(applies=bool(formed or dotted), findings=tuple(found))


def _schema_faults(agent: LlmAgent) -> Iterator[Finding]:
    if not agent.output_key:
        yield warning(
            "has an output_schema but no output_key, so its answer reaches others only as text",
            agent.name,
            fix="set output_key= to the state key that others read it from",
        )
    targets = [target.name for target in agent.transfer_targets()]
    if targets:
        yield warning(
            f"must answer in a form, but may transfer to {', '.join(targets)}, who need not",
            agent.name,
            fix="disallow its transfers, or use the others as tools: tools=[other_agent]",
        )


def _two_forms(models: Sequence[LlmAgent]) -> Iterator[Finding]:
    by_key: dict[str, list[LlmAgent]] = {}
    for agent in models:
        if agent.output_key:
            by_key.setdefault(agent.output_key, []).append(agent)
    for key, writers in by_key.items():
        for first, second in combinations(writers, 2):
            if first.json_schema != second.json_schema:
                yield problem(
                    f"write {key!r} in two forms, so whoever reads it cannot rely on either",
                    first.name,
                    second.name,
                    fix="give both the same output_schema, or each a key of its own",
                )


def _dotted(agent: LlmAgent) -> Iterator[Finding]:
    if not isinstance(agent.instruction, str):
        return
    for match in _DOTTED.finditer(agent.instruction):
        if match[1] == "artifact":
            continue
        yield problem(
            f"its instruction holds {match[0]}, which is left as it stands",
            agent.name,
            fix=f"placeholders name whole keys: write {{{match[1]}}}, and say which part to use",
        )
