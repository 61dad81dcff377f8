"""Calls of public classes and functions that cannot work, and what the errors say."""

from collections.abc import Callable
from typing import Any

import pytest

import acc
from acc import (
    Agent,
    BaseAgent,
    InvalidInput,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    RunContext,
    Runner,
)
from acc.a2a import create_app
from acc.testing import ScriptedModel

#: Type checkers reject these calls too.
public: Any = acc


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda: public.Part(content="x"), "use text=..."),
        (lambda: public.Part("x", mime_type="text/plain"), "use media_type=..."),
        (lambda: public.ChatMessage("x"), "ChatMessage(role=..., ...)"),
        (lambda: public.ChatMessage(role="user", content="x"), "use parts=..."),
        (lambda: public.CallContext(), "needs caller=..., request_id=..., trace_id=..."),
        (lambda: public.CallContext(user_id="u"), "use caller=..."),
        (lambda: public.ModelResponse("x"), "ModelResponse(text=..., ...)"),
        (lambda: public.ModelResponse(content="x"), "use text=..."),
        (lambda: public.MemoryView("x"), "MemoryView("),
        (lambda: public.ConversationTurn(turn=1, messages=()), "use turn_id=..."),
        (lambda: public.TurnSignal(turn_id=1), "needs text=..."),
        (lambda: public.ApiKey(key="k"), "use value=..."),
        (lambda: public.BasicAuth(username="u", password="p"), "use user=..."),
        (lambda: public.FunctionTool(), "needs func=..."),
        (lambda: public.FunctionTool(fn=len), "use func=..."),
        (lambda: public.ProviderModel(), "needs name=..."),
        (lambda: public.make_agent("x"), "needs kind=..."),
        (lambda: public.make_agent("x", memory="acc"), "use kind=..."),
        (lambda: public.make_memory(), "needs kind=..."),
        (lambda: public.acc_memory(max_tokens=5), "use budget=..."),
        (lambda: public.acc_memory(512), "acc_memory(budget=..., ...)"),
        (lambda: public.Edge("a"), "needs target=..."),
        (lambda: public.Edge(source="a", to="b"), "use target=..."),
        (lambda: public.Grant(reads=("a",)), "use read=..."),
        (lambda: public.TranscriptMemory(500), "TranscriptMemory(tokens=..., ...)"),
        (lambda: public.AgentTurnResponse("x"), "AgentTurnResponse("),
        (lambda: public.EvaluationTurnQuery(text="x"), "has no option 'text'"),
        (lambda: public.support_score("claim"), "needs document=..."),
    ],
)
def test_wrong_call_names_the_fix(call: Callable[[], object], fix: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert fix in str(caught.value)


@pytest.mark.parametrize(
    "call", [lambda: public.ApiKey("hunter2"), lambda: public.BasicAuth("ann", "hunter2")]
)
def test_credential_without_a_keyword_is_not_shown(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert "hunter2" not in str(caught.value)
    assert "a value of type str" in str(caught.value)


def test_error_of_a_field_is_not_replaced() -> None:
    with pytest.raises(InvalidInput, match="exactly one of text"):
        public.Part()


async def test_fork_to_an_empty_id_is_rejected() -> None:
    runner = Runner(Agent(name="a", model=ScriptedModel("ok")))
    await runner.run("hi")
    with pytest.raises(InvalidInput, match="new_session_id must not be empty"):
        await runner.sessions.fork(new_session_id="")
    copy = await runner.sessions.fork()
    assert copy.key.session_id not in ("", "default")


async def test_model_with_sync_complete_names_the_signature() -> None:
    class Model:
        def complete(self, prompt: ModelRequest) -> Any:
            return ModelResponse(text="ok")

    with pytest.raises(ModelFailed, match=r"Model.complete must be `async def complete\(self"):
        await Agent(name="a", model=Model()).run("hi")


async def test_error_of_an_agent_that_returns_a_coroutine_names_await() -> None:
    async def later() -> str:
        return "x"

    pending = later()

    class Hasty(BaseAgent):
        async def run(self, ctx: RunContext) -> Any:
            return pending

    with pytest.raises(InvalidInput, match="write await before the call"):
        await Runner(Hasty(name="h")).run("hi")
    pending.close()


def test_memory_kind_that_is_not_a_name_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="kind must be the name of a memory"):
        public.make_memory(3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"grpc_port": "x"}, "the port of gRPC must be a number from 1 to 65535, got 'x'"),
        ({"grpc_port": True}, "from 1 to 65535, got True"),
        ({"grpc_port": 50051, "grpc_host": 5}, "the host of gRPC must be an address"),
        ({"limits": 5}, "limits must be ServerLimits"),
        ({"card": "card.json"}, "card must be a CardConfig or read_card"),
        ({"hosts": "localhost"}, "hosts must be a list of host names, got str"),
        ({"allow": "localhost"}, "allow must be a list of hosts, got str"),
        ({"verifier": "acc_token"}, "verifier must be a token verifier, got str"),
        ({"limiter": 5}, "limiter must be a RateLimiter"),
        ({"used_ids": "acc.db"}, "used_ids must be UsedIds"),
    ],
    ids=str,
)
def test_create_app_rejects_values_of_other_types(options: Any, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        create_app(Agent(name="desk", model=ScriptedModel("hello")), **options)
    assert expected in str(caught.value)


@pytest.mark.parametrize("store", ["memory", "acc.db"])
def test_runner_rejects_files_that_are_not_a_location(store: str) -> None:
    files: Any = 5
    with pytest.raises(InvalidInput, match="files must be the path of a directory"):
        Runner(Agent(name="desk", model=ScriptedModel("hello")), store=store, files=files)
