"""Weft's Node for Python, over weft/node.h. Nothing to build: it loads libweft.so.

    import weft
    node = weft.Node("client", secret="...")   # or secret=b"..."
    peer = node.connect("host:7000")
    peer.send(b"hello")
    for event in node.events(1.0): ...
    memory = peer.memory(key)            # 32 bytes that the owner gave
    data = memory.get(0, 4096)
    memory.get_into(0, array)            # a bytearray, a numpy array, ...: nothing is copied twice

Errors. Calls raise weft.Error, which has `code` ("peer lost", "not permitted", ...), and where they
are known `peer` (its name), `offset` and `length`. A call on a Node that is closed raises it, too
("bad argument"), and so does one on a Node of the parent process: connect anew after fork. What can
never be right raises ValueError or TypeError. release() and close() raise BufferError while
something still views the memory, such as a numpy array.

Times are in seconds; float("inf") waits until something comes. Ctrl-C ends whatever waits; what was
under way goes on.

Threads. Any number of threads may use a Node, its peers and its memories. close() waits until the
calls of other threads have ended, which raises in them.
"""
import collections
import ctypes
import math
import operator
import os
import threading
import time
import weakref
from ctypes import (POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_ssize_t, c_ubyte, c_uint32,
                    c_uint64, c_void_p)

READ, WRITE, ATOMIC = 1, 2, 4
PEER, LOST, MESSAGE, NOTIFY = 1, 2, 3, 4

_OK, _AGAIN, _BAD_ARGUMENT, _NO_MEMORY, _CANCELLED = 0, 1, 2, 4, 12
_STEP_MS = 50  # how long a call into the library waits before Python looks for signals
_LONGEST_MS = 2**31 - 2
_KEY_BYTES = 32
_TAG_BYTES = 16


class Error(Exception):
    """code: what went wrong; peer, offset, length: with whom and where, or None."""

    def __init__(self, code, text="", peer=None, offset=None, length=None):
        super().__init__(text or code)
        self.code, self.peer, self.offset, self.length = code, peer, offset, length

    def __reduce__(self):  # so that it passes between processes
        return Error, (self.code, str(self), self.peer, self.offset, self.length)


class _Settings(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("secret", c_char_p), ("secret_bytes", c_size_t),
                ("fabrics", c_char_p), ("timeout_ms", c_int), ("progress_thread", c_int)]


class _Event(ctypes.Structure):
    _fields_ = [("kind", c_int), ("code", c_int), ("peer", c_void_p), ("data", c_void_p),
                ("bytes", c_size_t), ("hidden", c_void_p)]


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, "..", "..", "libweft.so.0"), "libweft.so.0"):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            failure = error
    raise failure


# c_char_p only where C reads up to a NUL, which _text() refuses inside, or where a length goes with
# it.
_lib = _load()
for _name, _result, *_arguments in (
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
    _function = getattr(_lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments

# A bytes object whose bytes are not yet set, so that they need not be copied into it.
_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.restype = ctypes.py_object
_new_bytes.argtypes = [c_void_p, c_ssize_t]


def _code_name(code):
    return _lib.weft_code_name(code).decode()


def _check(code, **where):
    if code != _OK:
        raise Error(_code_name(code), _lib.weft_error_text().decode(errors="replace"), **where)


def _text(text, what):
    """For C, which reads up to a NUL: none may lie inside."""
    encoded = text.encode()
    if b"\0" in encoded:
        raise ValueError(f"{what} has a NUL in it: {text!r}")
    return encoded


def _number(value, what, least, end):
    value = operator.index(value)
    if not least <= value < end:
        raise ValueError(f"{what} is {value}: {least} to {end - 1} can be")
    return value


def _offset(value):
    return _number(value, "the offset", 0, 2**64)


def _length(value):
    return _number(value, "the length", 0, 2**62)


def _word(value, what):
    """Of 64 bits, signed or not."""
    return _number(value, what, -2**63, 2**64) % 2**64


def _seconds(value, what="the time"):
    value = float(value)
    if not value >= 0:  # not a number, too
        raise ValueError(f"{what} is {value}: 0 or more seconds can be")
    return value


def _milliseconds(seconds):
    """Rounded up: 0 means something else to the library than a short time."""
    return _LONGEST_MS if seconds * 1000 > _LONGEST_MS else math.ceil(seconds * 1000)


def _place(data, writable=False):
    """What keeps `data` where it is, its address and its length. Only read-only data that are no
    bytes object are copied."""
    if not writable and isinstance(data, bytes):
        return data, ctypes.cast(data, c_void_p), len(data)
    view = memoryview(data)
    if not view.c_contiguous:
        raise BufferError("the data do not lie in one block")
    if view.nbytes == 0:
        return data, None, 0
    if view.readonly:
        if writable:
            raise BufferError("the buffer is read-only")
        copy = view.tobytes()
        return copy, ctypes.cast(copy, c_void_p), len(copy)
    at = (c_char * view.nbytes).from_buffer(view)
    return at, ctypes.addressof(at), view.nbytes


def _refuse_pickling(self):
    raise TypeError(f"a {type(self).__name__} belongs to its process: send addresses and keys to the "
                    "other one, and connect there")


class Event:
    """kind: PEER, LOST, MESSAGE or NOTIFY; data: the message, the tag, or why the peer is lost, of
    which code is the name."""

    def __init__(self, kind, peer, data, code=None):
        self.kind, self.peer, self.data, self.code = kind, peer, data, code


class _Operation:
    """One at a time; freed once it has ended."""

    def __init__(self):
        self.op = _lib.weft_op_new()
        if not self.op:
            raise MemoryError

    def __del__(self):
        # One that is under way would be written to.
        if getattr(self, "op", None) and _lib.weft_op_is_done(self.op):
            _lib.weft_op_free(self.op)


class Memory:
    """Memory of a peer. Its calls wait until they are done."""

    def __init__(self, peer, key):
        self._memory = None
        key = bytes(memoryview(key))
        if len(key) != _KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes: {_KEY_BYTES} can be")
        self._peer, self._node = peer, peer._node
        self._starting = threading.Lock()  # memory is one thread's at a time while a call begins
        with self._node._use as node:
            self._memory = _lib.weft_memory_open(node, peer._peer, key)
        if not self._memory:
            raise MemoryError

    def __del__(self):
        if getattr(self, "_memory", None):
            _lib.weft_memory_free(self._memory)

    __reduce__ = _refuse_pickling

    def _do(self, what, offset, length, keeps, start, *arguments):
        """Starts an operation and waits for it. What the library needs until it has ended: keeps."""
        with self._node._use as node:
            operation = self._node._take_operation()

            def begin():
                with self._starting:
                    start(node, self._memory, offset, *arguments, operation.op)

            code = self._node._run(node, operation, (self, keeps), begin)
            previous = _lib.weft_op_previous(operation.op)
            self._node._operations.append(operation)
        if code == _OK:
            return previous
        name = _code_name(code)
        raise Error(name, f"{self._peer.name}: {what} of {length} bytes at {offset}: {name}",
                    self._peer.name, offset, length)

    def get(self, offset, length):
        length = _length(length)
        data = _new_bytes(None, length)
        if length == 0:
            place = None
        else:
            place = ctypes.cast(c_char_p(data), c_void_p)
        self._do("get", _offset(offset), length, data, _lib.weft_get, place, length)
        return data

    def get_into(self, offset, buffer):
        """Fills the buffer, such as a bytearray or a numpy array, without another copy. After an
        error or Ctrl-C its bytes are undefined."""
        keeps, place, length = _place(buffer, writable=True)
        self._do("get", _offset(offset), length, keeps, _lib.weft_get, place, length)

    def put(self, offset, data, tag=None):
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

    def fetch_add(self, offset, value):
        return self._do("fetch_add", _offset(offset), 8, None, _lib.weft_fetch_add,
                        _word(value, "the value"))

    def cas(self, offset, compare, swap):
        """The value before; it was swapped if that is `compare`."""
        return self._do("cas", _offset(offset), 8, None, _lib.weft_cas,
                        _word(compare, "the value to compare with"),
                        _word(swap, "the value to swap in"))


class Peer:
    """name and generation: of the other Node."""

    def __init__(self, node, peer):
        self._node, self._peer = node, peer
        self.name = _lib.weft_peer_name(peer).decode(errors="replace")
        self.generation = _lib.weft_peer_generation(peer)

    def __del__(self):
        if getattr(self, "_peer", None):
            _lib.weft_peer_free(self._peer)

    __reduce__ = _refuse_pickling

    def __repr__(self):
        return f"<weft.Peer {self.name!r}>"

    @property
    def fabric(self):
        with self._node._use:
            return _lib.weft_peer_fabric(self._peer).decode()

    @property
    def is_lost(self):
        with self._node._use:
            return bool(_lib.weft_peer_is_lost(self._peer))

    def memory(self, key):
        return Memory(self, key)

    def send(self, message):
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
            raise Error(name, f"{self.name}: a message of {length} bytes: {name}", self.name,
                        length=length)

    def close(self):
        with self._node._use as node:
            _lib.weft_disconnect(node, self._peer)


class _Use:
    """with-statement around calls into the library: they have an open Node of this process, which
    stays open meanwhile."""

    def __init__(self, owner, node):
        self.owner, self.node = owner, node
        self.process = os.getpid()
        self.is_closing = node is None
        self.num_users = 0
        self.changed = threading.Condition(threading.RLock())  # a __del__ may come at any place

    def __enter__(self):
        if os.getpid() != self.process:
            raise Error(_code_name(_BAD_ARGUMENT),
                        f"{self.owner!r} is of the parent process: connect anew after fork")
        with self.changed:
            if self.is_closing:
                raise Error(_code_name(_BAD_ARGUMENT), f"{self.owner!r} is closed")
            self.num_users += 1
        return self.node

    def __exit__(self, *_):
        with self.changed:
            self.num_users -= 1
            if self.is_closing:
                self.changed.notify_all()

    def end(self):
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

    def __init__(self, address, length):
        # A class of its own, as only those can be referred to weakly.
        block = type("_Block", (c_ubyte * length,), {}).from_address(address)
        self.address = address
        self.block = weakref.ref(block)
        self.view = memoryview(block).cast("B")

    def end_views(self):
        """BufferError: something else still views it. Then it may be tried again."""
        self.view.release()
        if self.block() is not None:
            raise BufferError("the memory is still viewed, by a slice of it or by an array")


class Node:
    _use = _Use("the Node", None)  # until it is open

    def __init__(self, name="", secret="", fabrics="", timeout=0.0, progress_thread=True):
        """timeout: how long a silent peer is waited for; 0: WEFT_PEER_TIMEOUT_MS."""
        self.name = name
        self._allocated = {}  # by the id of the view
        self._operations = []  # that have ended
        self._left = collections.deque()  # begun, and not waited for to their end
        secret = secret.encode() if isinstance(secret, str) else bytes(memoryview(secret))
        settings = _Settings(_text(name, "the name"), secret, len(secret),
                             _text(fabrics, "the list of fabrics"),
                             _milliseconds(_seconds(timeout, "the timeout")), bool(progress_thread))
        node = c_void_p()
        _check(_lib.weft_node_open_with(byref(settings), byref(node)))
        self._use = _Use(self, node)

    __reduce__ = _refuse_pickling

    def __repr__(self):
        return f"<weft.Node {self.name!r}>"

    def close(self):
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _check_open(self):
        if self._use.is_closing:
            raise Error(_code_name(_CANCELLED), f"{self!r} was closed meanwhile")

    def _take_operation(self):
        while self._left and _lib.weft_op_is_done(self._left[0][0].op):
            self._left.popleft()
        try:
            return self._operations.pop()
        except IndexError:
            return _Operation()

    def _run(self, node, operation, keeps, begin):
        """The code that the operation ended with. Where the wait ends before, what it needs is
        kept."""
        try:
            begin()
            code = _lib.weft_wait_for(node, operation.op, _STEP_MS)
            while code == _AGAIN:
                self._check_open()
                code = _lib.weft_wait_for(node, operation.op, _STEP_MS)
            return code
        except BaseException:
            self._left.append((operation, keeps))
            raise

    def listen(self, address):
        address = _text(address, "the address")
        with self._use as node:
            _check(_lib.weft_listen(node, address))

    @property
    def address(self):
        text = ctypes.create_string_buffer(8192)
        with self._use as node:
            _check(_lib.weft_address(node, text, len(text)))
        return text.value.decode()

    def connect(self, address, timeout=0.0):
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

    def allocate(self, length):
        """Memory that peers can use: a memoryview, valid until release(). numpy.frombuffer(memory)
        is an array of it without a copy."""
        length = _length(length)
        address = c_void_p()
        with self._use as node:
            _check(_lib.weft_allocate(node, length, byref(address)), length=length)
            allocated = _Allocated(address.value, length)
            self._allocated[id(allocated.view)] = allocated
        return allocated.view

    def _find(self, memory):
        """Of this Node, and not released."""
        allocated = self._allocated.get(id(memory))
        if allocated is None or allocated.view is not memory:
            raise ValueError("no memory that this Node has allocated, or released already")
        return allocated

    def release(self, memory):
        """memory: what allocate() gave. Waits for peers to let go of it, at most the timeout.
        BufferError: something still views it, such as a slice or a numpy array."""
        with self._use as node:
            allocated = self._find(memory)
            allocated.end_views()
            _check(_lib.weft_release(node, allocated.address))
            del self._allocated[id(memory)]

    def key(self, memory, rights, only=None):
        key = (c_ubyte * _KEY_BYTES)()
        rights = _number(rights, "rights", 0, 2**32)
        if only is not None and not isinstance(only, Peer):
            raise TypeError("only: a Peer, or None")
        with self._use as node:
            _check(_lib.weft_make_key(node, self._find(memory).address, rights,
                                      only._peer if only else None, key))
        return bytes(key)

    def next_event(self):
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

    def events(self, seconds):
        """Events as they come, until for so long none has."""
        seconds = _seconds(seconds)
        return self._events(seconds)

    def _events(self, seconds):
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
