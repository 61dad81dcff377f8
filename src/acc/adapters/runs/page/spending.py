"""What the models of a run cost, as a table of the page."""

from collections.abc import Mapping
from typing import Any

from acc.adapters.runs.page.phrasing import cell, listed, name_of, plain, table
from acc.adapters.runs.spending import account_of
from acc.domain.cost import Account, CostCategory

_TITLES = ("cost", "calls", "from the cache", "failed", "tokens read", "tokens written")


def cost_section(summary: Mapping[str, Any], slots: Mapping[str, int]) -> str:
    """Return tokens and money by agent, compressor and judge; empty where no model was asked."""
    cost = summary.get("cost")
    if not cost:
        return ""
    head = [cell("spent by", kind="col")]
    head += [cell(title, kind="col", number=True) for title in _TITLES]
    head.append(cell("model", kind="col"))
    rows = [cell(_who(row, slots), kind="row") + _numbers(account_of(row)) for row in cost["spent"]]
    rows.append(cell("<b>together</b>", kind="row") + _numbers(account_of(cost["total"]), ""))
    notes = "".join(f"<p class='note'>{note}</p>" for note in _notes(summary, cost))
    shown = table("Tokens and money by agent, compressor and judge", head, rows)
    return f'<section id="cost"><h2>What it cost</h2>{shown}{notes}</section>'


def cost_link(summary: Mapping[str, Any]) -> str:
    """Return the way to the section, empty where there is none."""
    return ' <a href="#cost">Cost</a>' if summary.get("cost") else ""


def _who(row: Mapping[str, Any], slots: Mapping[str, int]) -> str:
    agent = str(row["agent"])
    if row["part"] == CostCategory.JUDGE:
        return "judge"
    named = name_of(agent, slots) if agent in slots else f"<bdi>{plain(agent)}</bdi>"
    return named if row["part"] == CostCategory.AGENT else f"{named}, its compressor"


def _numbers(account: Account, models: str | None = None) -> str:
    shown = "<br>".join(map(plain, account.models)) if models is None else models
    counts = (
        account.calls,
        account.kept,
        account.failed,
        account.input_tokens,
        account.output_tokens,
    )
    return "".join(
        (
            cell(plain(account.money), number=True),
            *(cell(f"{count:,}", number=True) for count in counts),
            cell(shown, extra="places"),
        )
    )


def _notes(summary: Mapping[str, Any], cost: Mapping[str, Any]) -> list[str]:
    notes = [
        "US dollars, by the prices of the list that comes with the library or of "
        "<code>--price</code>; what a provider bills is what counts. A price that is not known is "
        "not in the sum. Answers from the cache cost nothing; what a failed call "
        "cost is not known."
    ]
    agents = summary["configuration"]["agents"]
    others = [
        plain(agent["name"])
        for agent in agents
        if agent["kind"].startswith(("a2a:", "python:"))
        and not any(row["agent"] == agent["name"] for row in cost["spent"])
    ]
    judge = summary["configuration"].get("judge", "")
    if judge.startswith("python:") and not summary["configuration"].get("judging"):
        others.append("the judge")
    if others:
        notes.append(f"Not seen: what {listed(others)} may have spent by themselves.")
    return notes
