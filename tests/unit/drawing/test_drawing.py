"""Trees of agents as Mermaid text and as SVG."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from drawn_trees import LONG, editorial, pair

from acc import Agent, BaseAgent, Edge, GraphAgent, RouterAgent
from acc.adapters.drawing.mermaid import mermaid
from acc.adapters.drawing.picture import picture_of
from acc.adapters.drawing.svg import specification, svg, width_of, wrapped


def texts_of(drawn: str) -> str:
    root = ElementTree.fromstring(drawn)  # noqa: S314 - we drew it
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


def test_transfers_follow_what_is_allowed() -> None:
    down = mermaid(pair(disallow_transfer_to_parent=True, disallow_transfer_to_peers=True))
    assert re.findall(r"n\d [^ ]+ n\d", down) == [
        'n0 -.->|"transfer"| n1',
        'n0 -.->|"transfer"| n2',
    ]
    first = Agent(name="a", description="A", disallow_transfer_to_peers=True)
    second = Agent(name="b", description="B", returns_control=True)
    one_way = picture_of(Agent(name="front", sub_agents=[first, second]))
    assert [(link.source, link.target, link.both_ways) for link in one_way.links] == [
        ("n2", "n1", False)
    ]
    assert "hands back" in one_way.boxes[2].lines
    other_way = Agent(
        name="front",
        sub_agents=[
            Agent(name="a", description="A"),
            Agent(name="b", description="B", disallow_transfer_to_peers=True),
        ],
    )
    assert [link.source for link in picture_of(other_way).links] == ["n1"]


def test_many_peers_are_told_in_words() -> None:
    peers = [Agent(name=f"p{n}", description=f"P {n}") for n in range(4)]
    picture = picture_of(Agent(name="front", sub_agents=peers))
    assert picture.links == []
    assert "sub-agents may transfer to each other" in picture.boxes[0].lines


def test_signs_of_mermaid_do_not_break_the_drawing() -> None:
    odd = eval("lambda s: s['\"#<`'] > 'x' * 100", {})  # noqa: S307 - a lambda with no file
    nodes = [Agent(name="a"), Agent(name="b")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[Edge("a", "b", when=odd)])
    assert 'n1 ==>|"condition"| n2' in mermaid(graph)
    by_rule = RouterAgent(name="r", by=lambda ctx: "a", sub_agents=[Agent(name="a")])
    assert "router by rule" in mermaid(by_rule)


def test_a_long_condition_is_shortened_and_escaped() -> None:
    def when(state: Any) -> bool:
        return True

    when.__name__ = 'a"#<>`' + "x" * 60
    nodes = [Agent(name="a"), Agent(name="b")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[Edge("a", "b", when=when)])
    label = re.findall(r'==>\|"(.*)"\|', mermaid(graph))[0]
    assert label.startswith("a#quot;#35;#lt;#gt;#96;xxx")
    assert label.endswith("…")


@pytest.mark.parametrize("tree", [pair(), editorial(), Agent(name="solo")])
def test_an_svg_shows_every_name_whole_within_its_box(tree: BaseAgent) -> None:
    drawn = svg(tree)
    texts = texts_of(drawn)
    for box in picture_of(tree).boxes:
        assert box.name in texts
    assert "prefers-color-scheme:dark" in drawn
    assert drawn.count("<svg") == 1


def test_an_svg_shows_conditions_and_a_legend_of_the_lines_used() -> None:
    texts = texts_of(svg(editorial()))
    assert "state.get('score', 0) < 3" in texts
    assert "leads to, if the condition holds" in texts
    assert "uses as a tool" in texts
    assert "may transfer" not in texts
    assert "may transfer" in texts_of(svg(pair()))


def test_a_long_japanese_name_has_room() -> None:
    boxes = specification(picture_of(editorial()))["data"][0]["values"]
    box = next(box for box in boxes if box["name"] == LONG)
    assert box["w"] > 13 * len(LONG)


def test_text_is_wrapped_between_words_only() -> None:
    assert wrapped("one two three", most=width_of("one two")) == ["one two", "three"]
    assert wrapped("verylongword", most=10) == ["verylongword"]
