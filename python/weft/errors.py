"""The exceptions of Weft: all are a weft.Error, whose `code` says in words what went wrong."""
from __future__ import annotations

from typing import Any

__all__ = ["Error", "NodeError", "StoreError", "BadArgument"]


class Error(Exception):
    """code: what went wrong, in words, such as "peer lost", "not found" or "timed out"."""

    code: str

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(text or code)
        self.code = code

    def __reduce__(self) -> Any:  # so that it passes between processes
        return _again, (type(self), dict(self.__dict__), str(self))


def _again(kind: type[Error], attributes: dict[str, Any], text: str) -> Error:
    error: Error = kind.__new__(kind)
    error.args = (text,)
    error.__dict__.update(attributes)
    return error


class NodeError(Error):
    """Of weft.node. peer, offset, length: with whom and where, or None."""

    def __init__(self, code: str, text: str = "", peer: str | None = None,
                 offset: int | None = None, length: int | None = None) -> None:
        super().__init__(code, text)
        self.peer, self.offset, self.length = peer, offset, length


class StoreError(Error):
    """Of weft.store. id: of the object concerned, or None. hosts: of push, the result of each."""

    def __init__(self, code: str, text: str = "", identifier: Any = None) -> None:
        super().__init__(code, text)
        self.id = identifier
        self.hosts: dict[str, str] = {}


class BadArgument(StoreError, ValueError):
    """A StoreError that is a ValueError, too."""

    def __init__(self, text: str, identifier: Any = None) -> None:
        super().__init__("bad argument", text, identifier)
