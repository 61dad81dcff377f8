"""A sequential pipeline: collect the data of a new user, then validate it (section 5.1).

The tool of the first agent writes to the session state. The instruction of the second agent reads
it with the placeholder `{user_email_collected}`. The example prints the state changes, the
instruction of the second agent, and a pipeline that stops because the data is invalid.

Run it: python examples/onboarding_pipeline.py
"""

import asyncio
import re

from acc import Agent, ModelRequest, Runner, SequentialAgent, ToolCall, ToolContext
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
        tool_context.actions.escalate = True  # stop the pipeline
    return {"is_valid": is_valid, "email": email}


def validate_address(prompt: ModelRequest) -> ToolCall:
    """Return the response of the model: validate the address in the instruction."""
    print(f"  instruction of the validator: {prompt.instruction}")
    return call("validate_email_format", email=prompt.instruction.rpartition(" ")[2])


def pipeline(name: str, email: str) -> SequentialAgent:
    """Return the pipeline; scripts replace the models."""
    data_collection_agent = Agent(
        name="data_collector",
        model=ScriptedModel(call("gather_user_data", name=name, email=email), "収集しました。"),
        instruction="ユーザーの名前とメールアドレスを収集します。",
        tools=[gather_user_data],
    )
    email_validation_agent = Agent(
        name="email_validator",
        model=ScriptedModel(validate_address, "検証しました。"),
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
    """Onboard a user with a valid address and one with an invalid address."""
    results = []
    for name, email in (("山田", "yamada@example.com"), ("佐藤", "sato-at-example")):
        tree = pipeline(name, email)
        result = await Runner(tree).run(user_id="u1", session_id="s1", message=f"{name} {email}")
        results.append(result)
        for event in result.events:
            if event.actions.state_delta:
                print(f"  {event.author} wrote {dict(event.actions.state_delta)}")
        print(result.text)

    valid, invalid = results
    assert valid.state["email_validated"] is True and valid.text == "山田さん、ようこそ。"
    assert invalid.state["email_validated"] is False
    assert "welcome" not in invalid.state
    assert "welcomer" not in {event.author for event in invalid.events}


if __name__ == "__main__":
    asyncio.run(main())
