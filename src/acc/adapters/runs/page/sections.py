"""The parts of the page that stand without a script: sentences, tables, charts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acc.adapters.runs.charts import INK, PALETTE, Chart
from acc.adapters.runs.page.drawing import inline_svg
from acc.adapters.runs.page.phrasing import (
    LOWER_IS_BETTER,
    NO_VALUE,
    TITLES,
    against,
    cell,
    figure,
    listed,
    mean_of,
    name_of,
    plain,
    signed,
    table,
    unit_of,
)
from acc.adapters.runs.page.standing import (
    HEADLINE_METRICS,
    Difference,
    Loss,
    ceilings_of,
    differences_of,
    focus_of,
)
from acc.adapters.runs.page.turns import WorstTurn
from acc.adapters.runs.results import claimless_notes, fallback_notes
from acc.domain.value_objects.evaluation import OUTCOME_NAMES

_BY_TURN = ("memory-by-turn", "hallucination-by-turn", "drift-by-turn", "scores")
_KINDS = {
    "transcript": "replays the transcript, cut to the window",
    "retrieval": "recalls passages that match the query",
    "acc": "keeps a compressed cognitive state within the budget",
    "oracle": "the ceiling: it reads the judge's memory; not a competitor",
}


def palette_css() -> str:
    """Return the colours of agents and charts for both schemes."""

    def variables(side: int) -> str:
        agents = (f"--agent-{n}:{colours[side]}" for n, colours in enumerate(PALETTE))
        ink = (f"--ink-{name}:{colours[side]}" for name, colours in INK.items())
        return ";".join((*agents, *ink))

    named = [(colours[0], f"--agent-{n}") for n, colours in enumerate(PALETTE)]
    named += [(colours[0], f"--ink-{name}") for name, colours in INK.items()]
    rules = [
        f'.chart [{way}="{colour}"]{{{way}:var({name})}}'
        for colour, name in named
        for way in ("fill", "stroke")
    ]
    rules += [f".agent-{n}{{--agent:var(--agent-{n})}}" for n in range(len(PALETTE))]
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{variables(1)}}}}}"
    return "\n".join((f":root{{{variables(0)}}}", dark, *rules))


def headline(summary: Mapping[str, Any]) -> str:
    """Return what came out, as sentences that say better and worse alike."""
    focus = focus_of(summary)
    if not summary["turns"]:
        return "<p>No turn is on record yet.</p>"
    if len(summary["agents"]) == 1:
        return f"<p>Only {plain(next(iter(summary['agents'])))} took part: nothing to compare.</p>"
    if focus is None:
        return _neutral_headline(summary)
    rows = [row for row in differences_of(summary, focus) if row.agent == focus]
    ceilings = ceilings_of(summary)
    lines = []
    for versus in (name for name in summary["agents"] if name != focus):
        found = {row.metric: row for row in rows if row.versus == versus}
        title = f"the ceiling, {plain(versus)}" if versus in ceilings else plain(versus)
        lines.append((versus in ceilings, f"Against {title}, {_against(focus, found)}"))
    return "".join(
        f'<p class="{"aside" if ceiling else "claim"}">{line}</p>'
        for ceiling, line in sorted(lines, key=lambda line: line[0])
    )


def _against(focus: str, found: Mapping[str, Difference]) -> str:
    groups: dict[str, list[str]] = {"better": [], "worse": [], "no clear difference": []}
    missing = []
    for metric in HEADLINE_METRICS:
        if metric not in found:
            missing.append(TITLES[metric])
            continue
        row = found[metric]
        unit = "" if metric in ("outcome", "memory_tokens") else f" {unit_of(metric)}"
        note = f" ({signed(metric, row.mean)}{unit})" if row.clear else ""
        groups[row.verdict].append(f"{TITLES[metric]}{note}")
    parts = [
        f"{word} in {listed(groups[kind])}"
        for kind, word in (
            ("better", "<b>better</b>"),
            ("worse", "<b>worse</b>"),
            ("no clear difference", "without a clear difference"),
        )
        if groups[kind]
    ]
    sentence = f"{plain(focus)} is {'; '.join(parts)}" if parts else "nothing can be compared"
    return f"{sentence}{f'; not compared: {listed(missing)}' if missing and parts else ''}."


def _neutral_headline(summary: Mapping[str, Any]) -> str:
    parts = []
    for metric in HEADLINE_METRICS:
        means = {
            agent: mean
            for agent, measures in summary["agents"].items()
            if agent not in ceilings_of(summary) and (mean := mean_of(measures, metric)) is not None
        }
        if means:
            best = (min if metric in LOWER_IS_BETTER else max)(means.values())
            word = "lowest" if metric in LOWER_IS_BETTER else "highest"
            who = listed([plain(agent) for agent, mean in means.items() if mean == best])
            parts.append(f"{word} {TITLES[metric]}: {who} ({figure(metric, best)})")
    return f'<p class="claim">On the mean, {"; ".join(parts)}.</p>' if parts else ""


def _judge_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return how many turns have no score, which answers were flagged, and how votes agreed."""
    notes = []
    for agent, measures in summary["agents"].items():
        turns = sum(measures[status] for status in ("scored", "failed", "unscored"))
        if measures["unscored"]:
            notes.append(
                f"{measures['unscored']} of {turns} turns of {agent} could not be scored by the "
                "judge; no mean, difference or gate counts them."
            )
        if measures.get("flagged"):
            notes.append(
                f"{measures['flagged']} of {turns} answers of {agent} try to steer the judge."
            )
    return notes


def agreement_section(summary: Mapping[str, Any]) -> str:
    """Return how far the judge agreed with itself, empty where it was asked once."""
    found = summary.get("agreement") or {}
    html = ""
    if "alpha" in found:
        head = [cell("what was judged", kind="col")]
        head += [cell(title, kind="col", number=True) for title in ("alpha", "units")]
        rows = [
            cell(plain(name.replace("_", " ")), kind="row")
            + cell("no variation" if a["value"] is None else f"{a['value']:.3f}", number=True)
            + cell(f"{a['units']:,}", number=True)
            for name, a in found["alpha"].items()
        ]
        html += table("Agreement of the judge's votes: Krippendorff's alpha", head, rows)
    if "order" in found:
        head = [cell("score", kind="col")]
        titles = ("mean difference", "mean absolute difference", "answers that changed", "answers")
        head += [cell(title, kind="col", number=True) for title in titles]
        rows = [
            cell(TITLES[name], kind="row")
            + cell(f"{o['mean']:+.3f}", number=True)
            + cell(f"{o['mean_absolute']:.3f}", number=True)
            + cell(f"{o['changed']:,}", number=True)
            + cell(f"{o['answers']:,}", number=True)
            for name, o in found["order"].items()
        ]
        html += table("What the opposite order of the answers changed", head, rows)
    return (
        f'<section id="agreement"><h2>The judge against itself</h2>{html}</section>' if html else ""
    )


def warnings_of(summary: Mapping[str, Any]) -> str:
    """Return what a reader must know before any number: what is missing or failed."""
    notes = []
    episodes = summary["episodes"]
    if episodes["recorded"] < episodes["planned"]:
        notes.append(f"{episodes['recorded']} of {episodes['planned']} episodes are on record.")
    notes += [f"Episode {name} ended early: {error}" for name, error in summary["errors"].items()]
    notes += [
        f"Gate failed: {gate['gate']} ({gate['explanation']})"
        for gate in summary.get("gates", ())
        if gate["failed"]
    ]
    notes += [*fallback_notes(summary), *claimless_notes(summary)]
    notes += _judge_notes(summary)
    if not notes:
        return ""
    return f'<ul class="warnings">{"".join(f"<li>{plain(note)}</li>" for note in notes)}</ul>'


def result_table(summary: Mapping[str, Any], slots: Mapping[str, int]) -> str:
    """Return the means and deviations of every agent."""
    names = ("outcome", *OUTCOME_NAMES, "hallucination", "drift", "memory_tokens")
    head = [cell("agent", kind="col")]
    head += [cell(TITLES[name], kind="col", number=True) for name in names]
    head += [
        cell(title, kind="col", number=True)
        for title in ("memory at the last turn", "scored", "failed", "unscored")
    ]
    rows = []
    for agent, measures in summary["agents"].items():
        cells = [cell(name_of(agent, slots), kind="row")]
        for name in (*names, "last_memory_tokens"):
            found = measures[name]
            spread = (
                "" if found is None else f" <small>± {figure(name, found['deviation'])}</small>"
            )
            value = figure(name, None if found is None else found["mean"])
            if found is None and measures["last_memory_tokens"] is not None:
                value = NO_VALUE  # tokens are reported, and no turn has a score
            cells.append(cell(value + spread, number=True))
        for status in ("scored", "failed", "unscored"):
            count = measures[status]
            bad = "bad" if count and status != "scored" else ""
            cells.append(cell(f"{count:,}", number=True, extra=bad))
        rows.append("".join(cells))
    return table("Results: mean ± standard deviation over turns", head, rows)


def run_section(summary: Mapping[str, Any], slots: Mapping[str, int]) -> str:
    """Return what was run."""
    configuration = summary["configuration"]
    scenarios = "".join(
        f"<li><bdi>{plain(s['id'])}</bdi> ({plain(s['domain'].replace('_', ' '))}, "
        f"{plain(s['language'])}) <code>{plain(s['digest'][:12])}</code></li>"
        for s in configuration["scenarios"]
    )
    agents = "".join(
        f"<li>{name_of(a['name'], slots)}: {plain(_KINDS.get(a['kind'], a['kind']))}</li>"
        for a in configuration["agents"]
    )
    turns = configuration["turns"]
    facts = {
        "Agents": f"<ul>{agents}</ul>",
        "Scenarios": f"<ul>{scenarios}</ul>",
        "Episodes": f"{configuration['episodes']:,} of each scenario; "
        f"{summary['episodes']['recorded']:,} of {summary['episodes']['planned']:,} on record",
        "Turns": f"{summary['turns']:,} in all"
        + (f"; the first {turns} of each episode" if turns else "; every turn of each scenario"),
        "First seed": str(configuration["seed"]),
        "Window": f"{configuration['window']:,} tokens for transcript replay",
        "Budget": f"{configuration['budget']:,} tokens for an ACC state",
        "Judge": f"{plain(configuration['judge'])}, blinded: it reads answers under letters, "
        "shuffled anew each turn, without any trace of who gave them" + _judging(configuration),
        "Version": f"acc {plain(configuration['version'])}",
    }
    return "".join(f"<div><dt>{term}</dt><dd>{html}</dd></div>" for term, html in facts.items())


def _judging(configuration: Mapping[str, Any]) -> str:
    judging = configuration.get("judging")
    if not judging:
        return ""
    return "; " + plain(", ".join(f"{name} {value}" for name, value in judging.items()))


def charts_section(charts: Sequence[Chart], *, by_turn: bool) -> str:
    """Return the charts by turn, or those by domain."""
    return "".join(_figure(chart) for chart in charts if (chart.name in _BY_TURN) == by_turn)


def _figure(chart: Chart) -> str:
    body = '<p class="nothing">No values.</p>' if chart.spec is None else inline_svg(chart)
    files = " ".join(
        f'<a href="charts/{chart.name}.{kind}">{kind.upper()}</a>' for kind in ("svg", "png")
    )
    links = f'<span class="files">{files}</span>' if chart.spec is not None else ""
    return (
        f'<figure class="chart" id="chart-{chart.name}"><h3>{chart.title}</h3>{body}'
        f"<figcaption>{plain(chart.caption)} {links}</figcaption></figure>"
    )


def worse_section(
    summary: Mapping[str, Any], losses: Sequence[Loss], worst: Sequence[WorstTurn]
) -> str:
    """Return where the focus is worse than the others, or that it nowhere is."""
    focus = focus_of(summary)
    if focus is None:
        return ""
    name = plain(focus)
    ceilings = ceilings_of(summary)
    others = [loss for loss in losses if loss.versus not in ceilings]
    above = [loss for loss in losses if loss.versus in ceilings]
    parts = [f'<section id="worse"><h2>Where {name} is worse</h2>']
    mine = summary["agents"][focus]
    if mine["failed"] or mine["unscored"]:
        parts.append(
            f"<p>{name} failed {mine['failed']:,} turns, and {mine['unscored']:,} could not be "
            "scored. No mean counts them.</p>"
        )
    if others:
        parts.append(
            _loss_table(f"Means in which {name} is worse than a competitor", others, focus)
        )
    else:
        parts.append(f"<p>On the mean, {name} is nowhere worse than a competitor in this run.</p>")
    if above:
        inner = _loss_table(f"Means in which {name} is below the ceiling", above, focus)
        parts.append(f"<details><summary>Against the ceiling</summary>{inner}</details>")
    parts.append(_worst_list(worst, name))
    return "".join((*parts, "</section>"))


def _loss_table(caption: str, losses: Iterable[Loss], focus: str) -> str:
    head = [cell(title, kind="col") for title in ("compared with", "metric")]
    head += [cell(plain(focus), kind="col", number=True), cell("other", kind="col", number=True)]
    head += [cell("over all turns", kind="col"), cell("domains where it is worse", kind="col")]
    rows = []
    for loss in losses:
        cells = [cell(f"<bdi>{plain(loss.versus)}</bdi>", kind="row"), cell(TITLES[loss.metric])]
        pair = against(loss.metric, *loss.overall) if loss.overall else ("", "")
        cells += [cell(text, number=True) for text in pair]
        cells.append(cell(_overall_word(loss), extra="places"))
        places = "<br>".join(
            f"{plain(domain.replace('_', ' '))}: {' against '.join(against(loss.metric, *pair))}"
            for domain, pair in loss.domains.items()
        )
        cells.append(cell(places or "none", extra="places"))
        rows.append("".join(cells))
    return table(caption, head, rows)


def _overall_word(loss: Loss) -> str:
    if not loss.worse:
        return "not worse"
    return "<b>clearly worse</b>" if loss.clear else "worse, without a clear difference"


def _worst_list(worst: Sequence[WorstTurn], name: str) -> str:
    if not worst:
        return f"<p>In no turn did {name} score below the best of the others.</p>"
    items = "".join(
        f'<li><a href="#{plain(w.job.name)}/{w.turn}">{plain(w.job.name)}, turn {w.turn}</a> '
        f"({plain(w.topic.replace('_', ' ') or 'no topic')}): outcome {w.score:.2f} against "
        f"{w.best:.2f} of <bdi>{plain(w.versus)}</bdi></li>"
        for w in worst
    )
    return f'<h3>Turns in which {name} lost most</h3><ol class="worst">{items}</ol>'


def paired_section(summary: Mapping[str, Any]) -> str:
    """Return every paired difference; those without the focus stand folded."""
    focus = focus_of(summary)
    rows = differences_of(summary, focus)
    if not rows:
        return "<p>No two agents were scored on the same turns.</p>"
    ceilings = ceilings_of(summary)
    rows.sort(key=lambda row: row.versus in ceilings)
    mine = [row for row in rows if focus is None or row.agent == focus]
    rest = [row for row in rows if focus is not None and row.agent != focus]
    html = _paired_table("Paired differences on the same turns", mine) if mine else ""
    if rest:
        inner = _paired_table("Paired differences between the others", rest)
        html += f"<details><summary>Pairs without {plain(focus)}</summary>{inner}</details>"
    return html


def _paired_table(caption: str, rows: Sequence[Difference]) -> str:
    head = [cell("first minus second", kind="col"), cell("metric", kind="col")]
    head.append(cell("the first is", kind="col"))
    head += [
        cell(title, kind="col", number=True) for title in ("difference", "95 % interval", "pairs")
    ]
    body = []
    for row in rows:
        minus = "\N{MINUS SIGN}"
        pair = f"<bdi>{plain(row.agent)}</bdi> {minus} <bdi>{plain(row.versus)}</bdi>"
        difference = f"{signed(row.metric, row.mean)} <small>{unit_of(row.metric)}</small>"
        span = f"{signed(row.metric, row.low)} to {signed(row.metric, row.high)}"
        look = row.verdict if row.clear else "unclear"
        body.append(
            cell(pair, kind="row")
            + cell(TITLES[row.metric])
            + cell(row.verdict, extra=f"verdict {look}")
            + cell(difference, number=True)
            + cell(span, number=True)
            + cell(f"{row.pairs:,}", number=True)
        )
    unit = rows[0].unit
    note = f"<p class='note'>Intervals by bootstrap, resampled by {plain(unit)}.</p>"
    return table(caption, head, body) + note
