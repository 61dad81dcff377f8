"""Breaking changes, vague contracts, mismatched fields, and generated clients."""

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest
from seed_nodes import SummarizeTextNode, resolve_network_issue

from acc import InvalidInput
from acc.application.contracts.stub import generate_client
from acc.application.lint.contract_rules import find_mismatches, vague_parts
from acc.contracts import Field, IntentContract, intent, object_schema
from acc.domain.contract_changes import ChangeKind, compare_contracts
from acc.domain.value_objects.contract import contract_from_json, contract_to_json


def contract(
    inputs: dict[str, Field] | None = None,
    outputs: dict[str, Field] | None = None,
    **options: Any,
) -> IntentContract:
    return IntentContract(
        name=options.pop("name", "place_order"),
        description="Places an order in the shop.",
        input_schema=object_schema(inputs or {"item": Field(type=str)}),
        output_schema=object_schema(outputs or {"number": Field(type=int)}),
        **options,
    )


STR, INT = Field(type=str), Field(type=int)
SIZES = Field(type=Literal["s", "l"])
MORE_SIZES = Field(type=Literal["s", "m", "l"])


@pytest.mark.parametrize(
    ("old", "new", "is_breaking"),
    [
        (contract({"a": STR}), contract({"a": STR, "b": STR}), True),
        (contract({"a": STR}), contract({"a": STR, "b": Field(type=str, default="")}), False),
        (contract({"a": STR, "b": STR}), contract({"a": STR}), True),
        (contract({"a": Field(type=str, required=False)}), contract({"a": STR}), True),
        (contract({"a": STR}), contract({"a": Field(type=str, required=False)}), False),
        (contract({"a": STR}), contract({"a": INT}), True),
        (contract({"a": INT}), contract({"a": Field(type=float)}), False),
        (contract({"a": Field(type=float)}), contract({"a": INT}), True),
        (contract({"a": STR}), contract({"a": Field(type=str | None)}), False),
        (contract({"a": Field(type=str | None)}), contract({"a": STR}), True),
        (contract({"a": SIZES}), contract({"a": MORE_SIZES}), False),
        (contract({"a": MORE_SIZES}), contract({"a": SIZES}), True),
        (contract({"a": SIZES}), contract({"a": STR}), False),
        (contract({"a": STR}), contract({"a": SIZES}), True),
        (contract(outputs={"a": STR}), contract(outputs={"a": STR, "b": STR}), False),
        (contract(outputs={"a": STR, "b": STR}), contract(outputs={"a": STR}), True),
        (
            contract(outputs={"a": STR}),
            contract(outputs={"a": Field(type=str, required=False)}),
            True,
        ),
        (
            contract(outputs={"a": Field(type=str, required=False)}),
            contract(outputs={"a": STR}),
            False,
        ),
        (contract(outputs={"a": INT}), contract(outputs={"a": Field(type=float)}), True),
        (contract(outputs={"a": Field(type=float)}), contract(outputs={"a": INT}), False),
        (contract(outputs={"a": SIZES}), contract(outputs={"a": MORE_SIZES}), True),
        (contract(outputs={"a": MORE_SIZES}), contract(outputs={"a": SIZES}), False),
        (contract({"a": Field(type=list[str])}), contract({"a": Field(type=list[int])}), True),
        (contract(), contract(permissions=["pay"]), True),
        (contract(permissions=["pay"]), contract(), False),
        (contract(idempotent=True), contract(), True),
        (contract(), contract(idempotent=True), False),
        (contract(), contract(name="cancel_order"), True),
    ],
)
def test_changes_are_classified(
    old: IntentContract, new: IntentContract, is_breaking: bool
) -> None:
    changes = compare_contracts([old], [new])
    assert changes
    assert (changes[0].kind is ChangeKind.BREAKING) is is_breaking


def schemas(inputs: Mapping[str, Any]) -> IntentContract:
    return IntentContract(name="place_order", input_schema={"type": "object", **inputs})


def item(**fields: Any) -> IntentContract:
    """Return a contract whose input `items` refers to a definition."""
    definition = {"type": "object", "properties": fields, "required": ["sku"]}
    items = {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    return schemas({"properties": {"items": items}, "$defs": {"Item": definition}})


def field(**schema: Any) -> IntentContract:
    return schemas({"properties": {"a": schema}})


@pytest.mark.parametrize(
    ("narrow", "wide", "place"),
    [
        (item(sku={"enum": ["a"]}), item(sku={"enum": ["a", "b"]}), "items[].sku"),
        (item(sku={"type": "integer"}), item(sku={"type": "number"}), "items[].sku"),
        (field(type="integer", maximum=1), field(type="integer", maximum=2), "maximum"),
        (field(type="integer", minimum=2), field(type="integer", minimum=1), "minimum"),
        (field(type="string", pattern="a"), field(type="string"), "pattern"),
        (schemas({"additionalProperties": False}), schemas({}), "other fields"),
        (schemas({"minProperties": 1}), schemas({}), "minProperties"),
        (
            field(type="object", additionalProperties={"type": "integer"}),
            field(type="object", additionalProperties={"type": "number"}),
            "a.*",
        ),
    ],
)
def test_change_in_a_nested_schema_breaks_in_one_direction(
    narrow: IntentContract, wide: IntentContract, place: str
) -> None:
    (breaking,) = compare_contracts([wide], [narrow])
    (compatible,) = compare_contracts([narrow], [wide])
    assert (breaking.kind, compatible.kind) == (ChangeKind.BREAKING, ChangeKind.COMPATIBLE)
    assert place in breaking.text


def test_definition_and_the_same_schema_in_place_are_equal() -> None:
    inline = {"type": "array", "items": {"type": "object", "properties": {}, "required": ["sku"]}}
    assert compare_contracts([item()], [schemas({"properties": {"items": inline}})]) == ()


def test_recursive_definitions_are_compared() -> None:
    def tree(name: str) -> IntentContract:
        fields = {"name": {"type": name}, "children": {"items": {"$ref": "#/$defs/Tree"}}}
        definition = {"type": "object", "properties": fields}
        return schemas(
            {"properties": {"root": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": definition}}
        )

    (change,) = compare_contracts([tree("string")], [tree("integer")])
    assert (change.kind, "'root.name'" in change.text) == (ChangeKind.BREAKING, True)


def test_memory_key_that_is_no_longer_read_breaks_callers() -> None:
    (change,) = compare_contracts([contract(reads=["a", "b"])], [contract(reads=["a"])])
    assert (change.kind, "'b'" in change.text) == (ChangeKind.BREAKING, True)
    assert compare_contracts([contract(reads=["a"])], [contract(reads=["*"])]) == ()


def test_equal_contracts_and_new_descriptions_are_no_change() -> None:
    other = {"item": Field(type=str, description="What is ordered")}
    assert compare_contracts([contract()], [contract(other)]) == ()


def test_contract_survives_json() -> None:
    original = contract(reads=["a*"], permissions=["pay"], idempotent=True)
    assert contract_from_json(contract_to_json(original)) == original


@pytest.mark.parametrize(
    "data", [3, {}, {"name": 3}, {"name": "a", "reads": "x"}, {"name": "a", "inputSchema": 3}]
)
def test_invalid_contract_data_are_rejected(data: Any) -> None:
    with pytest.raises(InvalidInput):
        contract_from_json(data)


def test_section_2_2_generic_contract_is_vague() -> None:
    def handle_request(inputs: dict[str, Any], memory: dict[str, Any]) -> dict[str, Any]:
        return {"action": "general_response"}

    found = vague_parts(intent(handle_request).contract)
    assert len(found) == 4
    assert "'handle_request'" in found[0]


def test_section_2_2_precise_contracts_are_not_vague() -> None:
    assert vague_parts(SummarizeTextNode().contract) == ()
    assert vague_parts(contract()) == ()
    named = vague_parts(intent(resolve_network_issue).contract)
    assert not any("name" in part for part in named)


@pytest.mark.parametrize(
    ("description", "is_vague"),
    [
        ("", True),
        ("Handles it.", True),
        ("Process the data.", True),
        ("処理する", True),
        ("なんでも対応する", True),
        ("請求書の金額を検証します", False),
        ("Extracts the vendor and the amount of an invoice.", False),
    ],
)
def test_vague_descriptions_are_found_in_both_languages(description: str, is_vague: bool) -> None:
    made = IntentContract(
        name="check_invoice",
        description=description,
        input_schema=object_schema({"a": STR}),
        output_schema=object_schema({"b": STR}),
    )
    assert bool(vague_parts(made)) is is_vague


@pytest.mark.parametrize(
    ("produced", "consumed", "found"),
    [
        ("summary", "summary_text", True),
        ("invoiceId", "invoice_id", True),
        ("sumary", "summary", True),
        ("summary", "summary", False),
        ("summary", "language", False),
    ],
)
def test_section_1_2_similar_fields_that_do_not_match_are_found(
    produced: str, consumed: str, found: bool
) -> None:
    first = contract({"text": STR}, {produced: STR}, name="first")
    second = contract({consumed: STR}, {"b": STR}, name="second")
    mismatches = find_mismatches([("first", first), ("second", second)])
    assert bool(mismatches) is found
    if found:
        assert mismatches[0] == ("second", consumed, "first", produced)


def test_generated_client_has_a_typed_method_for_each_intent() -> None:
    code = generate_client("desk", [SummarizeTextNode().contract, contract({"size": SIZES})])
    tree = ast.parse(code)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assert {"SummarizeTextOutputs", "PlaceOrderOutputs", "DeskClient"} == set(classes)
    assert "text: str," in code
    assert "length: str | None = None," in code
    assert "size: Literal['l', 's']," in code


def test_generated_client_contains_no_code_of_the_remote_agent() -> None:
    hostile = '"""\nimport os; os.abort()\n"""'
    made = IntentContract(
        name="run_it",
        description=hostile,
        input_schema={
            "type": "object",
            "properties": {hostile: {"type": "string"}, "class": {"enum": [hostile]}},
            "required": [hostile],
        },
    )
    tree = ast.parse(generate_client(hostile, [made]))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert imported == []
    assert not any(node.attr == "abort" for node in calls)


def test_agent_without_contracts_has_no_client() -> None:
    with pytest.raises(InvalidInput, match="no contracts"):
        generate_client("desk", [])


def test_generated_client_resolves_references_and_skips_unnamed_fields() -> None:
    first = item(sku={"type": "string"})
    colors = schemas(
        {
            "properties": {"color": {"$ref": "#/$defs/Color"}},
            "$defs": {"Color": {"enum": ["red", "blue"]}},
        }
    )
    unnamed = schemas({"properties": {"": {"type": "string"}}})
    code = generate_client("desk", [replace(first, name="one"), replace(colors, name="two")])
    assert "items: list[dict[str, Any]] | None = None," in code
    assert "color: Literal['red', 'blue'] | None = None," in code
    ast.parse(generate_client("desk", [unnamed]))


def test_intents_with_one_python_name_have_no_client() -> None:
    with pytest.raises(InvalidInput, match="same name in Python"):
        generate_client("desk", [contract(name="a.b"), contract(name="a_b")])
