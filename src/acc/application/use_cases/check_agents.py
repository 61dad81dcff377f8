"""Check a tree of agents against the checklist for designs of several agents."""

from dataclasses import dataclass

from acc.application.agents.base import BaseAgent
from acc.application.lint import data, structure
from acc.application.lint.data_flow import StateFlow
from acc.application.lint.structure import Finding, Outcome, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRule:
    """One line of the checklist, in English and Japanese, and how the tree keeps it."""

    name: str
    title: str
    title_ja: str
    verdict: Severity
    findings: tuple[Finding, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeReport:
    """What a check of a tree came to."""

    agent: str
    agents: int
    rules: tuple[CheckedRule, ...]

    def count(self, verdict: Severity) -> int:
        """Return how many findings there are of one verdict."""
        return sum(f.verdict is verdict for rule in self.rules for f in rule.findings)

    @property
    def verdict(self) -> Severity:
        """Return the worst verdict of all rules."""
        return max((rule.verdict for rule in self.rules), key=list(Severity).index)


_TITLES = {
    "single-responsibility": (
        "Each agent has a single responsibility",
        "各Agentに単一責任を持たせる",
    ),
    "descriptions": (
        "Sub-agents have a clear description",
        "sub_agentsの description を明確に記述",
    ),
    "loop-bounds": (
        "Every loop has max_iterations, and something ends it",
        "LoopAgentには必ず max_iterations を設定",
    ),
    "branches": (
        "Parallel branches keep apart",
        "ParallelAgentで event.branch を正しく使用",
    ),
    "state-keys": (
        "State keys are named by one rule",
        "セッション状態のキー名を統一（プレフィックス規則）",
    ),
    "schemas": (
        "Schemas of agents fit together",
        "Agent間のスキーマ互換性を確認",
    ),
    "transfers": (
        "Transfers have a clear end",
        "転送ループ防止のための明確な終了条件を定義",
    ),
    "privileges": (
        "A person confirms high-privilege actions",
        "Human-in-the-Loopが必要な高権限アクションを特定",
    ),
}


def check_tree(root: BaseAgent) -> TreeReport:
    """Return a verdict for each line of the checklist; nothing is run."""
    flow = StateFlow(root)
    agents = flow.agents
    outcomes: dict[str, Outcome] = {
        "single-responsibility": structure.single_responsibility(agents),
        "descriptions": structure.descriptions(agents),
        "loop-bounds": structure.loop_bounds(agents),
        "branches": data.branches(agents, flow),
        "state-keys": data.state_keys(agents, flow),
        "schemas": data.schemas(agents, flow),
        "transfers": structure.transfers(agents),
        "privileges": structure.privileges(agents),
    }
    rules = tuple(
        CheckedRule(
            name=name,
            title=_TITLES[name][0],
            title_ja=_TITLES[name][1],
            verdict=outcome.verdict,
            findings=outcome.findings,
            note=outcome.note,
        )
        for name, outcome in outcomes.items()
    )
    return TreeReport(agent=root.name, agents=len(agents), rules=rules)
