"""Check an agent tree against the multi-agent design checklist, without running it."""

from collections.abc import Sequence
from dataclasses import dataclass

from acc.application.agents.base import BaseAgent
from acc.application.lint import contract_rules, data_rules, structure_rules
from acc.application.lint.state_flow import StateFlow
from acc.application.lint.structure_rules import Finding, RuleResult, Severity
from acc.domain.value_objects.agent_card import CardFinding, CardSeverity


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
    "contracts": (
        "Contracts are precise and their fields match",
        "コントラクトを明確にし、フィールド名を一致させる",
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
    "card": (
        "The declared agent card is valid",
        "Agent Cardの宣言が実装と一致",
    ),
}


def check_agents(root: BaseAgent, card: Sequence[CardFinding] | None = None) -> TreeReport:
    """Return the result of each rule of the checklist.

    `card` are the findings about the card that a file declares; None if there is no file.
    """
    flow = StateFlow(root)
    agents = flow.agents
    results: dict[str, RuleResult] = {
        "single-responsibility": structure_rules.check_responsibility(agents),
        "descriptions": structure_rules.check_descriptions(agents),
        "loop-bounds": structure_rules.check_loop_bounds(agents),
        "branches": data_rules.check_branches(agents, flow),
        "state-keys": data_rules.check_state_keys(agents, flow),
        "schemas": data_rules.check_schemas(agents, flow),
        "contracts": contract_rules.check_contracts(agents),
        "transfers": structure_rules.check_transfers(agents),
        "privileges": structure_rules.check_privileges(agents),
        "labels": structure_rules.check_labels(agents),
        "memories": structure_rules.check_memories(agents),
        "card": _card_result(card),
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


def _card_result(card: Sequence[CardFinding] | None) -> RuleResult:
    if card is None:
        return RuleResult(applies=False, note="no card was given: --card FILE")
    severities = {CardSeverity.ERROR: Severity.PROBLEM, CardSeverity.WARNING: Severity.WARNING}
    findings = tuple(
        Finding(
            severity=severities[finding.severity],
            agents=(),
            text=f"{finding.field}: {finding.text}",
            fix=finding.fix,
        )
        for finding in card
    )
    return RuleResult(applies=True, findings=findings)
