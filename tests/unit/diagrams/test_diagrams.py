"""Trees of agents as Mermaid text and as SVG."""

import re
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from example_trees import LONG, editorial, pair, tall_parent

from acc import Agent, BaseAgent, Edge, GraphAgent, RouterAgent
from acc.adapters.diagrams.graph import build_graph, mermaid
from acc.adapters.diagrams.svg import lay_out, svg, text_width, wrap


def texts_of(drawn: str) -> str:
    root = ElementTree.fromstring(drawn)  # noqa: S314 - our own drawing
    return "\n".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))


def test_mermaid_shows_kind_model_tools_confirmations_and_transfers() -> None:
    assert mermaid(pair()) == (
        "flowchart TD\n"
        '    n0("<b>front</b><br/><i>agent</i><br/>model: embedded")\n'
        '    n1("<b>billing</b><br/><i>agent</i><br/>model: embedded<br/>tools: lookup<br/>'
        'asks first: refund")\n'
        '    n2("<b>返品担当</b><br/><i>agent</i><br/>model: embedded<br/>memory: acc<br/>'
        'writes: 結果")\n'
        '    n0 <-.->|"transfer"| n1\n'
        '    n0 <-.->|"transfer"| n2\n'
        '    n1 <-.->|"transfer"| n2\n'
    )


def test_mermaid_shows_every_kind_of_agent() -> None:
    lines = mermaid(editorial()).splitlines()
    for wanted in (
        '    n0["<b>記事制作</b><br/><i>sequence</i>"]',
        '    n1{"<b>desk</b><br/><i>step 1 · router by model</i><br/>model: embedded"}',
        '    n2("<b>faq</b><br/><i>choice · agent</i><br/>asks a person first<br/>'
        'model: embedded")',
        '    n4("<b>jokes</b><br/><i>tool, asks first · agent</i><br/>model: ScriptedModel")',
        '    n5[/"<b>research</b><br/><i>step 2 · parallel</i>"/]',
        '    n8["<b>prices</b><br/><i>branch · Own</i>"]',
        '    n9{{"<b>polish</b><br/><i>step 3 · loop, at most 4 rounds</i>"}}',
        '    n12[["<b>approval</b><br/><i>step 4 · graph, at most 9 steps</i>"]]',
        '    n13("<b>check</b><br/><i>start · agent</i><br/>model: embedded")',
        '    n15("<b>publish</b><br/><i>join · agent</i><br/>model: embedded")',
        '    n3 --o|"tool"| n4',
        "    n13 ==>|\"state.get('score', 0) #lt; 3\"| n14",
        '    n13 ==>|"otherwise"| n15',
        '    n14 ==>|"is_good"| n15',
        '    n14 ==>|"Rising"| n13',
    ):
        assert wanted in lines


def test_disallowed_transfers_are_not_drawn() -> None:
    down = mermaid(pair(disallow_transfer_to_parent=True, disallow_transfer_to_peers=True))
    assert re.findall(r"n\d [^ ]+ n\d", down) == [
        'n0 -.->|"transfer"| n1',
        'n0 -.->|"transfer"| n2',
    ]
    first = Agent(name="a", description="A", disallow_transfer_to_peers=True)
    second = Agent(name="b", description="B", returns_control=True)
    one_way = build_graph(Agent(name="front", sub_agents=[first, second]))
    assert [(edge.source, edge.target, edge.both_ways) for edge in one_way.cross_edges] == [
        ("n2", "n1", False)
    ]
    assert "hands back" in one_way.nodes[2].lines
    other_way = Agent(
        name="front",
        sub_agents=[
            Agent(name="a", description="A"),
            Agent(name="b", description="B", disallow_transfer_to_peers=True),
        ],
    )
    assert [edge.source for edge in build_graph(other_way).cross_edges] == ["n1"]


def test_transfers_between_many_peers_are_stated_as_text() -> None:
    peers = [Agent(name=f"p{n}", description=f"P {n}") for n in range(4)]
    graph = build_graph(Agent(name="front", sub_agents=peers))
    assert graph.cross_edges == []
    assert "sub-agents may transfer to each other" in graph.nodes[0].lines


def test_lambda_without_source_is_labelled_condition() -> None:
    odd = eval("lambda s: s['\"#<`'] > 'x' * 100", {})  # noqa: S307 - a lambda with no file
    nodes = [Agent(name="a"), Agent(name="b")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[Edge("a", "b", when=odd)])
    assert 'n1 ==>|"condition"| n2' in mermaid(graph)
    by_rule = RouterAgent(name="r", by=lambda ctx: "a", sub_agents=[Agent(name="a")])
    assert "router by rule" in mermaid(by_rule)


def test_long_condition_is_shortened_and_escaped() -> None:
    def when(state: Any) -> bool:
        return True

    when.__name__ = 'a"#<>`' + "x" * 60
    nodes = [Agent(name="a"), Agent(name="b")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[Edge("a", "b", when=when)])
    label = re.findall(r'==>\|"(.*)"\|', mermaid(graph))[0]
    assert label.startswith("a#quot;#35;#lt;#gt;#96;xxx")
    assert label.endswith("…")


@pytest.mark.parametrize("tree", [pair(), editorial(), Agent(name="solo")])
def test_svg_shows_every_name_and_a_dark_scheme(tree: BaseAgent) -> None:
    drawn = svg(tree)
    texts = texts_of(drawn)
    for node in build_graph(tree).nodes:
        assert node.name in texts
    assert "prefers-color-scheme:dark" in drawn
    assert drawn.count("<svg") == 1


def test_svg_shows_conditions_and_legend_of_used_lines() -> None:
    texts = texts_of(svg(editorial()))
    assert "state.get('score', 0) < 3" in texts
    assert "leads to, if the condition is true" in texts
    assert "uses as a tool" in texts
    assert "may transfer" not in texts
    assert "may transfer" in texts_of(svg(pair()))


@pytest.mark.parametrize("tree", [pair(), editorial(), Agent(name="solo"), tall_parent()])
def test_boxes_do_not_overlap_and_parents_are_left_of_children(tree: BaseAgent) -> None:
    layout = lay_out(build_graph(tree))
    for one, other in combinations(layout.boxes, 2):
        beside = one.right <= other.left or other.right <= one.left
        stacked = one.top + one.height <= other.top or other.top + other.height <= one.top
        assert beside or stacked, f"{one.node.name} and {other.node.name} overlap"
    for box in layout.boxes:
        assert box.top >= 0
        assert box.right <= layout.width
        assert box.top + box.height <= layout.height
        assert all(child.left > box.right for child in box.children)


def test_labels_of_cross_edges_do_not_overlap_and_stay_inside() -> None:
    layout = lay_out(build_graph(editorial()))
    labels = sorted(lane.label_y for lane in layout.lanes if lane.edge.label)
    assert len(labels) == 4
    assert all(after - before >= 15 for before, after in pairwise(labels))
    for lane in layout.lanes:
        end = lane.source.right + lane.offset + 4 + text_width(lane.edge.label)
        assert end <= layout.width


def test_overlapping_cross_edges_have_different_offsets() -> None:
    lanes = lay_out(build_graph(editorial())).lanes
    for one, other in combinations(lanes, 2):
        low, high = max(min(one.ends), min(other.ends)), min(max(one.ends), max(other.ends))
        assert low >= high or one.offset != other.offset


def test_svg_escapes_markup() -> None:
    def when(state: Any) -> bool:
        return True

    when.__name__ = "<script>&"
    nodes = [Agent(name="a"), Agent(name="b")]
    drawn = svg(GraphAgent(name="g", sub_agents=nodes, edges=[Edge("a", "b", when=when)]))
    assert "<script>" not in drawn
    assert "<script>&" in texts_of(drawn)


def test_long_japanese_name_fits_its_box() -> None:
    boxes = lay_out(build_graph(editorial())).boxes
    box = next(box for box in boxes if box.node.name == LONG)
    assert box.width > 13 * len(LONG)


def test_text_is_wrapped_between_words_only() -> None:
    assert wrap("one two three", limit=text_width("one two")) == ["one two", "three"]
    assert wrap("verylongword", limit=10) == ["verylongword"]
