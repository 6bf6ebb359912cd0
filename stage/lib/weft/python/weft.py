"""Weft's Node for Python, over weft/node.h. Nothing to build: it loads libweft.so.

    import weft
    node = weft.Node("client", secret="...")
    peer = node.connect("host:7000")
    peer.send(b"hello")
    for event in node.events(1.0): ...
    memory = peer.memory(key)            # 32 bytes that the owner gave
    data = memory.get(0, 4096)

Calls raise weft.Error, which has `code` ("peer lost", "not permitted", ...).
"""
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

READ, WRITE, ATOMIC = 1, 2, 4
PEER, LOST, MESSAGE, NOTIFY = 1, 2, 3, 4


class Error(Exception):
    def __init__(self, code, text):
        super().__init__(text or code)
        self.code = code


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


_lib = _load()
for _name, _result, *_arguments in (
        ("weft_error_text", c_char_p),
        ("weft_code_name", c_char_p, c_int),
        ("weft_node_open", c_int, c_char_p, c_char_p, c_char_p, c_int, c_int, POINTER(c_void_p)),
        ("weft_node_close", None, c_void_p),
        ("weft_listen", c_int, c_void_p, c_char_p),
        ("weft_address", c_int, c_void_p, c_char_p, c_size_t),
        ("weft_connect", c_int, c_void_p, c_char_p, c_int, POINTER(c_void_p)),
        ("weft_disconnect", None, c_void_p, c_void_p),
        ("weft_peer_free", None, c_void_p),
        ("weft_peer_name", c_char_p, c_void_p),
        ("weft_peer_generation", c_uint64, c_void_p),
        ("weft_peer_fabric", c_char_p, c_void_p),
        ("weft_peer_is_lost", c_int, c_void_p),
        ("weft_peer_message_max", c_size_t, c_void_p),
        ("weft_allocate", c_int, c_void_p, c_size_t, POINTER(c_void_p)),
        ("weft_release", c_int, c_void_p, c_void_p),
        ("weft_make_key", c_int, c_void_p, c_void_p, c_uint32, c_void_p, c_char_p),
        ("weft_memory_open", c_void_p, c_void_p, c_void_p, c_char_p),
        ("weft_memory_free", None, c_void_p),
        ("weft_op_new", c_void_p),
        ("weft_op_free", None, c_void_p),
        ("weft_op_previous", c_uint64, c_void_p),
        ("weft_wait", c_int, c_void_p, c_void_p),
        ("weft_put", None, c_void_p, c_void_p, c_uint64, c_char_p, c_size_t, c_void_p),
        ("weft_put_notify", None, c_void_p, c_void_p, c_uint64, c_char_p, c_size_t, c_char_p,
         c_void_p),
        ("weft_get", None, c_void_p, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
        ("weft_cas", None, c_void_p, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p),
        ("weft_fetch_add", None, c_void_p, c_void_p, c_uint64, c_uint64, c_void_p),
        ("weft_send", c_int, c_void_p, c_void_p, c_char_p, c_size_t),
        ("weft_send_long", None, c_void_p, c_void_p, c_char_p, c_size_t, c_void_p),
        ("weft_next_event", c_int, c_void_p, POINTER(_Event)),
        ("weft_event_clear", None, POINTER(_Event)),
        ("weft_wait_some", None, c_void_p, c_int)):
    _function = getattr(_lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments


def _check(code, text=None):
    if code != 0:
        raise Error(_lib.weft_code_name(code).decode(), text or _lib.weft_error_text().decode())


class Event:
    """kind: PEER, LOST, MESSAGE or NOTIFY; data: the message, the tag, or why the peer is lost."""

    def __init__(self, kind, peer, data):
        self.kind, self.peer, self.data = kind, peer, data


class Memory:
    """Memory of a peer. Its calls wait until they are done."""

    def __init__(self, peer, key):
        if len(key) != 32:
            raise ValueError("a key has 32 bytes")
        self._peer, self._node = peer, peer._node
        self._memory = _lib.weft_memory_open(self._node._node, peer._peer, bytes(key))
        self._op = _lib.weft_op_new()

    def __del__(self):
        if self._node._node:
            _lib.weft_memory_free(self._memory)
            _lib.weft_op_free(self._op)

    def _wait(self):
        code = _lib.weft_wait(self._node._node, self._op)
        if code != 0:
            name = _lib.weft_code_name(code).decode()
            raise Error(name, f"{self._peer.name}: {name}")

    def get(self, offset, length):
        buffer = ctypes.create_string_buffer(length)
        _lib.weft_get(self._node._node, self._memory, offset, buffer, length, self._op)
        self._wait()
        return buffer.raw

    def put(self, offset, data, tag=None):
        data = bytes(data)
        if tag is None:
            _lib.weft_put(self._node._node, self._memory, offset, data, len(data), self._op)
        else:
            _lib.weft_put_notify(self._node._node, self._memory, offset, data, len(data),
                                 bytes(tag).ljust(16, b"\0")[:16], self._op)
        self._wait()

    def fetch_add(self, offset, value):
        _lib.weft_fetch_add(self._node._node, self._memory, offset, value % 2**64, self._op)
        self._wait()
        return _lib.weft_op_previous(self._op)

    def cas(self, offset, compare, swap):
        """The value before; it was swapped if that is `compare`."""
        _lib.weft_cas(self._node._node, self._memory, offset, compare, swap, self._op)
        self._wait()
        return _lib.weft_op_previous(self._op)


class Peer:
    def __init__(self, node, peer):
        self._node, self._peer = node, peer

    def __del__(self):
        if self._node._node:
            _lib.weft_peer_free(self._peer)

    @property
    def name(self):
        return _lib.weft_peer_name(self._peer).decode()

    @property
    def generation(self):
        return _lib.weft_peer_generation(self._peer)

    @property
    def fabric(self):
        return _lib.weft_peer_fabric(self._peer).decode()

    @property
    def is_lost(self):
        return bool(_lib.weft_peer_is_lost(self._peer))

    def memory(self, key):
        return Memory(self, key)

    def send(self, message):
        """Waits while the peer has no room."""
        message = bytes(message)
        if len(message) > _lib.weft_peer_message_max(self._peer):
            op = _lib.weft_op_new()
            _lib.weft_send_long(self._node._node, self._peer, message, len(message), op)
            code = _lib.weft_wait(self._node._node, op)
            _lib.weft_op_free(op)
            return _check(code, self.name)
        while True:
            code = _lib.weft_send(self._node._node, self._peer, message, len(message))
            if code != 1:
                return _check(code, self.name)
            _lib.weft_wait_some(self._node._node, 10)

    def close(self):
        _lib.weft_disconnect(self._node._node, self._peer)


class Node:
    def __init__(self, name="", secret="", fabrics="", timeout=0.0, progress_thread=True):
        self._node = None
        node = c_void_p()
        _check(_lib.weft_node_open(name.encode(), secret.encode(), fabrics.encode(),
                                   int(timeout * 1000), int(progress_thread), byref(node)))
        self._node = node

    def close(self):
        """Peers and memories are of no more use afterwards."""
        node, self._node = self._node, None
        if node:
            _lib.weft_node_close(node)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def listen(self, address):
        _check(_lib.weft_listen(self._node, address.encode()))

    @property
    def address(self):
        text = ctypes.create_string_buffer(8192)
        _check(_lib.weft_address(self._node, text, len(text)))
        return text.value.decode()

    def connect(self, address, timeout=0.0):
        peer = c_void_p()
        _check(_lib.weft_connect(self._node, address.encode(), int(timeout * 1000), byref(peer)))
        return Peer(self, peer)

    def allocate(self, length):
        """Memory that peers can use: a ctypes array, valid until release()."""
        address = c_void_p()
        _check(_lib.weft_allocate(self._node, length, byref(address)))
        return (ctypes.c_ubyte * length).from_address(address.value)

    def release(self, memory):
        _check(_lib.weft_release(self._node, ctypes.addressof(memory)))

    def key(self, memory, rights, only=None):
        key = ctypes.create_string_buffer(32)
        _check(_lib.weft_make_key(self._node, ctypes.addressof(memory), rights,
                                  only._peer if only else None, key))
        return key.raw

    def next_event(self):
        """The eldest event, or None."""
        event = _Event()
        if not _lib.weft_next_event(self._node, byref(event)):
            return None
        peer, event.peer = Peer(self, event.peer), None
        made = Event(event.kind, peer, ctypes.string_at(event.data, event.bytes))
        _lib.weft_event_clear(byref(event))
        return made

    def events(self, seconds):
        """Events as they come, until for so long none has."""
        import time
        limit = time.monotonic() + seconds
        while True:
            event = self.next_event()
            if event is not None:
                yield event
                limit = time.monotonic() + seconds
            elif time.monotonic() > limit:
                return
            else:
                _lib.weft_wait_some(self._node, 10)
