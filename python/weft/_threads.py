"""Calls that wait, for asyncio: each in a thread of its own."""
from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, TypeVar

Result = TypeVar("Result")


async def in_thread(function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
    """What function returns or raises. Cancelled, it returns at once; the thread goes on to the
    call's end, and the result is dropped."""
    # asyncio.to_thread has few threads for all: calls that wait for one another would fill them, and
    # none would end. A daemon thread does not keep a process that ends.
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def call() -> None:
        result, failure = None, None
        try:
            result = function(*arguments, **named)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            pass  # the loop was closed meanwhile

    threading.Thread(target=call, name=f"weft {function.__name__}", daemon=True).start()
    return await future
