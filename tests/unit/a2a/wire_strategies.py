"""Strategies for everything that crosses the wire, and the three wires."""

from typing import Any

from hypothesis import strategies as st

from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.adapters.a2a.wire.v03 import WIRE_V03
from acc.adapters.a2a.wire.v03_rest import WIRE_V03_REST
from acc.adapters.a2a.wire.v1 import WIRE_V1
from acc.application.a2a.requests import (
    CardRequest,
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    SendRequest,
    TaskRequest,
)
from acc.domain.value_objects.agent_card import AgentCard, Extension, Interface, Provider, Skill
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskPage,
    TaskQuery,
    TaskState,
    TaskStatus,
)

WIRES: dict[str, Wire] = {
    "1.0": WIRE_V1,
    "0.3": WIRE_V03,
    "0.3 over HTTP": WIRE_V03_REST,
}

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
ids = st.text("abcXYZ0123456789-日本", min_size=1, max_size=8)
maybe_ids = st.just("") | ids
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=2)
media_types = st.sampled_from(["", "text/plain", "application/json", "image/png"])
words = st.lists(texts, max_size=2).map(tuple)
modes = st.lists(media_types, min_size=1, max_size=2).map(tuple)
#: With milliseconds, which is all that the wire carries, and 0 for a time that is not known.
times = st.integers(0, 4_000_000_000_000).map(lambda at: at / 1000)


def _part(content: dict[str, Any], options: dict[str, Any]) -> Part:
    return Part(**content, **options)


contents: st.SearchStrategy[dict[str, Any]] = st.one_of(
    texts.map(lambda text: {"text": text}),
    values.map(lambda data: {"is_null": True} if data is None else {"data": data}),
    st.binary(max_size=12).map(lambda raw: {"raw": raw}),
    texts.map(lambda url: {"url": url}),
)
parts = st.builds(
    _part,
    contents,
    st.fixed_dictionaries({"media_type": media_types, "filename": texts, "metadata": objects}),
)
some_parts = st.lists(parts, min_size=1, max_size=3).map(tuple)
messages = st.builds(
    Message,
    message_id=ids,
    role=st.sampled_from(Role),
    parts=some_parts,
    context_id=maybe_ids,
    task_id=maybe_ids,
    reference_task_ids=words,
    extensions=words,
    metadata=objects,
)
artifacts = st.builds(
    TaskArtifact,
    artifact_id=ids,
    parts=some_parts,
    name=texts,
    description=texts,
    extensions=words,
    metadata=objects,
)
statuses = st.builds(
    TaskStatus, state=st.sampled_from(TaskState), at=times, message=st.none() | messages
)
tasks = st.builds(
    Task,
    id=ids,
    context_id=maybe_ids,
    status=statuses,
    artifacts=st.lists(artifacts, max_size=2).map(tuple),
    history=st.lists(messages, max_size=2).map(tuple),
    metadata=objects,
)
status_updates = st.builds(StatusUpdate, status=statuses, metadata=objects)
artifact_updates = st.builds(
    ArtifactUpdate,
    artifact=artifacts,
    append=st.booleans(),
    last_chunk=st.booleans(),
    metadata=objects,
)
updates = status_updates | artifact_updates
pages = st.builds(
    TaskPage,
    tasks=st.lists(tasks, max_size=2).map(tuple),
    next_page_token=maybe_ids,
    total=st.integers(2, 1000),
)


def pushes(
    protocol_version: str, task_id: st.SearchStrategy[str] = ids
) -> st.SearchStrategy[PushConfig]:
    return st.builds(
        PushConfig,
        id=maybe_ids,
        task_id=task_id,
        url=ids.map("https://example.com/{}".format),
        token=texts,
        scheme=st.sampled_from(["", "Bearer"]),
        credentials=texts,
        protocol_version=st.just(protocol_version),
    )


histories = st.none() | st.integers(0, 50)


def requests(protocol_version: str) -> st.SearchStrategy[tuple[Operation, Any]]:
    send = st.builds(
        SendRequest,
        message=messages,
        accepted_output_modes=words,
        history_length=histories,
        wait=st.booleans(),
        push=st.none() | pushes(protocol_version, st.just("")),
        metadata=objects,
        tenant=texts,
    )
    query = st.builds(
        TaskQuery,
        context_id=texts,
        state=st.none() | st.sampled_from([*TaskState][:-1]),
        since=st.none() | times.filter(bool),
        page_size=st.integers(1, 100),
        page_token=texts,
    )
    listing = st.builds(
        ListRequest,
        query=query,
        history_length=histories,
        include_artifacts=st.booleans(),
        tenant=texts,
    )
    get = st.builds(GetRequest, id=ids, history_length=histories, tenant=texts)
    create = st.builds(PushCreateRequest, config=pushes(protocol_version))
    by_config = st.builds(PushRequest, task_id=ids, id=ids, tenant=texts)
    return st.one_of(
        st.tuples(st.sampled_from([Operation.SEND, Operation.STREAM]), send),
        st.tuples(st.just(Operation.LIST), listing),
        st.tuples(st.just(Operation.GET), get),
        st.tuples(
            st.just(Operation.CANCEL),
            st.builds(TaskRequest, id=ids, metadata=objects, tenant=texts),
        ),
        st.tuples(st.just(Operation.SUBSCRIBE), st.builds(TaskRequest, id=ids, tenant=texts)),
        st.tuples(st.just(Operation.PUSH_CREATE), create),
        st.tuples(st.sampled_from([Operation.PUSH_GET, Operation.PUSH_DELETE]), by_config),
        st.tuples(st.just(Operation.PUSH_LIST), st.builds(PushRequest, task_id=ids, tenant=texts)),
        st.tuples(st.just(Operation.EXTENDED_CARD), st.builds(CardRequest, tenant=texts)),
    )


_flow = {"tokenUrl": "https://example.com/token", "scopes": {"read": "read it"}}
schemes: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        {"type": "apiKey", "in": "header", "name": "X-Key", "description": "a key"},
        {"type": "openIdConnect", "openIdConnectUrl": "https://example.com/id"},
        {"type": "mutualTLS", "description": "a certificate"},
        {"type": "oauth2", "flows": {"clientCredentials": _flow}},
    ]
)
interfaces = st.builds(
    Interface,
    url=ids.map("https://example.com/{}".format),
    binding=st.sampled_from(["JSONRPC", "HTTP+JSON"]),
    version=st.sampled_from(["1.0", "0.3"]),
    tenant=maybe_ids,
)
cards = st.builds(
    AgentCard,
    name=ids,
    description=texts,
    version=texts,
    interfaces=st.lists(interfaces, min_size=1, max_size=3).map(tuple),
    skills=st.lists(
        st.builds(
            Skill,
            id=ids,
            name=ids,
            description=texts,
            tags=words,
            examples=words,
            input_modes=words,
            output_modes=words,
        ),
        max_size=2,
    ).map(tuple),
    input_modes=modes,
    output_modes=modes,
    streaming=st.booleans(),
    push_notifications=st.booleans(),
    extended_card=st.booleans(),
    extensions=st.lists(
        st.builds(Extension, uri=ids, description=texts, required=st.booleans(), params=objects),
        max_size=2,
    ).map(tuple),
    provider=st.none() | st.builds(Provider, organization=ids, url=ids),
    documentation_url=texts,
    icon_url=texts,
    security_schemes=st.dictionaries(ids, schemes, max_size=2),
    security=st.lists(st.dictionaries(ids, words, min_size=1, max_size=2), max_size=2).map(tuple),
)
