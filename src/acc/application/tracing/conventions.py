"""Names of spans, attributes and metrics.

`GEN_AI_*`, `A2A_*` and `MCP_*` follow the semantic conventions for generative AI, which are in
development, at the revision below. `ACC_*` are our own, where the conventions have no name.
`OPENINFERENCE_*` are for viewers that use OpenInference, such as Phoenix.
"""

from typing import Final

#: Revision of github.com/open-telemetry/semantic-conventions-genai.
REVISION: Final = "6718089fe6e0530fdf498d845f0532e9cf172c81"

GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
GEN_AI_WORKFLOW_NAME: Final = "gen_ai.workflow.name"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_CONVERSATION_COMPACTED: Final = "gen_ai.conversation.compacted"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_OUTPUT_TYPE: Final = "gen_ai.output.type"
GEN_AI_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
GEN_AI_SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

A2A_METHOD_NAME: Final = "a2a.method.name"
A2A_MESSAGE_ID: Final = "a2a.message.id"
A2A_TASK_ID: Final = "a2a.task.id"
A2A_TASK_STATE: Final = "a2a.task.state"
A2A_TENANT: Final = "a2a.tenant"
A2A_PROTOCOL_VERSION: Final = "a2a.protocol.version"

MCP_METHOD_NAME: Final = "mcp.method.name"

INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
SEARCH_MEMORY: Final = "search_memory"
UPSERT_MEMORY: Final = "upsert_memory"

METRIC_TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 - the name of a metric
METRIC_OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
METRIC_TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
METRIC_TOOL_DURATION: Final = "acc.tool.duration"
METRIC_TOOL_ERRORS: Final = "acc.tool.errors"
METRIC_RUN_DURATION: Final = "acc.run.duration"
METRIC_APPROVAL_WAIT: Final = "acc.approval.wait"
METRIC_MEMORY_TOKENS: Final = "acc.memory.tokens"
METRIC_MEMORY_REJECTIONS: Final = "acc.memory.rejections"
METRIC_CIRCUIT_CHANGES: Final = "acc.circuit.changes"

ACC_RUN_ID: Final = "acc.run.id"
ACC_RUN_STATUS: Final = "acc.run.status"
ACC_TRACE_ID: Final = "acc.trace_id"
ACC_REQUEST_ID: Final = "acc.request_id"
ACC_CALLER: Final = "acc.caller"
ACC_COST: Final = "acc.cost"
ACC_MEMORY_TOKENS_BEFORE: Final = "acc.memory.tokens.before"
ACC_MEMORY_TOKENS_AFTER: Final = "acc.memory.tokens.after"
ACC_MEMORY_RECALLED: Final = "acc.memory.recalled"
ACC_MEMORY_DROPPED: Final = "acc.memory.dropped"
ACC_MEMORY_REJECTED: Final = "acc.memory.rejected"
ACC_MEMORY_REJECTION_REASON: Final = "acc.memory.rejection.reason"
ACC_APPROVAL: Final = "acc.approval"
ACC_APPROVAL_DECISION: Final = "acc.approval.decision"
ACC_APPROVAL_WAIT_SECONDS: Final = "acc.approval.wait_seconds"
ACC_APPROVAL_REQUEST_ID: Final = "acc.approval.request_id"
ACC_STUB: Final = "acc.stub"

OPENINFERENCE_SPAN_KIND: Final = "openinference.span.kind"
OPENINFERENCE_SESSION: Final = "session.id"
KIND_AGENT: Final = "AGENT"
KIND_CHAIN: Final = "CHAIN"
KIND_LLM: Final = "LLM"
KIND_TOOL: Final = "TOOL"
KIND_RETRIEVER: Final = "RETRIEVER"
