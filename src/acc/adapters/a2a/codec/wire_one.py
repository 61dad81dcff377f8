"""Generation 1.0 as JSON."""

from collections.abc import Mapping, Sequence

import msgspec

from acc.adapters.a2a.codec.cards import card_from, merged_card
from acc.adapters.a2a.codec.queries import as_params
from acc.adapters.a2a.codec.wire import NO_PATH, Operation, Streamed, StreamItem
from acc.adapters.a2a.shapes import one_content as content
from acc.adapters.a2a.shapes import one_requests as asked
from acc.adapters.a2a.shapes.reading import decoded, fault, from_remote, in_camel_case, whole_number
from acc.adapters.a2a.shapes.writing import encoded
from acc.application.serving.requests import Request
from acc.domain.value_objects.card import AgentCard
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    PushPage,
    StatusUpdate,
    Task,
    TaskPage,
)

_task = msgspec.json.Decoder(content.TaskShape)
_streamed = msgspec.json.Decoder(content.StreamShape)
_page = msgspec.json.Decoder(asked.PageShape)
_push = msgspec.json.Decoder(asked.PushShape)
_push_page = msgspec.json.Decoder(asked.PushPageShape)

_NAMES = {
    Operation.SEND: "SendMessage",
    Operation.STREAM: "SendStreamingMessage",
    Operation.GET: "GetTask",
    Operation.LIST: "ListTasks",
    Operation.CANCEL: "CancelTask",
    Operation.SUBSCRIBE: "SubscribeToTask",
    Operation.PUSH_CREATE: "CreateTaskPushNotificationConfig",
    Operation.PUSH_GET: "GetTaskPushNotificationConfig",
    Operation.PUSH_LIST: "ListTaskPushNotificationConfigs",
    Operation.PUSH_DELETE: "DeleteTaskPushNotificationConfig",
    Operation.EXTENDED_CARD: "GetExtendedAgentCard",
}


class WireOne:
    """Reads and writes generation 1.0."""

    version = "1.0"
    method_names: Mapping[Operation, str] = _NAMES
    methods: Mapping[str, Operation] = {name: operation for operation, name in _NAMES.items()}

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Return what the params of a call, or the body of a POST, ask for."""
        decoder, build = asked.READERS[operation]
        shape = decoded(decoder, in_camel_case(params) or b"{}", "params")
        for name, value in path.items():
            setattr(shape, name, value)
        return build(shape)

    def read_query(
        self, operation: Operation, path: Mapping[str, str], query: Mapping[str, str]
    ) -> Request:
        """Return what the address of a GET or DELETE asks for."""
        return self.read_request(operation, as_params(query), path)

    def write_task(self, task: Task) -> bytes:
        """Return a task as JSON."""
        return encoded(content.task_shape(task))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Return what a message led to as JSON."""
        if isinstance(result, Message):
            return encoded(content.StreamShape(message=content.message_shape(result)))
        return encoded(content.StreamShape(task=content.task_shape(result)))

    def write_stream_item(self, task_id: str, context_id: str, item: StreamItem) -> bytes:
        """Return an item of a stream as JSON."""
        if isinstance(item, StatusUpdate):
            moved = content.StatusUpdateShape(
                task_id=task_id,
                context_id=context_id,
                status=content.status_shape(item.status),
                metadata=dict(item.metadata) or None,
            )
            return encoded(content.StreamShape(status_update=moved))
        if isinstance(item, ArtifactUpdate):
            made = content.ArtifactUpdateShape(
                task_id=task_id,
                context_id=context_id,
                artifact=content.artifact_shape(item.artifact),
                append=item.append or None,
                last_chunk=item.last_chunk or None,
                metadata=dict(item.metadata) or None,
            )
            return encoded(content.StreamShape(artifact_update=made))
        return self.write_send_result(item)

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Return a page of tasks as JSON."""
        shape = asked.PageShape(
            tasks=[asked.listed_shape(task, include_artifacts) for task in page.tasks],
            next_page_token=page.next_page_token,
            page_size=page_size,
            total_size=page.total,
        )
        return encoded(shape)

    def write_push(self, config: PushConfig) -> bytes:
        """Return a push configuration as JSON."""
        return encoded(asked.push_shape(config))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Return push configurations as JSON."""
        shape = asked.PushPageShape(
            configs=[asked.push_shape(config) for config in configs],
            next_page_token=next_page_token or None,
        )
        return encoded(shape)

    def write_empty(self) -> bytes:
        """Return that there is nothing to say."""
        return b"{}"

    def write_card(self, card: AgentCard) -> bytes:
        """Return a card as JSON, with what a client of the other generation needs."""
        return encoded(merged_card(card))

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Return the params of a call, or the body of a POST, as JSON."""
        return encoded(asked.request_shape(operation, request))

    @from_remote
    def read_task(self, data: bytes) -> Task:
        """Return the task that a server answered with."""
        return content.task_from(decoded(_task, data, "task"))

    @from_remote
    def read_send_result(self, data: bytes) -> Task | Message:
        """Return what a server says a message led to."""
        shape = decoded(_streamed, data, "result")
        if shape.task is not None:
            return content.task_from(shape.task, "task.")
        if shape.message is not None:
            return content.message_from(shape.message, "message")
        raise fault("result", "must hold a task or a message")

    @from_remote
    def read_stream_item(self, data: bytes) -> Streamed:
        """Return an item that a server streamed."""
        shape = decoded(_streamed, data, "item")
        if shape.status_update is not None:
            moved = shape.status_update
            update: StreamItem = content.status_update_from(moved, "statusUpdate")
            return Streamed(moved.task_id or "", moved.context_id or "", update)
        if shape.artifact_update is not None:
            made = shape.artifact_update
            update = content.artifact_update_from(made, "artifactUpdate")
            return Streamed(made.task_id or "", made.context_id or "", update)
        if shape.task is not None:
            task = content.task_from(shape.task, "task.")
            return Streamed(task.id, task.context_id, task)
        if shape.message is not None:
            message = content.message_from(shape.message, "message")
            return Streamed(message.task_id, message.context_id, message)
        raise fault("item", "must hold a task, message, statusUpdate or artifactUpdate")

    @from_remote
    def read_page(self, data: bytes) -> TaskPage:
        """Return the page of tasks that a server answered with."""
        shape = decoded(_page, data, "page")
        tasks = tuple(
            content.task_from(task, f"tasks[{index}].")
            for index, task in enumerate(shape.tasks or ())
        )
        total = whole_number(shape.total_size, "totalSize")
        return TaskPage(
            tasks=tasks,
            next_page_token=shape.next_page_token or "",
            total=len(tasks) if total is None else total,
        )

    @from_remote
    def read_push(self, data: bytes) -> PushConfig:
        """Return the push configuration that a server answered with."""
        return asked.push_from(decoded(_push, data, "config"), "")

    @from_remote
    def read_push_list(self, data: bytes) -> PushPage:
        """Return the push configurations that a server answered with."""
        shape = decoded(_push_page, data, "configs")
        configs = tuple(
            asked.push_from(config, f"configs[{index}].")
            for index, config in enumerate(shape.configs or ())
        )
        return PushPage(configs, shape.next_page_token or "")

    @from_remote
    def read_card(self, data: bytes) -> AgentCard:
        """Return the card that a server answered with."""
        return card_from(data)


WIRE_ONE = WireOne()
