"""Scripted responses and memories for tests of the model compressor."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from acc.adapters.memory.bm25 import Bm25EvidenceStore
from acc.adapters.memory.model_compressor import ModelCompressor
from acc.adapters.memory.qualifier import RuleQualifier
from acc.adapters.memory.rule_compressor import RuleCompressor
from acc.application.memory.acc import AccMemory
from acc.bootstrap.memory import token_counter
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal, TurnTrace
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest


def document(prompt: ModelRequest) -> dict[str, Any]:
    """Return the document of a compressor prompt."""
    content: dict[str, Any] = json.loads(prompt.query.partition("\n")[0])
    return content


def state_response(**fields: Any) -> str:
    """Return a response with all nine fields; fields that are not given are empty."""
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


def copy_statements(prompt: ModelRequest) -> str:
    """Return the earlier state with the statements of the turn and the evidence."""
    content = document(prompt)
    state, turn = content["earlier_state"], content["turn"]
    facts = [
        f"fact({sentence})" for sentence in turn["said"] if not sentence.endswith(("?", "か。"))
    ]
    used = [f"fact({item['text']})" for item in content["evidence"]]
    gist = turn["said"][-1] if turn["said"] else state["semantic_gist"]
    state["semantic_gist"] = gist[:240]
    known = dict.fromkeys([*state["relational_map"], *used, *facts])
    state["relational_map"] = [item for item in known if len(item) <= 320][-24:]
    state["retrieved_artifacts"] = [
        {"artifact_id": item["id"], "provenance": item["provenance"]}
        for item in content["evidence"]
    ][:8]
    state["episodic_trace"] = []
    return json.dumps(state, ensure_ascii=False)


def change_state(**fields: Any) -> Callable[[ModelRequest], str]:
    """Return a script that answers with the earlier state and some changed fields."""
    return lambda prompt: json.dumps(
        {**document(prompt)["earlier_state"], **fields}, ensure_ascii=False
    )


def model_memory(model: LanguageModelPort, *, budget: int = 512, **options: Any) -> AccMemory:
    """Return an ACC memory with a model compressor."""
    tokens = token_counter()
    return AccMemory(
        evidence=Bm25EvidenceStore(),
        qualifier=RuleQualifier(),
        compressor=ModelCompressor(
            model, RuleCompressor(), tokens=tokens, budget=budget, **options
        ),
        tokens=tokens,
        budget=budget,
    )


async def run_turn(memory: AccMemory, text: str, *, turn_id: int = 1, **options: Any) -> TurnTrace:
    """Run one turn and return its trace."""
    signal = TurnSignal(turn_id=turn_id, text=text, **options)
    trace = (await memory.view(signal)).trace
    await memory.record(ConversationTurn.of(turn_id, text, "Noted."))
    assert trace is not None
    return trace


def rules(memory: AccMemory) -> list[str]:
    return [constraint.text for constraint in memory.state.constraints]
