"""Cards that the owner of an agent declares, in Python and in files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict
from http_app import served

from acc import Agent, BaseAgent, InvalidInput, RunContext, tool
from acc.a2a import (
    A2AServer,
    CardConfig,
    Skill,
    StaticTokens,
    TokenEntry,
    create_app,
    read_card,
    token_hash,
)
from acc.contracts import IntentAgent, intent
from acc.testing import ScriptedModel

#: The card of section 6.3 of the specification, as it is printed there.
SEED_CARD = json.loads("""
{
  "name": "InvoiceProcessingAgent",
  "description": "請求書の解析、バリデーション、データ抽出を専門とするAgent",
  "version": "2.1.0",
  "url": "https://finance.example.com/agents/invoice",
  "capabilities": {
    "streaming": true,
    "pushNotifications": true,
    "stateTransitionHistory": false
  },
  "securitySchemes": {
    "oauth2": {
      "type": "oauth2",
      "flows": {
        "clientCredentials": {
          "tokenUrl": "https://auth.example.com/token",
          "scopes": {
            "agent.invoke": "Agentの呼び出し権限",
            "agent.read": "Agentの状態読み取り権限"
          }
        }
      }
    }
  },
  "defaultInputModes": ["text/plain", "application/json"],
  "defaultOutputModes": ["application/json"],
  "skills": [
    {
      "id": "extract_invoice_data",
      "name": "請求書データ抽出",
      "description": "PDFまたはJSONの請求書から構造化データを抽出します",
      "tags": ["finance", "extraction", "invoice"],
      "inputModes": ["application/pdf", "application/json"],
      "outputModes": ["application/json"],
      "examples": [
        "この請求書のベンダー情報と金額を抽出してください",
        "PDFから品目リストをJSON形式で取得してください"
      ]
    },
    {
      "id": "validate_invoice",
      "name": "請求書バリデーション",
      "description": "請求書の必須フィールドと金額整合性を検証します",
      "tags": ["finance", "validation"],
      "inputModes": ["application/json"],
      "outputModes": ["application/json"]
    }
  ],
  "supportsAuthenticatedExtendedCard": true
}
""")
CARD_PATH = "/.well-known/agent-card.json"
ADMIN, CLERK = "admin-token", "clerk-token"
VERIFIER = StaticTokens(
    [
        TokenEntry(
            sha256=token_hash(ADMIN),
            caller="admin",
            permissions=["agent.invoke", "agent.read", "invoice.pay"],
        ),
        TokenEntry(
            sha256=token_hash(CLERK), caller="clerk", permissions=["agent.invoke", "agent.read"]
        ),
    ]
)


class PdfModel(ScriptedModel):
    input_types = ("application/pdf",)


def invoice_agent(model: ScriptedModel | None = None) -> Agent[Any, Any]:
    return Agent(
        name="invoice",
        model=model or PdfModel("{}"),
        output_type=dict[str, int],
        tools=[look_up],
    )


@tool
def look_up(vendor: str) -> str:
    """Look up a vendor."""
    return vendor


def write(folder: Path, document: Any, name: str = "card.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return path


async def card_of(app: A2AServer) -> Any:
    async with served(app) as opened:
        return (await opened.get(CARD_PATH)).json()


async def test_card_of_specification_is_reproduced_from_its_own_text(tmp_path: Path) -> None:
    config = read_card(write(tmp_path, SEED_CARD))
    card = await card_of(create_app(invoice_agent(), card=config, verifier=VERIFIER))
    published = {name: card[name] for name in SEED_CARD}
    published["capabilities"] = {
        name: card["capabilities"][name] for name in SEED_CARD["capabilities"]
    }
    scheme = published["securitySchemes"]["oauth2"]
    assert scheme.pop("oauth2SecurityScheme") == {
        "flows": SEED_CARD["securitySchemes"]["oauth2"]["flows"]
    }
    assert published == SEED_CARD
    assert card["security"] == [{"oauth2": ["agent.invoke", "agent.read"]}]


async def test_card_of_specification_is_valid_in_version_1_0(tmp_path: Path) -> None:
    config = read_card(write(tmp_path, SEED_CARD))
    app = create_app(invoice_agent(), card=config, verifier=VERIFIER, protocol_versions=("1.0",))
    document = await card_of(app)
    scheme = document["securitySchemes"]["oauth2"]
    document["securitySchemes"]["oauth2"] = {"oauth2SecurityScheme": scheme["oauth2SecurityScheme"]}
    card = ParseDict(document, a2a_pb2.AgentCard())  # rejects unknown fields
    assert card.name == SEED_CARD["name"]
    assert card.version == "2.1.0"
    assert {one.url for one in card.supported_interfaces} == {SEED_CARD["url"]}
    flow = card.security_schemes["oauth2"].oauth2_security_scheme.flows.client_credentials
    assert (
        dict(flow.scopes)
        == (SEED_CARD["securitySchemes"]["oauth2"]["flows"]["clientCredentials"]["scopes"])
    )
    assert list(card.security_requirements[0].schemes["oauth2"].list) == [
        "agent.invoke",
        "agent.read",
    ]
    assert [list(skill.input_modes) for skill in card.skills] == [
        ["application/pdf", "application/json"],
        ["application/json"],
    ]


async def test_toml_file_declares_the_same_card(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(
        'name = "請求書"\nversion = "3"\npublic = ["*", "!pay"]\n'
        '[[skills]]\nid = "read"\nname = "Read"\ndescription = "Reads."\n'
        '[[skills]]\nid = "pay"\nname = "Pay"\ndescription = "Pays."\n',
        encoding="utf-8",
    )
    assert read_card(path) == CardConfig(
        name="請求書",
        version="3",
        public=("*", "!pay"),
        skills=(
            Skill(id="read", name="Read", description="Reads."),
            Skill(id="pay", name="Pay", description="Pays."),
        ),
    )


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"nmae": "x"}, "nmae: is not a field"),
        ({"skills": [{"id": "a", "name": "A", "description": "", "tag": []}]}, "skills[0].tag"),
        ({"skills": [{"id": "a"}]}, "skills[0]"),
        ({"version": 2}, "version"),
        ({"capabilities": {"streaming": False}}, "capabilities.streaming"),
        ({"capabilities": {"speed": True}}, "capabilities.speed"),
        ({"signatures": []}, "--sign-card"),
        ({"supportedInterfaces": []}, "--public-url"),
        ([], "card.json"),
    ],
)
def test_invalid_file_is_rejected_with_its_field(tmp_path: Path, document: Any, field: str) -> None:
    path = write(tmp_path, document)
    with pytest.raises(InvalidInput) as caught:
        read_card(path)
    assert field in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["card.json", "card.toml", "missing.json"])
def test_unreadable_file_is_rejected(tmp_path: Path, name: str) -> None:
    for broken in ("card.json", "card.toml"):
        (tmp_path / broken).write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInput, match=name):
        read_card(tmp_path / name)


SKILL = Skill(id="pay", name="Pay", description="Pays.")
OAUTH: dict[str, Any] = SEED_CARD["securitySchemes"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (CardConfig(input_modes=("application/pdf",)), "defaultInputModes: 'application/pdf'"),
        (CardConfig(input_modes=("text",)), "'text' is not a media type"),
        (CardConfig(output_modes=("application/json",)), "output_type"),
        (CardConfig(skills=(SKILL, SKILL)), "occurs 2 times"),
        (CardConfig(skills=(Skill(id="a", name="", description="x"),)), "skills[0].name"),
        (
            CardConfig(
                skills=(Skill(id="a", name="A", description="x", input_modes=("image/png",)),)
            ),
            "skills[0].inputModes",
        ),
        (CardConfig(url="desk"), "url"),
        (CardConfig(state_transition_history=True), "stateTransitionHistory"),
        (CardConfig(security=({"oauth2": ()},)), "not declared"),
        (CardConfig(security_schemes=OAUTH, security=({"oauth2": ("x",)},)), "scope 'x'"),
        (CardConfig(security_schemes={"k": {"type": "apiKey"}}), "cannot be verified"),
        (CardConfig(security_schemes={"o": {"type": "oauth2", "flows": {}}}), "flows"),
        (
            CardConfig(security_schemes={"o": {"type": "oauth2", "flows": {"magic": {}}}}),
            "magic: is unknown",
        ),
        (
            CardConfig(
                security_schemes={"o": {"type": "oauth2", "flows": {"implicit": {"scopes": {}}}}}
            ),
            "authorizationUrl",
        ),
    ],
)
def test_untrue_declaration_is_an_error(config: CardConfig, field: str) -> None:
    agent = Agent(name="desk", model=ScriptedModel("x"))
    with pytest.raises(InvalidInput) as caught:
        create_app(agent, card=config, verifier=VERIFIER)
    assert field in str(caught.value)


@pytest.mark.parametrize(
    "config", [CardConfig(security_schemes=OAUTH), CardConfig(extended_card=True)]
)
def test_declared_security_needs_verification_of_callers(config: CardConfig) -> None:
    with pytest.raises(InvalidInput, match="--tokens"):
        create_app(Agent(name="desk", model=ScriptedModel("x")), card=config)


def test_published_url_must_be_callable() -> None:
    agent = Agent(name="desk", model=ScriptedModel("x"))
    for url in ("http://0.0.0.0:8000", "http://[::]:8000", "https://a.example/?x=1"):
        with pytest.raises(InvalidInput):
            create_app(agent, public_url=url)


def test_tokens_over_plain_http_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(name="desk", model=ScriptedModel("x"))
    create_app(agent, public_url="http://127.0.0.1:8000", verifier=VERIFIER)
    create_app(agent, public_url="https://desk.example", verifier=VERIFIER)
    create_app(agent, public_url="http://desk.example")
    assert caplog.messages == []
    create_app(agent, public_url="http://desk.example", verifier=VERIFIER)
    assert "without encryption" in caplog.text


async def test_modes_that_the_model_cannot_process_are_not_declared() -> None:
    text = await card_of(create_app(Agent(name="desk", model=ScriptedModel("x"))))
    pdf = await card_of(create_app(Agent(name="desk", model=PdfModel("x"))))
    assert text["defaultInputModes"] == ["text/plain", "application/json"]
    assert pdf["defaultInputModes"] == ["text/plain", "application/json", "application/pdf"]


async def test_modes_of_code_are_those_that_its_owner_declares() -> None:
    class Reader(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return "read"

    config = CardConfig(input_modes=("application/pdf",))
    async with served(create_app(Reader(name="reader"), card=config)) as app:
        assert (await app.get(CARD_PATH)).json()["defaultInputModes"] == ["application/pdf"]
        refused = await app.send("text")
        assert refused.json()["error"]["code"] == -32005


async def test_declared_input_mode_of_a_skill_is_accepted(tmp_path: Path) -> None:
    config = read_card(write(tmp_path, SEED_CARD))
    app = create_app(invoice_agent(), card=config, verifier=VERIFIER)
    part = {"raw": "JVBERg==", "mediaType": "application/pdf"}
    image = {"raw": "JVBERg==", "mediaType": "image/png"}
    async with served(app) as opened:
        for number, (sent, code) in enumerate([(part, None), (image, -32005)]):
            message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [sent]}
            answer = await opened.rpc("SendMessage", {"message": message}, ADMIN)
            assert answer.json().get("error", {}).get("code") == code


def skills_of(card: Any) -> list[str]:
    return [skill["id"] for skill in card["skills"]]


PAY = Skill(id="pay", name="Pay", description="Pays.", security=({"bearer": ("invoice.pay",)},))


async def extended(app: A2AServer, *tokens: str) -> Sequence[Any]:
    async with served(app) as opened:
        cards = [(await opened.get("/extendedAgentCard", token)).json() for token in tokens]
        public = (await opened.get(CARD_PATH)).json()
    return [public, *cards]


async def test_extended_card_lists_what_the_caller_may_use() -> None:
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    config = CardConfig(
        skills=(SKILL, PAY)[1:] + (Skill(id="read", name="Read", description="Reads."),),
        public=("read",),
        security_schemes=schemes,
    )
    agent = Agent(name="desk", model=ScriptedModel("x"), tools=[look_up])
    public, admin, clerk = await extended(
        create_app(agent, card=config, verifier=VERIFIER), ADMIN, CLERK
    )
    assert skills_of(public) == ["read"]
    assert skills_of(admin) == ["pay", "read", "desk", "desk.look_up"]
    assert skills_of(clerk) == ["read", "desk", "desk.look_up"]
    assert admin["skills"][0]["securityRequirements"] == [
        {"schemes": {"bearer": {"list": ["invoice.pay"]}}}
    ]


async def test_owner_hides_tools_on_both_cards() -> None:
    config = CardConfig(public=("*", "!desk.*"), extended=("*", "!desk.*"))
    agent = Agent(name="desk", model=ScriptedModel("x"), tools=[look_up])
    public, admin = await extended(create_app(agent, card=config, verifier=VERIFIER), ADMIN)
    assert skills_of(public) == skills_of(admin) == ["desk"]


@intent(permissions=["invoice.pay"])
def pay(amount: int) -> dict[str, bool]:
    """Pay an invoice."""
    return {"paid": amount > 0}


@intent
def read(number: str) -> dict[str, str]:
    """Read an invoice."""
    return {"text": number}


async def test_contracts_of_hidden_skills_are_not_published() -> None:
    agent = IntentAgent(name="desk", intents=[pay, read])
    config = CardConfig(public=("*", "!pay"))
    async with served(create_app(agent, card=config, verifier=VERIFIER)) as app:
        card = (await app.get(CARD_PATH)).text
        contracts = (await app.get("/contracts")).json()
        openapi = (await app.get("/openapi.json")).text
        admin = (await app.get("/extendedAgentCard", ADMIN)).json()
        clerk = (await app.get("/extendedAgentCard", CLERK)).json()
    assert "Pay an invoice" not in card + openapi
    assert [one["name"] for one in contracts["contracts"]] == ["read"]
    assert "pay" in skills_of(admin)
    assert "pay" not in skills_of(clerk)
    assert "Pay an invoice" not in json.dumps(clerk)


async def test_scopes_of_a_declared_skill_are_required() -> None:
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    agent = IntentAgent(name="desk", intents=[read])
    restricted = Skill(
        id="read", name="Read", description="Reads.", security=({"bearer": ("invoice.pay",)},)
    )
    config = CardConfig(skills=(restricted,), security_schemes=schemes)
    async with served(create_app(agent, card=config, verifier=VERIFIER)) as app:
        body = json.dumps({"intent": "read", "inputs": {"number": "7"}})
        replies = [
            await app.http.post("/run", content=body, headers=app._head(token, None))
            for token in (ADMIN, CLERK)
        ]
        listed = await app.rpc("ListTasks", {}, CLERK)
    assert [reply.status_code for reply in replies] == [200, 403]
    assert 'scope="invoice.pay"' in replies[1].headers["www-authenticate"]
    assert listed.json()["result"]["totalSize"] == 0


async def test_push_is_refused_if_the_card_denies_it() -> None:
    config = CardConfig(push_notifications=False)
    agent = Agent(name="desk", model=ScriptedModel("x"))
    async with served(create_app(agent, card=config)) as app:
        card = (await app.get(CARD_PATH)).json()
        refused = await app.rpc(
            "CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://a.example/"}
        )
    assert card["capabilities"]["pushNotifications"] is False
    assert refused.json()["error"]["code"] == -32003


async def test_artifact_has_its_description_on_the_wire() -> None:
    class Publisher(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.publish("report", "a", last=False, description="売上の報告")
            await ctx.artifacts.publish("report", "b", append=True)
            await ctx.artifacts.save("table", "1,2", description="The table.")
            return "done"

    async with served(create_app(Publisher(name="publisher"))) as app:
        task = (await app.send()).json()["result"]["task"]
    assert {one["name"]: one.get("description") for one in task["artifacts"]} == {
        "report": "売上の報告",
        "table": "The table.",
        "answer": None,
    }


async def test_card_file_of_the_guide_is_served(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "a2a.md").read_text(encoding="utf-8")
    path = tmp_path / "card.toml"
    path.write_text(guide.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    card = await card_of(create_app(invoice_agent(), card=read_card(path), verifier=VERIFIER))
    assert card["name"] == "InvoiceProcessingAgent"
    assert skills_of(card) == ["extract_invoice_data"]
