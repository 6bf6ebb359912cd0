"""Calls that wait, for asyncio: each in a thread of its own."""
from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, Coroutine, TypeVar

Result = TypeVar("Result")
if TYPE_CHECKING:  # Python 3.9 has none
    from typing_extensions import ParamSpec
    Words = ParamSpec("Words")


async def in_thread(function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
    """What function returns or raises. Cancelled, it returns at once; the thread goes on to the
    call's end, and the result is dropped."""
    # asyncio.to_thread has few threads for all: calls that wait for one another would fill them, and
    # none would end. A daemon thread does not keep a process that ends.
    call = _Call(asyncio.get_running_loop(), functools.partial(function, *arguments, **named))
    threading.Thread(target=call.run, name=f"weft {function.__name__}", daemon=True).start()
    try:
        await call.ended
        if call.failure is not None:
            raise call.failure
        result: Result = call.result
        return result
    finally:
        call.drop()


def for_asyncio(function: Callable[Words, Result]) -> Callable[Words, Coroutine[Any, Any, Result]]:
    """The form of a function for asyncio."""
    @functools.wraps(function)
    async def form(*arguments: Words.args, **named: Words.kwargs) -> Result:
        return await in_thread(function, *arguments, **named)
    form.__name__ = form.__qualname__ = f"{function.__name__}_async"
    form.__doc__ = f"{function.__name__}() for asyncio."
    return form


class _Call:
    """Once a call has ended nothing but its result or exception refers to its arguments, so that the
    caller can release memory that was one: not the thread, which may still be there, not the future,
    which the event loop keeps for a while, and not the frames that the exception refers to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], Any]) -> None:
        self.loop, self.ended = loop, loop.create_future()
        self.function: Callable[[], Any] | None = function
        self.result: Any = None
        self.failure: BaseException | None = None

    def run(self) -> None:
        function, self.function = self.function, None
        assert function is not None
        try:
            self.result = function()
        except BaseException as error:
            self.failure = error
        del function
        try:
            self.loop.call_soon_threadsafe(self.end)
        except RuntimeError:  # the loop was closed meanwhile
            self.drop()

    def end(self) -> None:
        if self.ended.done():
            self.drop()
        else:
            self.ended.set_result(None)

    def drop(self) -> None:
        self.result = self.failure = None
