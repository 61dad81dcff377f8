"""A sequential pipeline: collect a new user's data, then validate it (section 5.1).

The first agent's tool writes to the session's state, and the second finds it there: its
instruction holds the placeholder `{user_email_collected}`. You will see the state after each step,
the prompt the second model really got, and a step that stops the pipeline when the data is bad.

Run it: python examples/onboarding_pipeline.py
"""

import asyncio
import re

from acc import Agent, Prompt, Runner, SequentialAgent, ToolCall, ToolContext
from acc.testing import ScriptedModel, call


def gather_user_data(name: str, email: str, tool_context: ToolContext) -> dict[str, str]:
    """ユーザー名とメールを収集してセッション状態に保存"""
    tool_context.state["user_name_collected"] = name
    tool_context.state["user_email_collected"] = email
    return {"status": "success", "message": f"{name}のデータを収集しました"}


def validate_email_format(email: str, tool_context: ToolContext) -> dict[str, object]:
    """メールアドレス形式を検証"""
    is_valid = re.fullmatch(r"[\w.-]+@[\w.-]+\.\w+", email) is not None
    tool_context.state["email_validated"] = is_valid
    if not is_valid:
        tool_context.actions.escalate = True  # nobody after this one shall run
    return {"is_valid": is_valid, "email": email}


def the_address(prompt: Prompt) -> ToolCall:
    """Do what a real model would: take the address out of the instruction and check it."""
    print(f"  the validator was told: {prompt.instruction}")
    return call("validate_email_format", email=prompt.instruction.rpartition(" ")[2])


def pipeline(name: str, email: str) -> SequentialAgent:
    """Return the pipeline; the scripts stand in for models that listen to the user."""
    data_collection_agent = Agent(
        name="data_collector",
        model=ScriptedModel(call("gather_user_data", name=name, email=email), "収集しました。"),
        instruction="ユーザーの名前とメールアドレスを収集します。",
        tools=[gather_user_data],
    )
    email_validation_agent = Agent(
        name="email_validator",
        model=ScriptedModel(the_address, "検証しました。"),
        instruction="validate_email_format で検証してください: {user_email_collected}",
        tools=[validate_email_format],
    )
    welcome_agent = Agent(
        name="welcomer",
        model=ScriptedModel(lambda prompt: prompt.instruction),
        instruction="{user_name_collected}さん、ようこそ。",
        output_key="welcome",
    )
    return SequentialAgent(
        name="user_onboarding_orchestrator",
        description="新規ユーザーオンボーディングパイプライン",
        sub_agents=[data_collection_agent, email_validation_agent, welcome_agent],
    )


async def main() -> None:
    """Onboard one user with a good address and one with a bad one."""
    results = []
    for name, email in (("山田", "yamada@example.com"), ("佐藤", "sato-at-example")):
        tree = pipeline(name, email)
        result = await Runner(tree).run(user_id="u1", session_id="s1", message=f"{name} {email}")
        results.append(result)
        for event in result.events:
            if event.actions.state_delta:
                print(f"  {event.author} wrote {dict(event.actions.state_delta)}")
        print(result.text)

    good, bad = results
    assert good.state["email_validated"] is True and good.text == "山田さん、ようこそ。"
    assert bad.state["email_validated"] is False
    assert "welcome" not in bad.state and "welcomer" not in {event.author for event in bad.events}


if __name__ == "__main__":
    asyncio.run(main())
