"""Results of calls that explain what to do if `await` or `async for` is missing."""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from acc.domain.call_options import check_call, checked
from acc.domain.errors import InvalidInput

#: Attributes of a runner by the names that other libraries have for them.
RUNNER_ATTRIBUTES = {
    "run_async": "run",
    "arun": "run",
    "ainvoke": "run",
    "invoke": "run_sync",
    "chat": "run_sync",
    "run_streamed": "stream",
    "run_stream": "stream",
    "astream": "stream",
    "session_service": "sessions",
    "create_session": "the first message creates a session: use .run(message, session_id=...)",
    "close": "aclose",
}
#: Operations of a runner that only work in async code.
RUNNER_OPERATIONS = dict.fromkeys(
    ("__enter__", "__exit__"),
    "are closed by `async with` in async code; elsewhere call run_sync without a block",
)
_OPTION_HINTS = {
    "session": "session_id",
    "thread_id": "session_id",
    "conversation_id": "session_id",
    "context_id": "session_id",
    "user": "user_id",
    "input": "message",
    "prompt": "message",
    "user_prompt": "message",
    "query": "message",
    "text": "message",
    "new_message": "message",
    "content": "message",
    "messages": "pass the message alone; earlier messages are in the session",
    "message_history": "pass the message alone; earlier messages are in the session",
    "history": "pass the message alone; earlier messages are in the session",
    "run_config": "config",
    "max_turns": "pass config=RunConfig(max_llm_calls=...)",
    "timeout": "pass config=RunConfig(timeout=...)",
    "model": "set model=... on the agent",
    "stream": "use runner.stream(...)",
}
#: Attributes of `runner.sessions` by the names that other libraries have for them.
SESSIONS_ATTRIBUTES = {
    "create": "the first message creates a session: use runner.run(message, session_id=...)",
    "create_session": "the first message creates a session: use runner.run(message, session_id=..)",
    "get_session": "get",
    "list_sessions": "list",
    "all": "list",
    "delete_session": "delete",
    "clear": "use .delete(session_id)",
    "append_event": "use runner.update_state(...) to write to the state of a session",
    "update": "use runner.update_state(...) to write to the state of a session",
}
_SYNC_METHODS = ("runner.run", "runner.resume")
P = ParamSpec("P")
T = TypeVar("T")


class PendingCall(Coroutine[Any, Any, T]):
    """A coroutine whose result is used by mistake before it was awaited."""

    __slots__ = ("_coroutine", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self._coroutine = coroutine
        self._name = name

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Continue the coroutine with a value."""
        return self._coroutine.send(value)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """Continue the coroutine with an exception."""
        return self._coroutine.throw(kind if value is None else value)

    def close(self) -> None:
        """End the coroutine."""
        self._coroutine.close()

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> NoReturn:
            """Raise an error that explains the missing `await`."""
            raise AttributeError(self._advice())

        def _explain(self, *_: object) -> NoReturn:
            self._coroutine.close()
            raise InvalidInput(self._advice())

        __bool__ = __contains__ = __getitem__ = __iter__ = __len__ = _explain

        def _advice(self) -> str:
            sync = f"`result = {self._name}_sync(...)`"
            if self._name not in _SYNC_METHODS:
                sync = f"`asyncio.run({self._name}(...))`"
            return (
                f"{self._name}(...) has no result yet: write `result = await {self._name}(...)` in "
                f"async code, or {sync} elsewhere"
            )

        def __aiter__(self) -> NoReturn:
            """Raise an error that names the method for events."""
            self._coroutine.close()
            raise InvalidInput(
                f"{self._name}(...) returns one result: write `await {self._name}(...)`, or "
                "`async for event in runner.stream(...)` for events"
            )


class EventStream(AsyncGenerator[T, None]):
    """The events of a run, with an explanation if they are not read with `async for`."""

    __slots__ = ("_events",)

    def __init__(self, events: AsyncGenerator[T, None]) -> None:
        self._events = events

    def __anext__(self) -> Coroutine[Any, Any, T]:
        return self._events.__anext__()

    def asend(self, value: None) -> Coroutine[Any, Any, T]:
        """Continue the iteration."""
        return self._events.asend(value)

    async def athrow(self, kind: Any, value: Any = None, traceback: Any = None) -> T:
        """Continue the iteration with an exception."""
        return await self._events.athrow(kind if value is None else value)

    async def aclose(self) -> None:
        """Cancel the run if it has not ended."""
        await self._events.aclose()

    if not TYPE_CHECKING:

        def _explain(self) -> NoReturn:
            raise InvalidInput(
                "stream(...) returns events: write `async for event in runner.stream(...)` in "
                "async code; `await runner.run(...)` and `runner.run_sync(...)` return the result"
            )

        __await__ = __iter__ = _explain


def explains_options(method: Callable[P, T]) -> Callable[P, T]:
    """Let a method of a runner raise InvalidInput for options that it does not have."""
    explained = checked(method, _OPTION_HINTS)

    @functools.wraps(method)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        _check_owner(method, arguments)
        return explained(*arguments, **options)

    return call


def explains_missing_await(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let an async method return a `PendingCall`, and explain options that it does not have."""
    is_runner = "Sessions" not in method.__qualname__
    name = f"runner.{method.__name__}" if is_runner else f"runner.sessions.{method.__name__}"

    @functools.wraps(method)
    def call(*arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        _check_owner(method, arguments)
        try:
            coroutine = method(*arguments, **options)
        except TypeError:
            check_call(method, arguments, options, hints=_OPTION_HINTS)
            raise
        return PendingCall(coroutine, name)

    return call


def explains_wrong_iteration(
    method: Callable[P, AsyncGenerator[T, None]],
) -> Callable[P, AsyncGenerator[T, None]]:
    """Let an async generator method return an `EventStream`, and explain its options."""

    @functools.wraps(method)
    def call(*arguments: P.args, **options: P.kwargs) -> AsyncGenerator[T, None]:
        _check_owner(method, arguments)
        check_call(method, arguments, options, hints=_OPTION_HINTS)
        return EventStream(method(*arguments, **options))

    return call


def _check_owner(method: Callable[..., object], arguments: Sequence[object]) -> None:
    """Raise InvalidInput if a method is called on its class, as other libraries do."""
    owner = method.__qualname__.partition(".")[0]
    if not arguments or all(cls.__name__ != owner for cls in type(arguments[0]).__mro__):
        name = method.__name__
        raise InvalidInput(f"{name}(...) needs a runner: write Runner(agent).{name}(message)")
