"""Weft for Python: communication between processes and hosts.

    weft.node        peers that come and go: connect, put, get, atomics, messages
    weft.store       immutable objects, shared by the processes of a host without copies
    weft.graph       shortest paths, PageRank, components and more; numpy in and out
    weft.multicast   bytes and files to many hosts at once

`weft.Node` and the other names of weft.node, and `weft.ObjectStore`, are here, too. Every exception
that Weft raises by itself is a weft.Error, whose `code` says in words what went wrong.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._places import VERSION as __version__
from .errors import BadArgument, Error, NodeError, StoreError

if TYPE_CHECKING:
    from . import graph, multicast, node, store
    from .node import (ATOMIC, LOST, MESSAGE, NOTIFY, PEER, READ, WRITE, Event, Memory, Node, Peer)
    from .store import ObjectStore

__all__ = ["__version__", "Error", "NodeError", "StoreError", "BadArgument", "node", "store", "graph",
           "multicast", "Node", "Peer", "Memory", "Event", "READ", "WRITE", "ATOMIC", "PEER", "LOST",
           "MESSAGE", "NOTIFY", "ObjectStore"]

# Loaded at their first use: a program of the store needs no Node, and none of both numpy.
_MODULE_OF = {"node": "node", "store": "store", "graph": "graph", "multicast": "multicast",
              "ObjectStore": "store",
              **dict.fromkeys(("Node", "Peer", "Memory", "Event", "READ", "WRITE", "ATOMIC", "PEER",
                               "LOST", "MESSAGE", "NOTIFY"), "node")}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module = importlib.import_module("." + _MODULE_OF[name], __name__)
    value = module if name == _MODULE_OF[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
