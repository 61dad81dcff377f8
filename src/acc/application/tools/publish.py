"""The tool with which a model publishes events."""

from collections.abc import Mapping, Sequence

from acc.application.tools.tool import BaseTool, ToolContext
from acc.domain.errors import ModelRetry
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.cloud_event import check_event_patterns, matches_event_type


def publish_event(*, allow: Sequence[str], name: str = "publish_event") -> "PublishEventTool":
    """Return a tool that publishes events of the allowed types, such as `("order.*",)`."""
    return PublishEventTool(allow=allow, name=name)


class PublishEventTool(BaseTool):
    """Publishes an event to other agents; the model chooses its type among the allowed ones.

    A call that is repeated after a crash publishes the same event, which is sent once.
    """

    def __init__(self, *, allow: Sequence[str], name: str = "publish_event") -> None:
        self.allow = check_event_patterns(allow, "allow")
        allowed = ", ".join(self.allow)
        super().__init__(
            name=name,
            description=f"Publish an event to other agents. Allowed event types: {allowed}.",
            parameters={
                "type": "object",
                "properties": {
                    "event_type": {
                        "type": "string",
                        "description": f"Type of the event, one of: {allowed}",
                    },
                    "payload": {"type": "object", "description": "Content of the event"},
                },
                "required": ["event_type", "payload"],
                "additionalProperties": False,
            },
            idempotent=True,
        )

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Publish the event with the result of the call."""
        event_type = arguments["event_type"]
        if not matches_event_type(self.allow, event_type):
            raise ModelRetry(
                f"event type {event_type!r:.80} is not allowed; use one of: {', '.join(self.allow)}"
            )
        message_id = ctx.publish(event_type, arguments["payload"])
        return {"status": "published", "message_id": message_id}
