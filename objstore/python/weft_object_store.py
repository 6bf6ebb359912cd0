"""Weft's object store for Python, over weft/object_store.h. Nothing to build: it loads
libweft_objstore.so.

    import weft_object_store
    store = weft_object_store.ObjectStore()
    store.put("matrix", data)                  # anything with a buffer: bytes, array, numpy array
    with store.create("other", 1 << 20) as buffer:
        buffer.data[:] = ...                   # sealed at the end of the block
    view = store.get("matrix", timeout=1.0)    # a read-only memoryview of the store's own memory
    array = numpy.frombuffer(view, dtype="f8")

An object stays, and its bytes can be read, while a view of it, or what was made of one, is alive,
after close(), too. Ids are 1 to 255 bytes: bytes as they are, str in UTF-8; anything else is a
TypeError. Ids that calls return are str if they are printable text, else bytes.

Times are seconds; None and inf: for ever; below 0 and nan are errors. Ctrl-C ends a call of the main
thread that waits. Calls raise Error, which has `code` ("not found", "exists already", ...) and the
`id` that was asked for; BadArgument is one that is a ValueError, too.

A child by fork connects anew: what it has of its parent's store raises BadArgument. A pickled
ObjectStore connects anew where it is unpickled, so a multiprocessing pool may be given one.
"""
import ctypes
import math
import os
import signal
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_uint8, \
    c_void_p


class Error(Exception):
    """code: what happened, in words. id: of the object concerned, or None. hosts: of push, what
    happened at each."""

    def __init__(self, code, text, identifier=None):
        super().__init__(text or code)
        self.code = code
        self.id = identifier
        self.hosts = {}


class BadArgument(Error, ValueError):
    def __init__(self, text, identifier=None):
        super().__init__("bad argument", text, identifier)


class _Id(ctypes.Structure):
    _fields_ = [("size", c_uint8), ("bytes", c_uint8 * 255)]


class _Entry(ctypes.Structure):
    _fields_ = [("id", _Id), ("metadata_bytes", c_uint32), ("data_bytes", c_uint64),
                ("is_pinned", c_uint32), ("is_referenced", c_uint32), ("is_spilled", c_uint32)]


class _Pushed(ctypes.Structure):
    _fields_ = [("host", ctypes.c_char * 120), ("code", c_int), ("was_there", c_int)]


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, "..", "..", "libweft_objstore.so.1"), "libweft_objstore.so.1"):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            failure = error
    raise failure


_IsInterrupted = ctypes.CFUNCTYPE(c_int)
_lib = _load()
for _name, _result, *_arguments in (
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
    _function = getattr(_lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments

_CODES = ("ok", "again", "bad argument", "bad setting", "out of memory", "not permitted",
          "not found", "truncated", "peer lost", "timed out", "corrupt", "unsupported", "cancelled",
          "internal error", "outcome unknown", "exists already")


def _name(code):
    return _CODES[code] if code < len(_CODES) else "unknown"


def _raise(code, identifier=None):
    text = _lib.weft_object_error_text().decode(errors="replace")
    if code == 2:
        raise BadArgument(text, identifier)
    raise Error(_name(code), text, identifier)


# Returns whether Ctrl-C was pressed, for calls that wait. It runs no Python, where the KeyboardInterrupt
# would be raised and lost. None: the interpreter has no such function.
_is_interrupted = None
if hasattr(ctypes, "pythonapi") and hasattr(ctypes.pythonapi, "PyOS_InterruptOccurred"):
    _is_interrupted = _IsInterrupted(ctypes.pythonapi.PyOS_InterruptOccurred)


def _encoded(identifier):
    if isinstance(identifier, str):
        return identifier.encode()
    if isinstance(identifier, (bytes, bytearray, memoryview)):
        return bytes(identifier)
    raise TypeError(f"an object's id is str or bytes, not {type(identifier).__name__}")


def _fill(made, identifier):
    value = _encoded(identifier)
    if not 1 <= len(value) <= 255:
        raise BadArgument(f"an object's id is 1 to 255 bytes, and this one is of {len(value)}",
                          identifier)
    made.size = len(value)
    ctypes.memmove(made.bytes, value, len(value))
    return made


def _id(identifier):
    return _fill(_Id(), identifier)


def _listed(values, what):
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"{what} are a list, and here is one alone: {values!r}")
    return list(values)


def _ids(identifiers):
    made = (_Id * len(identifiers))()
    for one, identifier in zip(made, identifiers):
        _fill(one, identifier)
    return made


def _text(identifier):
    value = bytes(identifier.bytes[:identifier.size])
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value
    return text if text.isprintable() else value


def _size(number, what, most=(1 << 63) - 1):
    """A C integer takes any number and drops what is too much of it."""
    try:
        number = number.__index__()
    except AttributeError:
        raise TypeError(f"{what} is an integer, not {type(number).__name__}") from None
    if not 0 <= number <= most:
        raise BadArgument(f"{what} is {number}; it is 0 to {most}")
    return number


def _ms(seconds, what="timeout"):
    if seconds is None:
        return -1
    seconds = float(seconds)
    if not seconds >= 0:  # nan, too
        raise BadArgument(f"{what} is {seconds}; it is 0 seconds or more, or None for ever")
    return -1 if math.isinf(seconds) else min(math.ceil(seconds * 1000), 1 << 62)


def _ttl(seconds):
    return max(_ms(seconds, "ttl"), 0)  # for ever is 0


def _c_text(text, what):
    """Without a byte 0, where C would end it."""
    encoded = text.encode() if isinstance(text, str) else os.fsencode(text)
    if b"\0" in encoded:
        raise BadArgument(f"{what} {text!r} has a byte 0 in it")
    return encoded


class _Connection:
    """Of the process that made it. Objects, buffers and memory keep it; the library closes it with
    the last of them, as Python's collector ends them in any order."""
    handle = None

    def __init__(self, socket, name):
        handle = c_void_p()
        code = _lib.weft_object_store_open(None if socket is None else _c_text(socket, "socket"),
                                           _c_text(name, "name"), byref(handle))
        if code:
            _raise(code)
        self.handle, self.pid = handle, os.getpid()
        self.interrupts, self.num_interrupts = _lib.weft_object_store_interrupts(handle), 0
        if _is_interrupted is not None:
            _lib.weft_object_store_set_interrupt(handle, _is_interrupted)

    def __del__(self, close=_lib.weft_object_store_close):
        if self.handle:
            close(self.handle)

    def check_process(self):
        if os.getpid() != self.pid:
            raise BadArgument(f"this ObjectStore is of process {self.pid}, of which this one is a "
                              "fork: connect anew after fork")

    def check(self, code, identifier=None):
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

    def __init__(self, handle):
        self._handle = handle

    def __del__(self, release=_lib.weft_object_release):
        release(self._handle)

    def view(self, function):
        length = c_uint64()
        address = function(self._handle, byref(length))
        array = (c_uint8 * length.value).from_address(address or 0) if length.value else (c_uint8 * 0)()
        array._reference = self  # lives as long as the array, and the view of it
        return memoryview(array).cast("B").toreadonly()


class _Memory:
    """Keeps memory of the store's as long as views of it live."""

    def __init__(self, handle):
        self._handle = handle

    def __del__(self, free=_lib.weft_object_memory_free):
        free(self._handle)

    def view(self, length):
        if not length:
            return memoryview(bytearray())
        array = (c_uint8 * length).from_address(_lib.weft_object_memory_data(self._handle))
        array._memory = self
        return memoryview(array).cast("B")


class Buffer:
    """An object being written: `data` and `metadata` are writable memoryviews until it is sealed."""
    _handle = None  # for what was not made

    def __init__(self, connection, identifier, handle, data_bytes, metadata_bytes):
        self._handle = handle
        self._connection, self._identifier = connection, identifier

        def view(address, length):
            array = (c_uint8 * length).from_address(address) if length else (c_uint8 * 0)()
            array._connection = connection  # whose memory it is
            return memoryview(array).cast("B")
        self.data = view(_lib.weft_object_buffer_data(handle), data_bytes)
        self.metadata = view(_lib.weft_object_buffer_metadata(handle), metadata_bytes)

    def _leave(self):
        if not self._handle:
            raise BadArgument(f"the buffer of {self._identifier!r} was sealed or aborted before",
                              self._identifier)
        self.data.release()  # a BufferError: arrays that were made of it are to be dropped before
        self.metadata.release()
        handle, self._handle = self._handle, None
        return handle

    def seal(self):
        self._connection.check_process()
        self._connection.check(_lib.weft_object_seal(self._connection.handle, self._leave()),
                               self._identifier)

    def abort(self):
        if self._handle:
            _lib.weft_object_abort(self._leave())

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.abort()
        elif self._handle:
            self.seal()

    def __del__(self, abort=_lib.weft_object_abort):
        if self._handle:
            abort(self._handle)


class ObjectStore:
    _connection = None

    def __init__(self, socket=None, name="python"):
        self._connection = _Connection(socket, name)
        self._arguments = (socket, name)

    def close(self):
        """Views of objects stay as they are; the store keeps their objects until the last is gone."""
        self._connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        return ObjectStore, self._arguments

    def _open(self):
        connection = self._connection
        if connection is None:
            raise BadArgument("this ObjectStore was closed")
        connection.check_process()
        return connection

    def __contains__(self, identifier):
        return bool(_lib.weft_object_contains(self._open().handle, byref(_id(identifier))))

    def create(self, identifier, data_bytes, metadata_bytes=0, ttl=0, pin=False, timeout=10.0):
        connection, handle = self._open(), c_void_p()
        data_bytes = _size(data_bytes, "data_bytes")
        metadata_bytes = _size(metadata_bytes, "metadata_bytes", (1 << 32) - 1)
        code = _lib.weft_object_create(connection.handle, byref(_id(identifier)), data_bytes,
                                       metadata_bytes, _ttl(ttl), int(pin), _ms(timeout),
                                       byref(handle))
        buffer = Buffer(connection, identifier, handle, data_bytes, metadata_bytes) \
            if code == 0 else None
        connection.check(code, identifier)
        return buffer

    def put(self, identifier, data, metadata=b"", ttl=0, pin=False, timeout=10.0, copies=1,
            first=False):
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

    def get(self, identifier, timeout=0.0):
        """The data, a memoryview without a copy."""
        return self.get_all([identifier], timeout)[0]

    def get_all(self, identifiers, timeout=0.0):
        return [view for view, _ in self.get_with_metadata(identifiers, timeout)]

    def get_with_metadata(self, identifiers, timeout=0.0):
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

    def get_into(self, identifier, into, offset=0, timeout=0.0):
        """Fills writable memory with data from `offset` on, and keeps no copy on this host; how many
        bytes there were. From another host straight into memory of allocate()."""
        connection, view = self._open(), memoryview(into).cast("B")
        array = (c_uint8 * view.nbytes).from_buffer(view) if view.nbytes else None
        whole = c_uint64()
        connection.check(_lib.weft_object_get_into(
            connection.handle, byref(_id(identifier)), _size(offset, "offset"), array, view.nbytes,
            _ms(timeout), byref(whole)), identifier)
        return min(view.nbytes, whole.value - offset)

    def get_range(self, identifier, offset, length, timeout=0.0):
        """A range of the data, shorter at the object's end, in memory of its own. An offset behind
        the end is a BadArgument."""
        _size(offset, "offset")
        made = self.allocate(length)
        return made[:self.get_into(identifier, made, offset, timeout)].toreadonly()

    def allocate(self, length):
        """A writable memoryview of memory that the store can write to."""
        connection, handle, length = self._open(), c_void_p(), _size(length, "length")
        code = _lib.weft_object_memory_allocate(connection.handle, length, byref(handle))
        memory = _Memory(handle) if code == 0 else None
        connection.check(code)
        return memory.view(length)

    def push(self, identifier, hosts=(), timeout=60.0):
        """Sends the object to these hosts at once, or to all: {host: "had it" or "has it"}. If some
        have not got it, the Error's `hosts` has the result of each."""
        connection, hosts = self._open(), _listed(hosts, "hosts")
        names = (c_char_p * len(hosts))(*[_c_text(host, "host") for host in hosts])
        pushed, num = (_Pushed * (len(hosts) or 4095))(), c_size_t()
        code = _lib.weft_object_push(connection.handle, byref(_id(identifier)), names, len(hosts),
                                     _ms(timeout), pushed, len(pushed), byref(num))
        results = {host.host.decode(errors="replace"):
                   ("had it" if host.was_there else "has it") if host.code == 0
                   else _name(host.code) for host in pushed[:num.value]}
        try:
            connection.check(code, identifier)
        except Error as error:
            error.hosts = results
            raise
        return results

    def delete(self, identifier):
        connection = self._open()
        connection.check(_lib.weft_object_delete(connection.handle, byref(_id(identifier))),
                         identifier)

    def pin(self, identifier, pinned=True):
        connection = self._open()
        connection.check(_lib.weft_object_pin(connection.handle, byref(_id(identifier)),
                                              int(pinned)), identifier)

    def wait(self, identifiers, least=None, timeout=None):
        """The ids that are here once `least` are, or the time is over."""
        connection, identifiers = self._open(), _listed(identifiers, "ids")
        here = (c_uint8 * len(identifiers))()
        code = _lib.weft_object_wait(
            connection.handle, _ids(identifiers), len(identifiers),
            len(identifiers) if least is None else _size(least, "least"), _ms(timeout), here)
        # timed out: the result has what is missing
        connection.check(0 if code == 9 else code, identifiers)
        return [identifier for identifier, is_here in zip(identifiers, here) if is_here]

    def fetch(self, identifiers, timeout=None):
        connection, identifiers = self._open(), _listed(identifiers, "ids")
        connection.check(_lib.weft_object_fetch(connection.handle, _ids(identifiers),
                                                len(identifiers), _ms(timeout)), identifiers)

    def list(self):
        """(id, data bytes, metadata bytes) of each object."""
        connection, num, most = self._open(), c_size_t(), 1024
        while True:
            entries = (_Entry * most)()
            connection.check(_lib.weft_object_list(connection.handle, entries, most, byref(num)))
            if num.value <= most:
                return [(_text(entry.id), entry.data_bytes, entry.metadata_bytes)
                        for entry in entries[:num.value]]
            most = num.value + 1024

    def subscribe(self):
        connection = self._open()
        connection.check(_lib.weft_object_subscribe(connection.handle))

    def next_event(self, timeout=None):
        """(id, data bytes) of an object sealed since subscribe(), or None."""
        connection, event = self._open(), _Entry()
        code = _lib.weft_object_next_event(connection.handle, _ms(timeout), byref(event))
        connection.check(0 if code == 9 else code)
        return None if code == 9 else (_text(event.id), event.data_bytes)

    def status(self):
        import json
        connection, text = self._open(), ctypes.create_string_buffer(1 << 18)
        connection.check(_lib.weft_object_status(connection.handle, text, len(text)))
        return json.loads(text.value)
