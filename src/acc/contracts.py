"""Contracts of intents: schemas, nodes, and calls that are validated before they run."""

from acc.application.contracts.idempotency import IntentOutputs
from acc.application.contracts.intents import IntentAgent, Intents, intent_message
from acc.application.contracts.schemas import Field, ToolSchema, contract_of_agent, object_schema
from acc.bootstrap.contracts import (
    FunctionNode,
    ToolNode,
    intent,
    run_agent,
    run_agent_async,
)
from acc.domain.contract_errors import (
    FieldViolation,
    InvalidInputs,
    InvalidOutputs,
    RequestIdReused,
    UnknownIntent,
    VaguePacket,
)
from acc.domain.value_objects.contract import INTENTS_EXTENSION, IntentContract

__all__ = [
    "INTENTS_EXTENSION",
    "Field",
    "FieldViolation",
    "FunctionNode",
    "IntentAgent",
    "IntentContract",
    "IntentOutputs",
    "Intents",
    "InvalidInputs",
    "InvalidOutputs",
    "RequestIdReused",
    "ToolNode",
    "ToolSchema",
    "UnknownIntent",
    "VaguePacket",
    "contract_of_agent",
    "intent",
    "intent_message",
    "object_schema",
    "run_agent",
    "run_agent_async",
]
