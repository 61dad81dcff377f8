"""Results of an evaluation as a JUnit XML report for CI servers."""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from acc.domain.gates import GateResult
from acc.domain.language import normalize_text


def junit_xml(
    summary: Mapping[str, Any], gates: Sequence[GateResult], failed: Mapping[str, int]
) -> bytes:
    """Return a test case per gate, agent and aborted episode; `failed` counts turns per agent."""
    suites = ElementTree.Element("testsuites", name="acc eval")
    suite = ElementTree.SubElement(suites, "testsuite", name="acc eval")
    failures = errors = skipped = 0
    for gate in gates:
        case = ElementTree.SubElement(
            suite, "testcase", classname="gate", name=normalize_text(gate.gate)
        )
        if gate.failed:
            failures += 1
            ElementTree.SubElement(case, "failure", message=normalize_text(gate.explanation))
    for agent, count in failed.items():
        case = ElementTree.SubElement(suite, "testcase", classname="agent", name=agent)
        if count:
            failures += 1
            ElementTree.SubElement(case, "failure", message=f"{count} turns without an answer")
    for agent, measures in summary["agents"].items():
        if measures.get("unscored"):
            case = ElementTree.SubElement(suite, "testcase", classname="judge", name=agent)
            # Not a failure of the agent, but no result either.
            message = f"{measures['unscored']} turns could not be scored"
            ElementTree.SubElement(case, "skipped", message=message)
            skipped += 1
    for episode, error in summary["errors"].items():
        case = ElementTree.SubElement(suite, "testcase", classname="episode", name=episode)
        errors += 1
        ElementTree.SubElement(case, "error", message=normalize_text(error))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    suite.set("errors", str(errors))
    if skipped:
        suite.set("skipped", str(skipped))
    ElementTree.indent(suites)
    data: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return data + b"\n"
