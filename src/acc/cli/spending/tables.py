"""What models cost, as tables and lines: while a run goes on, and at its end."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from acc.adapters.reports.costs import account_from_fields
from acc.domain.spending import Account, Accounts, Part, dollars, spender

_NUMBERS = ("calls", "from cache", "failed", "tokens in", "tokens out", "cost")


def spent_table(
    rows: Sequence[tuple[str, Account]], total: Account, limit: float | None = None
) -> Table:
    """Return who spent what; a column stands only where there is something in it."""
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("spent by", style="bold", no_wrap=True)
    titles = [
        title for title in _NUMBERS if title not in ("from cache", "failed") or _any(total, title)
    ]
    for title in titles:
        table.add_column(title, justify="right")
    allowed = "" if limit is None else f" of {dollars(limit)}"
    for name, account in rows:
        table.add_row(name, *(_cell(account, title) for title in titles))
    last = [_cell(total, title) for title in titles]
    table.add_row("together", *last[:-1], last[-1] + allowed, style="bold")
    return table


def live_table(accounts: Accounts, agents: Sequence[str], limit: float | None) -> Table:
    """Return what was spent so far."""
    rows = [(spender(part, agent), one) for part, agent, one in accounts.rows(agents)]
    return spent_table(rows, accounts.total, limit)


def live_words(accounts: Accounts, limit: float | None) -> str:
    """Return what was spent so far in a few words, by part."""
    total = accounts.total
    parts = []
    for part, name in (
        (Part.AGENT, "agents"),
        (Part.COMPRESSOR, "compressors"),
        (Part.JUDGE, "judge"),
    ):
        account = accounts.of(part)
        if account is not None:
            parts.append(f"{name} {account.money}")
    allowed = "" if limit is None else f" of {dollars(limit)}"
    tokens = f"{total.input_tokens:,} tokens in, {total.output_tokens:,} out"
    kept = f", {total.kept:,} answers from the cache" if total.kept else ""
    return f"{total.money}{allowed} spent ({'; '.join(parts)}; {tokens}{kept})"


def summary_table(summary: Mapping[str, Any]) -> Table | None:
    """Return what a run cost, or None where no model was asked."""
    cost = summary.get("cost")
    if not cost:
        return None
    rows = [
        (spender(Part(row["part"]), row["agent"]), account_from_fields(row))
        for row in cost["spent"]
    ]
    return spent_table(rows, account_from_fields(cost["total"]))


def _any(total: Account, title: str) -> bool:
    return bool(total.kept if title == "from cache" else total.failed)


def _cell(account: Account, title: str) -> str:
    numbers = {
        "calls": account.calls,
        "from cache": account.kept,
        "failed": account.failed,
        "tokens in": account.input_tokens,
        "tokens out": account.output_tokens,
    }
    return account.money if title == "cost" else f"{numbers[title]:,}"
