"""The options of agents under the names of other libraries, and what to use instead."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NoReturn

from acc.domain.call_options import check_call
from acc.domain.errors import InvalidTree

_SETTINGS = "pass model_settings=ModelSettings({}=...)"
_CALLBACKS = "use before_model_callback=... or after_model_callback=..."
#: Options by the names that other libraries have for them. A value with a space is a sentence; of
#: the others, separated by "|", the first that the class has is the option.
HINTS = {
    **dict.fromkeys(
        ("code_executor", "include_contents", "memory", "model", "model_settings")
        + ("native_tools", "output_key", "planner", "tools"),
        "only Agent(...) has it; set it on the agents with a model",
    ),
    "instructions": "instruction",
    "system_prompt": "instruction",
    "system_prompts": "instruction",
    "system_message": "instruction",
    "system_instruction": "instruction",
    "system": "instruction",
    "prompt": "instruction",
    "role": "instruction",
    "goal": "instruction",
    "backstory": "instruction",
    "persona": "instruction",
    "developer_message": "instruction",
    "output_schema": "output_type|output_schema",
    "output_type": "output_type|output_schema",
    "result_type": "output_type|output_schema",
    "response_format": "output_type|output_schema",
    "response_model": "output_type|output_schema",
    "response_schema": "output_type|output_schema",
    "output_model": "output_type|output_schema",
    "output": "output_type|output_schema",
    "temperature": _SETTINGS.format("temperature"),
    "top_p": _SETTINGS.format("top_p"),
    "max_tokens": _SETTINGS.format("max_tokens"),
    "max_output_tokens": _SETTINGS.format("max_tokens"),
    "seed": _SETTINGS.format("seed"),
    "thinking": _SETTINGS.format("thinking"),
    "reasoning_effort": _SETTINGS.format("thinking"),
    "builtin_tools": "native_tools",
    "settings": "model_settings",
    "generate_content_config": "pass model_settings=ModelSettings(...)",
    "handoffs": "sub_agents",
    "agents": "sub_agents",
    "subagents": "sub_agents",
    "children": "sub_agents",
    "members": "sub_agents",
    "workers": "sub_agents",
    "team": "sub_agents",
    "nodes": "sub_agents",
    "steps": "sub_agents",
    "handoff_description": "description",
    "desc": "description",
    "functions": "tools",
    "function": "tools",
    "tool": "tools",
    "toolset": "tools",
    "toolsets": "tools",
    "skills": "tools",
    "capabilities": "tools",
    "mcp_servers": "pass tools=[McpToolset(...)]",
    "llm": "model",
    "model_name": "model",
    "model_id": "model",
    "model_client": "model",
    "id": "name",
    "agent_name": "name",
    "title": "name",
    "api_key": "the key is read from the environment variable of the provider, such as "
    "OPENAI_API_KEY; ProviderModel(..., api_key_env=...) names another variable",
    "base_url": 'write it into the name: model="openai-compatible:MODEL@https://host/v1"',
    "deps_type": "only agents with a model declare it: Agent[Deps, Output](...)",
    "deps": "pass deps=... to Runner or to run",
    "dependencies": "pass deps=... to Runner or to run",
    "context_type": "deps_type",
    "plugins": "pass plugins=[...] to Runner",
    "max_turns": "pass config=RunConfig(max_llm_calls=...) to Runner or to run",
    "max_llm_calls": "pass config=RunConfig(max_llm_calls=...) to Runner or to run",
    "max_steps": "pass config=RunConfig(max_llm_calls=...) to Runner or to run",
    "max_iterations": "LoopAgent(max_iterations=...) repeats agents; for one agent pass "
    "config=RunConfig(max_llm_calls=...) to Runner or to run",
    "max_repairs": "pass config=RunConfig(max_repairs=...) to Runner or to run",
    "max_retries": "pass config=RunConfig(max_repairs=...) to Runner or to run",
    "timeout": "pass config=RunConfig(timeout=...) to Runner or to run",
    "config": "pass config=RunConfig(...) to Runner or to run",
    "session_service": "pass store=... to Runner",
    "session": "pass session_id=... to run",
    "session_id": "pass session_id=... to run",
    "user_id": "pass user_id=... to run",
    "store": "pass store=... to Runner",
    "checkpointer": "pass store=... to Runner",
    "messages": "pass the message to run; earlier messages are in the session",
    "message_history": "pass the message to run; earlier messages are in the session",
    "history": "pass the message to run; earlier messages are in the session",
    "stream": "use runner.stream(...)",
    "state": "use runner.update_state(...), or ctx.state in tools and callbacks",
    "guardrails": _CALLBACKS,
    "input_guardrails": _CALLBACKS,
    "output_guardrails": _CALLBACKS,
    "hooks": _CALLBACKS,
    "human_in_the_loop": "confirm",
    "approval": "confirm",
}
#: Attributes by the names that other libraries have for them.
ATTRIBUTE_HINTS = {
    "run_async": "run",
    "arun": "run",
    "ainvoke": "run",
    "invoke": "run_sync",
    "chat": "run_sync",
    "ask": "run_sync",
    "generate": "run_sync",
    "stream": "use Runner(agent).stream(message)",
    "run_stream": "use Runner(agent).stream(message)",
    "iter": "use Runner(agent).stream(message)",
    "add_tool": "pass tools=[...] when the agent is built",
    "as_tool": "pass the agent itself: tools=[agent]",
    "to_tool": "pass the agent itself: tools=[agent]",
    "clone": "use dataclasses.replace(agent, name=...)",
}


class DefaultModel(str):
    """The name of the model of an agent that was built without one."""

    __slots__ = ()


DEFAULT_MODEL = DefaultModel("embedded")


def check_agent_call(
    cls: type[object], arguments: Sequence[object], options: Mapping[str, object]
) -> None:
    """Raise InvalidTree if an agent class has no such options, or needs others.

    A call without anything is not checked, because copies are created that way.
    """
    if not arguments and not options:
        return
    name = "Agent" if cls.__name__ == "LlmAgent" else ""
    check_call(cls, arguments, options, name=name, hints=HINTS, error=InvalidTree)


def reject_assignment(agent_name: str, option: str) -> NoReturn:
    """Raise InvalidTree for an option that is set after its agent was built."""
    raise InvalidTree(
        f"agent {agent_name!r}: {option} has no effect after the agent is built; pass {option}=... "
        "when it is built"
    )


def apply_class_options(agent: Any) -> None:
    """Use options that the class of an agent sets as attributes, such as `input_schema`.

    The initializer of the dataclass would replace them by the defaults of its fields.
    """
    for option in fields(agent):
        declared = getattr(type(agent), option.name, option.default)
        is_set = declared is not option.default and not hasattr(declared, "__get__")
        if is_set and option.init and getattr(agent, option.name) is option.default:
            setattr(agent, option.name, declared)
