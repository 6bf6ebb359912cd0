"""Nodes: peers that come and go, without a job or a launcher, over weft/node.h.

    import weft
    with weft.Node("client", secret="...") as node:      # or secret=b"..."
        peer = node.connect("host:7000")
        peer.send(b"hello")
        for event in node.events(1.0): ...
        memory = peer.memory(key)            # 32 bytes that the owner gave
        data = memory.get(0, 4096)
        memory.get_into(0, array)            # a bytearray, a numpy array, ...: nothing is copied twice

Errors. Calls raise weft.NodeError, a weft.Error, which has `code` ("peer lost", "not permitted", ...),
and where they are known `peer` (its name), `offset` and `length`. A call on a Node that is closed raises it, too
("bad argument"), and so does one on a Node of the parent process: connect anew after fork. What can
never be right raises ValueError or TypeError. release() and close() raise BufferError while
something still views the memory, such as a numpy array.

Times are in seconds; float("inf") waits until something comes. Ctrl-C ends whatever waits; what was
under way goes on.

Threads. Any number of threads may use a Node, its peers and its memories. close() waits until the
calls of other threads have ended, which raises in them.

asyncio. Calls that wait have a form for it, with _async behind the name: a thread of its own makes
the call. A cancelled one goes on in its thread to its end, and its buffer has to stay until then;
events_async loses no event.
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import math
import operator
import os
import threading
import time
import weakref
from ctypes import (POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_ssize_t, c_ubyte, c_uint32,
                    c_uint64, c_void_p)
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Iterator, NoReturn

from ._library import load
from ._threads import in_thread
from .errors import Error, NodeError

__all__ = ["Node", "Peer", "Memory", "Event", "Error", "NodeError", "READ", "WRITE", "ATOMIC", "PEER",
           "LOST", "MESSAGE", "NOTIFY"]

# What has the buffer protocol: bytes, bytearray, memoryview, array.array, a numpy array.
Buffer = Any

READ, WRITE, ATOMIC = 1, 2, 4
PEER, LOST, MESSAGE, NOTIFY = 1, 2, 3, 4

_OK, _AGAIN, _BAD_ARGUMENT, _NO_MEMORY, _CANCELLED = 0, 1, 2, 4, 12
_STEP_MS = 50  # how long a call into the library waits before Python looks for signals
_LONGEST_MS = 2**31 - 2
_KEY_BYTES = 32
_TAG_BYTES = 16


class _Settings(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("secret", c_char_p), ("secret_bytes", c_size_t),
                ("fabrics", c_char_p), ("timeout_ms", c_int), ("progress_thread", c_int)]


class _Event(ctypes.Structure):
    _fields_ = [("kind", c_int), ("code", c_int), ("peer", c_void_p), ("data", c_void_p),
                ("bytes", c_size_t), ("hidden", c_void_p)]


# c_char_p only where C reads up to a NUL, which _text() refuses inside, or where a length goes with
# it.
_lib: Any = load("libweft.so.0")
_function_name: str
for _function_name, _result, *_arguments in (  # type: ignore[assignment]
        ("weft_error_text", c_char_p),
        ("weft_code_name", c_char_p, c_int),
        ("weft_node_open_with", c_int, POINTER(_Settings), POINTER(c_void_p)),
        ("weft_node_close", None, c_void_p),
        ("weft_listen", c_int, c_void_p, c_char_p),
        ("weft_address", c_int, c_void_p, c_char_p, c_size_t),
        ("weft_connect_begin", c_int, c_void_p, c_char_p, c_int, POINTER(c_void_p)),
        ("weft_connect_wait", c_int, c_void_p, c_void_p, c_int, POINTER(c_void_p)),
        ("weft_connect_free", None, c_void_p),
        ("weft_disconnect", None, c_void_p, c_void_p),
        ("weft_peer_free", None, c_void_p),
        ("weft_peer_name", c_char_p, c_void_p),
        ("weft_peer_generation", c_uint64, c_void_p),
        ("weft_peer_fabric", c_char_p, c_void_p),
        ("weft_peer_is_lost", c_int, c_void_p),
        ("weft_peer_message_max", c_size_t, c_void_p),
        ("weft_allocate", c_int, c_void_p, c_size_t, POINTER(c_void_p)),
        ("weft_release", c_int, c_void_p, c_void_p),
        ("weft_make_key", c_int, c_void_p, c_void_p, c_uint32, c_void_p, c_void_p),
        ("weft_memory_open", c_void_p, c_void_p, c_void_p, c_void_p),
        ("weft_memory_free", None, c_void_p),
        ("weft_op_new", c_void_p),
        ("weft_op_free", None, c_void_p),
        ("weft_op_is_done", c_int, c_void_p),
        ("weft_op_previous", c_uint64, c_void_p),
        ("weft_wait_for", c_int, c_void_p, c_void_p, c_int),
        ("weft_put", None, c_void_p, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
        ("weft_put_notify", None, c_void_p, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p,
         c_void_p),
        ("weft_get", None, c_void_p, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
        ("weft_cas", None, c_void_p, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p),
        ("weft_fetch_add", None, c_void_p, c_void_p, c_uint64, c_uint64, c_void_p),
        ("weft_send", c_int, c_void_p, c_void_p, c_void_p, c_size_t),
        ("weft_send_long", None, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p),
        ("weft_next_event", c_int, c_void_p, POINTER(_Event)),
        ("weft_event_clear", None, POINTER(_Event)),
        ("weft_wait_some", None, c_void_p, c_int)):
    _function: Any = getattr(_lib, _function_name)
    _function.restype = _result
    _function.argtypes = _arguments

# A bytes object whose bytes are not yet set, so that they need not be copied into it.
_new_bytes: Any = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.restype = ctypes.py_object
_new_bytes.argtypes = [c_void_p, c_ssize_t]


def _code_name(code: int) -> str:
    return str(_lib.weft_code_name(code).decode())


def _check(code: int, **where: Any) -> None:
    if code != _OK:
        raise NodeError(_code_name(code), _lib.weft_error_text().decode(errors="replace"), **where)


def _text(text: str, what: str) -> bytes:
    """For C, which reads up to a NUL: none may lie inside."""
    encoded = text.encode()
    if b"\0" in encoded:
        raise ValueError(f"{what} has a NUL in it: {text!r}")
    return encoded


def _number(number: Any, what: str, least: int, end: int) -> int:
    value = operator.index(number)
    if not least <= value < end:
        raise ValueError(f"{what} is {value}: {least} to {end - 1} can be")
    return value


def _offset(value: int) -> int:
    return _number(value, "the offset", 0, 2**64)


def _length(value: int) -> int:
    return _number(value, "the length", 0, 2**62)


def _word(value: int, what: str) -> int:
    """Of 64 bits, signed or not."""
    return _number(value, what, -2**63, 2**64) % 2**64


def _seconds(value: float, what: str = "the time") -> float:
    value = float(value)
    if not value >= 0:  # not a number, too
        raise ValueError(f"{what} is {value}: 0 or more seconds can be")
    return value


def _milliseconds(seconds: float) -> int:
    """Rounded up: 0 means something else to the library than a short time."""
    return _LONGEST_MS if seconds * 1000 > _LONGEST_MS else math.ceil(seconds * 1000)


def _place(data: Buffer, writable: bool = False) -> tuple[Any, Any, int]:
    """What keeps `data` where it is, its address and its length. Only read-only data that are no
    bytes object are copied."""
    if not writable and isinstance(data, bytes):
        return data, ctypes.cast(c_char_p(data), c_void_p), len(data)
    view = memoryview(data)
    if not view.c_contiguous:
        raise BufferError("the data do not lie in one block")
    if view.nbytes == 0:
        return data, None, 0
    if view.readonly:
        if writable:
            raise BufferError("the buffer is read-only")
        copy = view.tobytes()
        return copy, ctypes.cast(c_char_p(copy), c_void_p), len(copy)
    at = (c_char * view.nbytes).from_buffer(view)
    return at, ctypes.addressof(at), view.nbytes


def _refuse_pickling(self: object) -> NoReturn:
    raise TypeError(f"a {type(self).__name__} belongs to its process: send addresses and keys to the "
                    "other one, and connect there")


class Event:
    """kind: PEER, LOST, MESSAGE or NOTIFY; data: the message, the tag, or why the peer is lost, of
    which code is the name."""

    def __init__(self, kind: int, peer: Peer, data: bytes, code: str | None = None) -> None:
        self.kind, self.peer, self.data, self.code = kind, peer, data, code


class _Operation:
    """One at a time; freed once it has ended."""

    def __init__(self) -> None:
        self.op: Any = _lib.weft_op_new()
        if not self.op:
            raise MemoryError

    def __del__(self) -> None:
        # One that is under way would be written to.
        if getattr(self, "op", None) and _lib.weft_op_is_done(self.op):
            _lib.weft_op_free(self.op)


class Memory:
    """Memory of a peer. Its calls wait until they are done."""

    def __init__(self, peer: Peer, key: Buffer) -> None:
        self._memory: Any = None
        key = bytes(memoryview(key))
        if len(key) != _KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes: {_KEY_BYTES} can be")
        self._peer, self._node = peer, peer._node
        self._starting = threading.Lock()  # memory is one thread's at a time while a call begins
        with self._node._use as node:
            self._memory = _lib.weft_memory_open(node, peer._peer, key)
        if not self._memory:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_memory", None):
            _lib.weft_memory_free(self._memory)

    __reduce__ = _refuse_pickling

    def _do(self, what: str, offset: int, length: int, keeps: Any, start: Any,
            *arguments: Any) -> int:
        """Starts an operation and waits for it. What the library needs until it has ended: keeps."""
        with self._node._use as node:
            operation = self._node._take_operation()

            def begin() -> None:
                with self._starting:
                    start(node, self._memory, offset, *arguments, operation.op)

            code = self._node._run(node, operation, (self, keeps), begin)
            previous = int(_lib.weft_op_previous(operation.op))
            self._node._operations.append(operation)
        if code == _OK:
            return previous
        name = _code_name(code)
        raise NodeError(name, f"{self._peer.name}: {what} of {length} bytes at {offset}: {name}",
                    self._peer.name, offset, length)

    def get(self, offset: int, length: int) -> bytes:
        """The bytes there, of the peer's memory."""
        length = _length(length)
        data: bytes = _new_bytes(None, length)
        if length == 0:
            place = None
        else:
            place = ctypes.cast(c_char_p(data), c_void_p)
        self._do("get", _offset(offset), length, data, _lib.weft_get, place, length)
        return data

    def get_into(self, offset: int, buffer: Buffer) -> None:
        """Fills the buffer, such as a bytearray or a numpy array, without another copy. After an
        error or Ctrl-C its bytes are undefined."""
        keeps, place, length = _place(buffer, writable=True)
        self._do("get", _offset(offset), length, keeps, _lib.weft_get, place, length)

    def put(self, offset: int, data: Buffer, tag: Buffer | None = None) -> None:
        """With a tag, at most 16 bytes, the owner is notified."""
        keeps, place, length = _place(data)
        if tag is None:
            self._do("put", _offset(offset), length, keeps, _lib.weft_put, place, length)
            return
        tag = bytes(memoryview(tag))
        if len(tag) > _TAG_BYTES:
            raise ValueError(f"the tag has {len(tag)} bytes: 0 to {_TAG_BYTES} can be")
        self._do("put", _offset(offset), length, keeps, _lib.weft_put_notify, place, length,
                 tag.ljust(_TAG_BYTES, b"\0"))

    def fetch_add(self, offset: int, value: int) -> int:
        """Adds to the 64-bit word there; the value before."""
        return self._do("fetch_add", _offset(offset), 8, None, _lib.weft_fetch_add,
                        _word(value, "the value"))

    def cas(self, offset: int, compare: int, swap: int) -> int:
        """The value before; it was swapped if that is `compare`."""
        return self._do("cas", _offset(offset), 8, None, _lib.weft_cas,
                        _word(compare, "the value to compare with"),
                        _word(swap, "the value to swap in"))

    async def get_async(self, offset: int, length: int) -> bytes:
        """get() for asyncio."""
        return await in_thread(self.get, offset, length)

    async def get_into_async(self, offset: int, buffer: Buffer) -> None:
        """get_into() for asyncio."""
        await in_thread(self.get_into, offset, buffer)

    async def put_async(self, offset: int, data: Buffer, tag: Buffer | None = None) -> None:
        """put() for asyncio."""
        await in_thread(self.put, offset, data, tag)

    async def fetch_add_async(self, offset: int, value: int) -> int:
        """fetch_add() for asyncio."""
        return await in_thread(self.fetch_add, offset, value)

    async def cas_async(self, offset: int, compare: int, swap: int) -> int:
        """cas() for asyncio."""
        return await in_thread(self.cas, offset, compare, swap)


class Peer:
    """name and generation: of the other Node."""

    def __init__(self, node: Node, peer: Any) -> None:
        self._node, self._peer = node, peer
        self.name: str = _lib.weft_peer_name(peer).decode(errors="replace")
        self.generation: int = _lib.weft_peer_generation(peer)

    def __del__(self) -> None:
        if getattr(self, "_peer", None):
            _lib.weft_peer_free(self._peer)

    __reduce__ = _refuse_pickling

    def __repr__(self) -> str:
        return f"<weft.Peer {self.name!r}>"

    @property
    def fabric(self) -> str:
        """What the peer is reached over, such as shm."""
        with self._node._use:
            return str(_lib.weft_peer_fabric(self._peer).decode())

    @property
    def is_lost(self) -> bool:
        """Whether the peer has died, left or gone silent."""
        with self._node._use:
            return bool(_lib.weft_peer_is_lost(self._peer))

    def memory(self, key: Buffer) -> Memory:
        """The memory that the peer's Node.key() gave this key for."""
        return Memory(self, key)

    def send(self, message: Buffer) -> None:
        """Waits while the peer has no room."""
        keeps, place, length = _place(message)
        with self._node._use as node:
            if length > _lib.weft_peer_message_max(self._peer):
                operation = self._node._take_operation()
                code = self._node._run(
                    node, operation, (self, keeps),
                    lambda: _lib.weft_send_long(node, self._peer, place, length, operation.op))
                self._node._operations.append(operation)
            else:
                code = _lib.weft_send(node, self._peer, place, length)
                while code == _AGAIN:
                    self._node._check_open()
                    _lib.weft_wait_some(node, 10)
                    code = _lib.weft_send(node, self._peer, place, length)
        if code != _OK:
            name = _code_name(code)
            raise NodeError(name, f"{self.name}: a message of {length} bytes: {name}", self.name,
                            length=length)

    async def send_async(self, message: Buffer) -> None:
        """send() for asyncio."""
        await in_thread(self.send, message)

    def close(self) -> None:
        """Disconnects from the peer."""
        with self._node._use as node:
            _lib.weft_disconnect(node, self._peer)


class _Use:
    """with-statement around calls into the library: they have an open Node of this process, which
    stays open meanwhile."""

    def __init__(self, owner: object, node: Any) -> None:
        self.owner, self.node = owner, node
        self.process = os.getpid()
        self.is_closing = node is None
        self.num_users = 0
        self.changed = threading.Condition(threading.RLock())  # a __del__ may come at any place

    def __enter__(self) -> Any:
        if os.getpid() != self.process:
            raise NodeError(_code_name(_BAD_ARGUMENT),
                            f"{self.owner!r} is of the parent process: connect anew after fork")
        with self.changed:
            if self.is_closing:
                raise NodeError(_code_name(_BAD_ARGUMENT), f"{self.owner!r} is closed")
            self.num_users += 1
        return self.node

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.num_users -= 1
            if self.is_closing:
                self.changed.notify_all()

    def end(self) -> Any:
        """No call begins any more, and none runs. The Node, or None: it was closed before."""
        with self.changed:
            if self.is_closing:
                return None
            self.is_closing = True
            try:
                while self.num_users > 0:
                    self.changed.wait()
            except BaseException:
                self.is_closing = False
                raise
        return self.node


class _Allocated:
    """Memory of this Node. view: what the program has; block: gone once nothing views it."""

    def __init__(self, address: int, length: int) -> None:
        # A class of its own, as only those can be referred to weakly.
        kind: Any = type("_Block", (c_ubyte * length,), {})
        block = kind.from_address(address)
        self.address = address
        self.block = weakref.ref(block)
        self.view = memoryview(block).cast("B")

    def end_views(self) -> None:
        """BufferError: something else still views it. Then it may be tried again."""
        self.view.release()
        if self.block() is not None:
            raise BufferError("the memory is still viewed, by a slice of it or by an array")


class Node:
    """A process's presence: it listens and connects, has memory for peers, and gets events."""

    _use = _Use("the Node", None)  # until it is open

    def __init__(self, name: str = "", secret: str | Buffer = "", fabrics: str = "",
                 timeout: float = 0.0, progress_thread: bool = True) -> None:
        """timeout: how long a peer may be unreachable; 0: WEFT_PEER_TIMEOUT_MS."""
        self.name = name
        self._allocated: dict[int, _Allocated] = {}  # by the id of the view
        self._operations: list[_Operation] = []  # that have ended
        # Begun, and not waited for to their end.
        self._left: collections.deque[tuple[_Operation, Any]] = collections.deque()
        secret = secret.encode() if isinstance(secret, str) else bytes(memoryview(secret))
        settings = _Settings(_text(name, "the name"), secret, len(secret),
                             _text(fabrics, "the list of fabrics"),
                             _milliseconds(_seconds(timeout, "the timeout")), bool(progress_thread))
        node = c_void_p()
        _check(_lib.weft_node_open_with(byref(settings), byref(node)))
        self._use = _Use(self, node)

    __reduce__ = _refuse_pickling

    def __repr__(self) -> str:
        return f"<weft.Node {self.name!r}>"

    def close(self) -> None:
        """Peers, memories and allocated memory are of no more use afterwards. In a forked child it
        does nothing."""
        if os.getpid() != self._use.process:
            return
        for allocated in list(self._allocated.values()):
            allocated.end_views()
        node = self._use.end()
        if node is not None:
            _lib.weft_node_close(node)
            self._allocated.clear()
            self._left.clear()
            self._operations.clear()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._use.is_closing:
            raise NodeError(_code_name(_CANCELLED), f"{self!r} was closed meanwhile")

    def _take_operation(self) -> _Operation:
        for entry in list(self._left):
            if not _lib.weft_op_is_done(entry[0].op):
                break
            # Not popleft(): another thread may have taken it off meanwhile, and the next has not ended.
            with contextlib.suppress(ValueError):
                self._left.remove(entry)
        try:
            return self._operations.pop()
        except IndexError:
            return _Operation()

    def _run(self, node: Any, operation: _Operation, keeps: Any, begin: Callable[[], object]) -> int:
        """The code that the operation ended with. Where the wait ends before, what it needs is
        kept."""
        try:
            begin()
            code = int(_lib.weft_wait_for(node, operation.op, _STEP_MS))
            while code == _AGAIN:
                self._check_open()
                code = int(_lib.weft_wait_for(node, operation.op, _STEP_MS))
            return code
        except BaseException:
            self._left.append((operation, keeps))
            raise

    def listen(self, address: str) -> None:
        """At HOST:PORT (port 0: any), or at unix:PATH."""
        encoded = _text(address, "the address")
        with self._use as node:
            _check(_lib.weft_listen(node, encoded))

    @property
    def address(self) -> str:
        """Where others reach this Node, for their connect()."""
        text = ctypes.create_string_buffer(8192)
        with self._use as node:
            _check(_lib.weft_address(node, text, len(text)))
        return text.value.decode()

    def connect(self, address: str, timeout: float = 0.0) -> Peer:
        """timeout: 0 for the Node's."""
        timeout_ms = _milliseconds(_seconds(timeout, "the timeout"))
        encoded = _text(address, "the address")
        connecting, peer = c_void_p(), c_void_p()
        with self._use as node:
            _check(_lib.weft_connect_begin(node, encoded, timeout_ms, byref(connecting)))
            try:
                code = _AGAIN
                while code == _AGAIN:
                    self._check_open()
                    code = _lib.weft_connect_wait(node, connecting, 20, byref(peer))
                _check(code, peer=address)
            finally:
                _lib.weft_connect_free(connecting)
        return Peer(self, peer)

    async def connect_async(self, address: str, timeout: float = 0.0) -> Peer:
        """connect() for asyncio."""
        return await in_thread(self.connect, address, timeout)

    def allocate(self, length: int) -> memoryview:
        """Memory that peers can use: a memoryview, valid until release(). numpy.frombuffer(memory)
        is an array of it without a copy."""
        length = _length(length)
        address = c_void_p()
        with self._use as node:
            _check(_lib.weft_allocate(node, length, byref(address)), length=length)
            allocated = _Allocated(address.value or 0, length)
            self._allocated[id(allocated.view)] = allocated
        return allocated.view

    def _find(self, memory: memoryview) -> _Allocated:
        """Of this Node, and not released."""
        allocated = self._allocated.get(id(memory))
        if allocated is None or allocated.view is not memory:
            raise ValueError("no memory that this Node has allocated, or released already")
        return allocated

    def release(self, memory: memoryview) -> None:
        """memory: what allocate() gave. Waits for peers to let go of it, at most the timeout.
        BufferError: something still views it, such as a slice or a numpy array."""
        with self._use as node:
            allocated = self._find(memory)
            allocated.end_views()
            _check(_lib.weft_release(node, allocated.address))
            del self._allocated[id(memory)]

    def key(self, memory: memoryview, rights: int, only: Peer | None = None) -> bytes:
        """A key to memory of allocate(), for peers, or for one of them. rights: READ | WRITE | ATOMIC."""
        key = (c_ubyte * _KEY_BYTES)()
        rights = _number(rights, "rights", 0, 2**32)
        if only is not None and not isinstance(only, Peer):
            raise TypeError("only: a Peer, or None")
        with self._use as node:
            _check(_lib.weft_make_key(node, self._find(memory).address, rights,
                                      only._peer if only else None, key))
        return bytes(key)

    def next_event(self) -> Event | None:
        """The eldest event, or None."""
        event = _Event()
        with self._use as node:
            if not _lib.weft_next_event(node, byref(event)):
                return None
            try:
                peer, event.peer = Peer(self, event.peer), None
                data = ctypes.string_at(event.data, event.bytes) if event.bytes else b""
                code = _code_name(event.code) if event.kind == LOST else None
                return Event(event.kind, peer, data, code)
            finally:
                _lib.weft_event_clear(byref(event))

    def events(self, seconds: float) -> Iterator[Event]:
        """Events as they come, until for so long none has."""
        seconds = _seconds(seconds)
        return self._events(seconds)

    def _events(self, seconds: float) -> Iterator[Event]:
        limit = time.monotonic() + seconds
        while True:
            event = self.next_event()
            if event is not None:
                yield event
                limit = time.monotonic() + seconds
            elif time.monotonic() >= limit:
                return
            else:
                with self._use as node:
                    _lib.weft_wait_some(node, 10)

    def _wait(self, seconds: float) -> None:
        with self._use as node:
            _lib.weft_wait_some(node, _milliseconds(seconds))

    async def events_async(self, seconds: float) -> AsyncIterator[Event]:
        """events() for asyncio: async for event in node.events_async(1.0)."""
        seconds = _seconds(seconds)
        limit = time.monotonic() + seconds
        while True:
            # Taken here rather than in the thread, so that a cancelled wait loses no event.
            event = self.next_event()
            if event is not None:
                yield event
                limit = time.monotonic() + seconds
            elif time.monotonic() >= limit:
                return
            else:
                await in_thread(self._wait, 0.05)
