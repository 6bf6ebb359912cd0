"""The client of Weft's object store, over weft/object_store.h.

    from weft import store
    with store.ObjectStore() as client:
        client.put("matrix", data)             # anything with a buffer: bytes, array, numpy array
        with client.create("other", 1 << 20) as buffer:
            buffer.data[:] = ...               # sealed at the end of the block
        view = client.get("matrix", timeout=1.0)   # a read-only memoryview of the store's own memory
        array = numpy.frombuffer(view, dtype="f8")

An object stays, and its bytes can be read, while a view of it, or what was made of one, is alive,
after close(), too. Ids are 1 to 255 bytes: bytes as they are, str in UTF-8; anything else is a
TypeError. Ids that calls return are str if they are printable text, else bytes.

Times are seconds; None and inf: for ever; below 0 and nan are errors. Ctrl-C ends a call of the main
thread that waits. Calls raise weft.StoreError, a weft.Error, which has `code` ("not found", "exists
already", ...) and the `id` that was asked for; BadArgument is one that is a ValueError, too.

A child by fork connects anew: what it has of its parent's store raises BadArgument. A pickled
ObjectStore connects anew where it is unpickled, so a multiprocessing pool may be given one.

asyncio. Calls that wait have a form for it, with _async behind the name: a thread of its own makes
the call. A cancelled one goes on in its thread to its end or timeout, and its result is dropped.
"""
from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_uint8, \
    c_void_p
from types import TracebackType
from typing import Any, Iterable, List, NoReturn, Union

from ._library import load
from ._threads import in_thread
from .errors import BadArgument, StoreError

__all__ = ["ObjectStore", "Buffer", "Error", "StoreError", "BadArgument"]

Error = StoreError  # its former name
Identifier = Union[str, bytes, bytearray, memoryview]
# What has the buffer protocol: bytes, bytearray, memoryview, array.array, a numpy array.
Data = Any



class _Id(ctypes.Structure):
    _fields_ = [("size", c_uint8), ("bytes", c_uint8 * 255)]


class _Entry(ctypes.Structure):
    _fields_ = [("id", _Id), ("metadata_bytes", c_uint32), ("data_bytes", c_uint64),
                ("is_pinned", c_uint32), ("is_referenced", c_uint32), ("is_spilled", c_uint32)]


class _Pushed(ctypes.Structure):
    _fields_ = [("host", ctypes.c_char * 120), ("code", c_int), ("was_there", c_int)]


_IsInterrupted = ctypes.CFUNCTYPE(c_int)
_lib: Any = load("libweft_objstore.so.1")
_function_name: str
for _function_name, _result, *_arguments in (  # type: ignore[assignment]
        ("weft_object_error_text", c_char_p),
        ("weft_object_store_open", c_int, c_char_p, c_char_p, POINTER(c_void_p)),
        ("weft_object_store_close", None, c_void_p),
        ("weft_object_store_set_interrupt", None, c_void_p, _IsInterrupted),
        ("weft_object_store_interrupts", POINTER(c_int), c_void_p),
        ("weft_object_contains", c_int, c_void_p, POINTER(_Id)),
        ("weft_object_create", c_int, c_void_p, POINTER(_Id), c_uint64, c_uint32, c_uint64, c_int,
         c_int64, POINTER(c_void_p)),
        ("weft_object_buffer_data", c_void_p, c_void_p),
        ("weft_object_buffer_metadata", c_void_p, c_void_p),
        ("weft_object_seal", c_int, c_void_p, c_void_p),
        ("weft_object_abort", None, c_void_p),
        ("weft_object_put_first", c_int, c_void_p, POINTER(_Id), c_void_p, c_uint64, c_void_p,
         c_uint32, c_uint32, c_int, c_uint64, c_int, c_int64),
        ("weft_object_get", c_int, c_void_p, POINTER(_Id), c_size_t, c_int64, POINTER(c_void_p)),
        ("weft_object_data", c_void_p, c_void_p, POINTER(c_uint64)),
        ("weft_object_metadata", c_void_p, c_void_p, POINTER(c_uint64)),
        ("weft_object_release", None, c_void_p),
        ("weft_object_get_into", c_int, c_void_p, POINTER(_Id), c_uint64, c_void_p, c_uint64,
         c_int64, POINTER(c_uint64)),
        ("weft_object_memory_allocate", c_int, c_void_p, c_uint64, POINTER(c_void_p)),
        ("weft_object_memory_data", c_void_p, c_void_p),
        ("weft_object_memory_free", None, c_void_p),
        ("weft_object_push", c_int, c_void_p, POINTER(_Id), POINTER(c_char_p), c_size_t, c_int64,
         POINTER(_Pushed), c_size_t, POINTER(c_size_t)),
        ("weft_object_delete", c_int, c_void_p, POINTER(_Id)),
        ("weft_object_pin", c_int, c_void_p, POINTER(_Id), c_int),
        ("weft_object_wait", c_int, c_void_p, POINTER(_Id), c_size_t, c_size_t, c_int64,
         POINTER(c_uint8)),
        ("weft_object_fetch", c_int, c_void_p, POINTER(_Id), c_size_t, c_int64),
        ("weft_object_list", c_int, c_void_p, POINTER(_Entry), c_size_t, POINTER(c_size_t)),
        ("weft_object_subscribe", c_int, c_void_p),
        ("weft_object_next_event", c_int, c_void_p, c_int64, POINTER(_Entry)),
        ("weft_object_status", c_int, c_void_p, c_char_p, c_size_t)):
    _function: Any = getattr(_lib, _function_name)
    _function.restype = _result
    _function.argtypes = _arguments

_CODES = ("ok", "again", "bad argument", "bad setting", "out of memory", "not permitted",
          "not found", "truncated", "peer lost", "timed out", "corrupt", "unsupported", "cancelled",
          "internal error", "outcome unknown", "exists already")


def _name(code: int) -> str:
    return _CODES[code] if code < len(_CODES) else "unknown"


def _raise(code: int, identifier: Any = None) -> NoReturn:
    text = _lib.weft_object_error_text().decode(errors="replace")
    if code == 2:
        raise BadArgument(text, identifier)
    raise Error(_name(code), text, identifier)


# Returns whether Ctrl-C was pressed, for calls that wait. It runs no Python, where the KeyboardInterrupt
# would be raised and lost. None: the interpreter has no such function.
_is_interrupted: Any = None
if hasattr(ctypes, "pythonapi") and hasattr(ctypes.pythonapi, "PyOS_InterruptOccurred"):
    _is_interrupted = _IsInterrupted(ctypes.pythonapi.PyOS_InterruptOccurred)


def _encoded(identifier: Identifier) -> bytes:
    if isinstance(identifier, str):
        return identifier.encode()
    if isinstance(identifier, (bytes, bytearray, memoryview)):
        return bytes(identifier)
    raise TypeError(f"an object's id is str or bytes, not {type(identifier).__name__}")


def _fill(made: _Id, identifier: Identifier) -> _Id:
    value = _encoded(identifier)
    if not 1 <= len(value) <= 255:
        raise BadArgument(f"an object's id is 1 to 255 bytes, and this one is of {len(value)}",
                          identifier)
    made.size = len(value)
    ctypes.memmove(made.bytes, value, len(value))
    return made


def _id(identifier: Identifier) -> _Id:
    return _fill(_Id(), identifier)


def _listed(values: Iterable[Any], what: str) -> list[Any]:
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"{what} are a list, and here is one alone: {values!r}")
    return list(values)


def _ids(identifiers: list[Any]) -> Any:
    made: Any = (_Id * len(identifiers))()
    for one, identifier in zip(made, identifiers):
        _fill(one, identifier)
    return made


def _text(identifier: Any) -> str | bytes:
    value = bytes(identifier.bytes[:identifier.size])
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value
    return text if text.isprintable() else value


def _size(number: Any, what: str, most: int = (1 << 63) - 1) -> int:
    """A C integer takes any number and drops what is too much of it."""
    try:
        size: int = number.__index__()
    except AttributeError:
        raise TypeError(f"{what} is an integer, not {type(number).__name__}") from None
    if not 0 <= size <= most:
        raise BadArgument(f"{what} is {size}; it is 0 to {most}")
    return size


def _ms(seconds: float | None, what: str = "timeout") -> int:
    if seconds is None:
        return -1
    seconds = float(seconds)
    if not seconds >= 0:  # nan, too
        raise BadArgument(f"{what} is {seconds}; it is 0 seconds or more, or None for ever")
    return -1 if math.isinf(seconds) else min(math.ceil(seconds * 1000), 1 << 62)


def _ttl(seconds: float | None) -> int:
    return max(_ms(seconds, "ttl"), 0)  # for ever is 0


def _c_text(text: str | bytes | os.PathLike[str], what: str) -> bytes:
    """Without a byte 0, where C would end it."""
    encoded = text.encode() if isinstance(text, str) else os.fsencode(text)
    if b"\0" in encoded:
        raise BadArgument(f"{what} {text!r} has a byte 0 in it")
    return encoded


class _Connection:
    """Of the process that made it. Objects, buffers and memory keep it; the library closes it with
    the last of them, as Python's collector ends them in any order."""
    handle: Any = None

    def __init__(self, socket: str | bytes | os.PathLike[str] | None, name: str) -> None:
        handle = c_void_p()
        code = _lib.weft_object_store_open(None if socket is None else _c_text(socket, "socket"),
                                           _c_text(name, "name"), byref(handle))
        if code:
            _raise(code)
        self.handle, self.pid = handle, os.getpid()
        self.interrupts, self.num_interrupts = _lib.weft_object_store_interrupts(handle), 0
        if _is_interrupted is not None:
            _lib.weft_object_store_set_interrupt(handle, _is_interrupted)

    def __del__(self, close: Any = _lib.weft_object_store_close) -> None:
        if self.handle:
            close(self.handle)

    def check_process(self) -> None:
        if os.getpid() != self.pid:
            raise BadArgument(f"this ObjectStore is of process {self.pid}, of which this one is a "
                              "fork: connect anew after fork")

    def check(self, code: int, identifier: Any = None) -> None:
        """At the end of a call, when what it gave is in Python's hands."""
        if self.interrupts[0] != self.num_interrupts and \
                threading.current_thread() is threading.main_thread():
            self.num_interrupts = self.interrupts[0]
            signal.raise_signal(signal.SIGINT)  # which the library has taken
            ctypes.pythonapi.PyErr_CheckSignals()
        if code:
            _raise(code, identifier)


class _Reference:
    """Keeps an object as long as views of it live."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __del__(self, release: Any = _lib.weft_object_release) -> None:
        release(self._handle)

    def view(self, function: Any) -> memoryview:
        length = c_uint64()
        address = function(self._handle, byref(length))
        array: Any = ((c_uint8 * length.value).from_address(address or 0) if length.value
                      else (c_uint8 * 0)())
        array._reference = self  # lives as long as the array, and the view of it
        return memoryview(array).cast("B").toreadonly()


class _Memory:
    """Keeps memory of the store's as long as views of it live."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __del__(self, free: Any = _lib.weft_object_memory_free) -> None:
        free(self._handle)

    def view(self, length: int) -> memoryview:
        if not length:
            return memoryview(bytearray())
        array: Any = (c_uint8 * length).from_address(_lib.weft_object_memory_data(self._handle))
        array._memory = self
        return memoryview(array).cast("B")


class Buffer:
    """An object being written: `data` and `metadata` are writable memoryviews until it is sealed."""
    _handle: Any = None  # for what was not made

    def __init__(self, connection: _Connection, identifier: Identifier, handle: Any,
                 data_bytes: int, metadata_bytes: int) -> None:
        self._handle = handle
        self._connection, self._identifier = connection, identifier

        def view(address: int, length: int) -> memoryview:
            array: Any = (c_uint8 * length).from_address(address) if length else (c_uint8 * 0)()
            array._connection = connection  # whose memory it is
            return memoryview(array).cast("B")
        self.data: memoryview = view(_lib.weft_object_buffer_data(handle), data_bytes)
        self.metadata: memoryview = view(_lib.weft_object_buffer_metadata(handle), metadata_bytes)

    def _leave(self) -> Any:
        if not self._handle:
            raise BadArgument(f"the buffer of {self._identifier!r} was sealed or aborted before",
                              self._identifier)
        self.data.release()  # a BufferError: arrays that were made of it are to be dropped before
        self.metadata.release()
        handle, self._handle = self._handle, None
        return handle

    def seal(self) -> None:
        """From now on others see the object; it no longer changes."""
        self._connection.check_process()
        self._connection.check(_lib.weft_object_seal(self._connection.handle, self._leave()),
                               self._identifier)

    def abort(self) -> None:
        """The object is never seen. Nothing if it was sealed."""
        if self._handle:
            _lib.weft_object_abort(self._leave())

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif self._handle:
            self.seal()

    def __del__(self, abort: Any = _lib.weft_object_abort) -> None:
        if self._handle:
            abort(self._handle)


class ObjectStore:
    """A connection to the store of this host. socket: its path; None: where weft-store has it by itself."""

    _connection: _Connection | None = None

    def __init__(self, socket: str | bytes | os.PathLike[str] | None = None,
                 name: str = "python") -> None:
        self._connection = _Connection(socket, name)
        self._arguments = (socket, name)

    def close(self) -> None:
        """Views of objects stay as they are; the store keeps their objects until the last is gone."""
        self._connection = None

    def __enter__(self) -> ObjectStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return ObjectStore, self._arguments

    def _open(self) -> _Connection:
        connection = self._connection
        if connection is None:
            raise BadArgument("this ObjectStore was closed")
        connection.check_process()
        return connection

    def __contains__(self, identifier: Identifier) -> bool:
        return bool(_lib.weft_object_contains(self._open().handle, byref(_id(identifier))))

    def create(self, identifier: Identifier, data_bytes: int, metadata_bytes: int = 0,
               ttl: float | None = 0, pin: bool = False, timeout: float | None = 10.0) -> Buffer:
        """An object to be written, which others see once it is sealed. ttl: seconds that it stays; 0
        and None: for ever. timeout: how long to wait for memory."""
        connection, handle = self._open(), c_void_p()
        data_bytes = _size(data_bytes, "data_bytes")
        metadata_bytes = _size(metadata_bytes, "metadata_bytes", (1 << 32) - 1)
        code = _lib.weft_object_create(connection.handle, byref(_id(identifier)), data_bytes,
                                       metadata_bytes, _ttl(ttl), int(pin), _ms(timeout),
                                       byref(handle))
        buffer = Buffer(connection, identifier, handle, data_bytes, metadata_bytes) \
            if code == 0 else None
        connection.check(code, identifier)
        assert buffer is not None  # or check() has raised
        return buffer

    def put(self, identifier: Identifier, data: Data, metadata: Data = b"",
            ttl: float | None = 0, pin: bool = False, timeout: float | None = 10.0, copies: int = 1,
            first: bool = False) -> None:
        """copies: hosts that have it before this returns. first: an Error, "exists already", if
        another host has an object of that id, which takes a message there and back."""
        connection, view, metadata = self._open(), memoryview(data), bytes(metadata)
        if (copies != 1 or first) and (view.readonly or not view.c_contiguous):
            view = memoryview(bytearray(view))
        if view.readonly or not view.c_contiguous:
            # ctypes takes the address of writable memory only.
            with self.create(identifier, view.nbytes, len(metadata), ttl, pin, timeout) as buffer:
                buffer.data[:] = view.cast("B") if view.c_contiguous else view.tobytes()
                buffer.metadata[:] = metadata
            return
        array = (c_uint8 * view.nbytes).from_buffer(view) if view.nbytes else None
        connection.check(_lib.weft_object_put_first(
            connection.handle, byref(_id(identifier)), array, view.nbytes, metadata,
            _size(len(metadata), "the metadata's length", (1 << 32) - 1),
            _size(copies, "copies", (1 << 32) - 1), int(first), _ttl(ttl), int(pin), _ms(timeout)),
            identifier)

    def get(self, identifier: Identifier, timeout: float | None = 0.0) -> memoryview:
        """The data, a memoryview without a copy."""
        return self.get_all([identifier], timeout)[0]

    def get_all(self, identifiers: Iterable[Identifier],
                timeout: float | None = 0.0) -> list[memoryview]:
        """The data of each, in their order."""
        return [view for view, _ in self.get_with_metadata(identifiers, timeout)]

    def get_with_metadata(self, identifiers: Iterable[Identifier], timeout: float | None = 0.0
                          ) -> list[tuple[memoryview, memoryview]]:
        """Pairs of views: data and metadata."""
        connection, identifiers = self._open(), _listed(identifiers, "ids")
        if not identifiers:
            return []
        handles = (c_void_p * len(identifiers))()
        code = _lib.weft_object_get(connection.handle, _ids(identifiers), len(identifiers),
                                    _ms(timeout), handles)
        references = [_Reference(handle) for handle in handles if handle]
        connection.check(code, identifiers[0] if len(identifiers) == 1 else identifiers)
        return [(reference.view(_lib.weft_object_data), reference.view(_lib.weft_object_metadata))
                for reference in references]

    def get_into(self, identifier: Identifier, into: Data, offset: int = 0,
                 timeout: float | None = 0.0) -> int:
        """Fills writable memory with data from `offset` on, and keeps no copy on this host; how many
        bytes there were. From another host straight into memory of allocate()."""
        connection, view = self._open(), memoryview(into).cast("B")
        array = (c_uint8 * view.nbytes).from_buffer(view) if view.nbytes else None
        whole = c_uint64()
        connection.check(_lib.weft_object_get_into(
            connection.handle, byref(_id(identifier)), _size(offset, "offset"), array, view.nbytes,
            _ms(timeout), byref(whole)), identifier)
        return min(view.nbytes, whole.value - offset)

    def get_range(self, identifier: Identifier, offset: int, length: int,
                  timeout: float | None = 0.0) -> memoryview:
        """A range of the data, shorter at the object's end, in memory of its own. An offset behind
        the end is a BadArgument."""
        _size(offset, "offset")
        made = self.allocate(length)
        return made[:self.get_into(identifier, made, offset, timeout)].toreadonly()

    def allocate(self, length: int) -> memoryview:
        """A writable memoryview of memory that the store can write to."""
        connection, handle, length = self._open(), c_void_p(), _size(length, "length")
        code = _lib.weft_object_memory_allocate(connection.handle, length, byref(handle))
        memory = _Memory(handle) if code == 0 else None
        connection.check(code)
        assert memory is not None  # or check() has raised
        return memory.view(length)

    def push(self, identifier: Identifier, hosts: Iterable[str] = (),
             timeout: float | None = 60.0) -> dict[str, str]:
        """Sends the object to these hosts at once, or to all: {host: "had it" or "has it"}. If some
        have not got it, the Error's `hosts` has the result of each."""
        connection, hosts = self._open(), _listed(hosts, "hosts")
        names = (c_char_p * len(hosts))(*[_c_text(host, "host") for host in hosts])
        pushed: Any = (_Pushed * (len(hosts) or 4095))()
        num = c_size_t()
        code = _lib.weft_object_push(connection.handle, byref(_id(identifier)), names, len(hosts),
                                     _ms(timeout), pushed, len(pushed), byref(num))
        results = {host.host.decode(errors="replace"):
                   ("had it" if host.was_there else "has it") if host.code == 0
                   else _name(host.code) for host in pushed[:num.value]}
        try:
            connection.check(code, identifier)
        except StoreError as error:
            error.hosts = results
            raise
        return results

    def delete(self, identifier: Identifier) -> None:
        """Views of it stay as they are."""
        connection = self._open()
        connection.check(_lib.weft_object_delete(connection.handle, byref(_id(identifier))),
                         identifier)

    def pin(self, identifier: Identifier, pinned: bool = True) -> None:
        """A pinned object stays when memory is short."""
        connection = self._open()
        connection.check(_lib.weft_object_pin(connection.handle, byref(_id(identifier)),
                                              int(pinned)), identifier)

    def wait(self, identifiers: Iterable[Identifier], least: int | None = None,
             timeout: float | None = None) -> list[Any]:
        """The ids that are here once `least` are, or the time is over."""
        connection, identifiers = self._open(), _listed(identifiers, "ids")
        here = (c_uint8 * len(identifiers))()
        code = _lib.weft_object_wait(
            connection.handle, _ids(identifiers), len(identifiers),
            len(identifiers) if least is None else _size(least, "least"), _ms(timeout), here)
        # timed out: the result has what is missing
        connection.check(0 if code == 9 else code, identifiers)
        return [identifier for identifier, is_here in zip(identifiers, here) if is_here]

    def fetch(self, identifiers: Iterable[Identifier], timeout: float | None = None) -> None:
        """Returns once copies of the objects are on this host."""
        connection, identifiers = self._open(), _listed(identifiers, "ids")
        connection.check(_lib.weft_object_fetch(connection.handle, _ids(identifiers),
                                                len(identifiers), _ms(timeout)), identifiers)

    def list(self) -> List[tuple[str | bytes, int, int]]:
        """(id, data bytes, metadata bytes) of each object."""
        connection, num, most = self._open(), c_size_t(), 1024
        while True:
            entries: Any = (_Entry * most)()
            connection.check(_lib.weft_object_list(connection.handle, entries, most, byref(num)))
            if num.value <= most:
                return [(_text(entry.id), entry.data_bytes, entry.metadata_bytes)
                        for entry in entries[:num.value]]
            most = num.value + 1024

    def subscribe(self) -> None:
        """From now on next_event() has objects that are sealed."""
        connection = self._open()
        connection.check(_lib.weft_object_subscribe(connection.handle))

    def next_event(self, timeout: float | None = None) -> tuple[str | bytes, int] | None:
        """(id, data bytes) of an object sealed since subscribe(), or None."""
        connection, event = self._open(), _Entry()
        code = _lib.weft_object_next_event(connection.handle, _ms(timeout), byref(event))
        connection.check(0 if code == 9 else code)
        return None if code == 9 else (_text(event.id), event.data_bytes)

    def status(self) -> dict[str, Any]:
        """What the store says about itself, its clients and its peers."""
        connection, text = self._open(), ctypes.create_string_buffer(1 << 18)
        connection.check(_lib.weft_object_status(connection.handle, text, len(text)))
        status: dict[str, Any] = json.loads(text.value)
        return status

    async def create_async(self, identifier: Identifier, data_bytes: int, metadata_bytes: int = 0,
                           ttl: float | None = 0, pin: bool = False,
                           timeout: float | None = 10.0) -> Buffer:
        """create() for asyncio."""
        return await in_thread(self.create, identifier, data_bytes, metadata_bytes, ttl, pin, timeout)

    async def put_async(self, identifier: Identifier, data: Data, metadata: Data = b"",
                        ttl: float | None = 0, pin: bool = False, timeout: float | None = 10.0,
                        copies: int = 1, first: bool = False) -> None:
        """put() for asyncio."""
        await in_thread(self.put, identifier, data, metadata, ttl, pin, timeout, copies, first)

    async def get_async(self, identifier: Identifier, timeout: float | None = 0.0) -> memoryview:
        """get() for asyncio."""
        return await in_thread(self.get, identifier, timeout)

    async def get_all_async(self, identifiers: Iterable[Identifier],
                            timeout: float | None = 0.0) -> List[memoryview]:
        """get_all() for asyncio."""
        return await in_thread(self.get_all, identifiers, timeout)

    async def get_with_metadata_async(self, identifiers: Iterable[Identifier],
                                      timeout: float | None = 0.0
                                      ) -> List[tuple[memoryview, memoryview]]:
        """get_with_metadata() for asyncio."""
        return await in_thread(self.get_with_metadata, identifiers, timeout)

    async def get_into_async(self, identifier: Identifier, into: Data, offset: int = 0,
                             timeout: float | None = 0.0) -> int:
        """get_into() for asyncio."""
        return await in_thread(self.get_into, identifier, into, offset, timeout)

    async def get_range_async(self, identifier: Identifier, offset: int, length: int,
                              timeout: float | None = 0.0) -> memoryview:
        """get_range() for asyncio."""
        return await in_thread(self.get_range, identifier, offset, length, timeout)

    async def push_async(self, identifier: Identifier, hosts: Iterable[str] = (),
                         timeout: float | None = 60.0) -> dict[str, str]:
        """push() for asyncio."""
        return await in_thread(self.push, identifier, hosts, timeout)

    async def wait_async(self, identifiers: Iterable[Identifier], least: int | None = None,
                         timeout: float | None = None) -> List[Any]:
        """wait() for asyncio."""
        return await in_thread(self.wait, identifiers, least, timeout)

    async def fetch_async(self, identifiers: Iterable[Identifier],
                          timeout: float | None = None) -> None:
        """fetch() for asyncio."""
        await in_thread(self.fetch, identifiers, timeout)

    async def next_event_async(self, timeout: float | None = None
                               ) -> tuple[str | bytes, int] | None:
        """next_event() for asyncio. Where it is cancelled, an event may be lost: give it a timeout
        rather than cancel it."""
        return await in_thread(self.next_event, timeout)
