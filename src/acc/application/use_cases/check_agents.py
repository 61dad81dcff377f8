"""Check an agent tree against the multi-agent design checklist, without running it."""

from dataclasses import dataclass

from acc.application.agents.base import BaseAgent
from acc.application.lint import data, structure
from acc.application.lint.data_flow import StateFlow
from acc.application.lint.structure import Finding, RuleResult, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """The result of one rule of the checklist, with its title in English and Japanese."""

    name: str
    title: str
    title_ja: str
    severity: Severity
    findings: tuple[Finding, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeReport:
    """The results of all rules for an agent tree."""

    agent: str
    agents: int
    rules: tuple[RuleReport, ...]

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(f.severity is severity for rule in self.rules for f in rule.findings)

    @property
    def severity(self) -> Severity:
        """Return the worst severity of all rules."""
        return max((rule.severity for rule in self.rules), key=list(Severity).index)


_TITLES = {
    "single-responsibility": (
        "Each agent has a single responsibility",
        "各Agentに単一責任を持たせる",
    ),
    "descriptions": (
        "Sub-agents and tools have a clear description",
        "sub_agentsの description とtoolsのdocstringを明確に記述",
    ),
    "loop-bounds": (
        "Every loop has max_iterations and an exit condition",
        "LoopAgentには必ず max_iterations を設定",
    ),
    "branches": (
        "Parallel branches write different keys",
        "ParallelAgentで event.branch を正しく使用",
    ),
    "state-keys": (
        "State keys follow one naming rule",
        "セッション状態のキー名を統一（プレフィックス規則）",
    ),
    "schemas": (
        "Schemas of agents are compatible",
        "Agent間のスキーマ互換性を確認",
    ),
    "transfers": (
        "Transfers have a clear end condition",
        "転送ループ防止のための明確な終了条件を定義",
    ),
    "privileges": (
        "High-privilege actions require approval",
        "Human-in-the-Loopが必要な高権限アクションを特定",
    ),
    "labels": (
        "Tools of agents with an information-flow policy have labels",
        "情報フローポリシーを持つAgentのツールにラベルを付ける",
    ),
    "memories": (
        "Memories exist",
        "存在するメモリを指定",
    ),
}


def check_agents(root: BaseAgent) -> TreeReport:
    """Return the result of each rule of the checklist."""
    flow = StateFlow(root)
    agents = flow.agents
    results: dict[str, RuleResult] = {
        "single-responsibility": structure.check_responsibility(agents),
        "descriptions": structure.check_descriptions(agents),
        "loop-bounds": structure.check_loop_bounds(agents),
        "branches": data.check_branches(agents, flow),
        "state-keys": data.check_state_keys(agents, flow),
        "schemas": data.check_schemas(agents, flow),
        "transfers": structure.check_transfers(agents),
        "privileges": structure.check_privileges(agents),
        "labels": structure.check_labels(agents),
        "memories": structure.check_memories(agents),
    }
    rules = tuple(
        RuleReport(
            name=name,
            title=_TITLES[name][0],
            title_ja=_TITLES[name][1],
            severity=result.severity,
            findings=result.findings,
            note=result.note,
        )
        for name, result in results.items()
    )
    return TreeReport(agent=root.name, agents=len(agents), rules=rules)
