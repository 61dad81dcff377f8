"""States as a compressor's model would write them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from acc.adapters.memory.bm25 import Bm25EvidenceStore
from acc.adapters.memory.model_compressor import ModelCompressor
from acc.adapters.memory.qualifier import RuleQualifier
from acc.adapters.memory.rule_compressor import RuleCompressor
from acc.application.memory.acc import AccMemory
from acc.bootstrap.memory import token_counter
from acc.domain.value_objects.memory import Decision, TurnSignal, TurnTrace
from acc.ports.outbound.model_ports import LanguageModelPort, Prompt
from acc.testing import ScriptedModel


def document(prompt: Prompt) -> dict[str, Any]:
    """Return what the model was given."""
    found: dict[str, Any] = json.loads(prompt.query.partition("\n")[0])
    return found


def proposal(**fields: Any) -> str:
    """Return an answer with all nine fields, empty but for what is given."""
    empty: dict[str, Any] = {
        "episodic_trace": [],
        "semantic_gist": "",
        "focal_entities": [],
        "relational_map": [],
        "goal_orientation": "",
        "constraints": [],
        "predictive_cue": "",
        "uncertainty_signal": {"level": "low", "unconfirmed": []},
        "retrieved_artifacts": [],
    }
    return json.dumps({**empty, **fields}, ensure_ascii=False)


def rule(text: str, set_by: str = "user") -> Mapping[str, str]:
    return {"text": text, "set_by": set_by}


def faithful(prompt: Prompt) -> str:
    """Answer as a good model does: keep all, add what was said, use the evidence."""
    given = document(prompt)
    state, turn = given["earlier_state"], given["turn"]
    facts = [
        f"fact({sentence})" for sentence in turn["said"] if not sentence.endswith(("?", "か。"))
    ]
    used = [f"fact({item['text']})" for item in given["evidence"]]
    gist = turn["said"][-1] if turn["said"] else state["semantic_gist"]
    state["semantic_gist"] = gist[:240]
    known = dict.fromkeys([*state["relational_map"], *used, *facts])
    state["relational_map"] = [item for item in known if len(item) <= 320][-24:]
    state["retrieved_artifacts"] = [
        {"artifact_id": item["id"], "provenance": item["provenance"]} for item in given["evidence"]
    ][:8]
    state["episodic_trace"] = []
    return json.dumps(state, ensure_ascii=False)


def changed(**fields: Any) -> Callable[[Prompt], str]:
    """Answer with the earlier state, but for some fields."""
    return lambda prompt: json.dumps(
        {**document(prompt)["earlier_state"], **fields}, ensure_ascii=False
    )


def memory_on(model: LanguageModelPort, *, budget: int = 512, **how: Any) -> AccMemory:
    """Return an ACC memory whose state a model writes."""
    tokens = token_counter()
    return AccMemory(
        evidence=Bm25EvidenceStore(),
        qualifier=RuleQualifier(),
        compressor=ModelCompressor(model, RuleCompressor(), tokens=tokens, budget=budget, **how),
        tokens=tokens,
        budget=budget,
    )


def scripted(*answers: Any) -> ScriptedModel:
    return ScriptedModel(*answers)


async def say(memory: AccMemory, text: str, *, turn_id: int = 1, **how: Any) -> TurnTrace:
    """Live through a turn and return what the loop did."""
    signal = TurnSignal(turn_id=turn_id, text=text, **how)
    trace = (await memory.view(signal)).trace
    await memory.record(signal, Decision(turn_id=turn_id, text="Noted."))
    assert trace is not None
    return trace


def rules(memory: AccMemory) -> list[str]:
    return [constraint.text for constraint in memory.state.constraints]
