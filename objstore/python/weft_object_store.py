"""Weft's object store for Python, over weft/object_store.h. Nothing to build: it loads
libweft_objstore.so.

    import weft_object_store
    store = weft_object_store.ObjectStore()
    store.put("matrix", data)                  # anything with a buffer: bytes, array, numpy array
    with store.create("other", 1 << 20) as buffer:
        buffer.data[:] = ...                   # sealed at the end of the block
    view = store.get("matrix", timeout=1.0)    # a read-only memoryview of the store's own memory
    array = numpy.frombuffer(view, dtype="f8")

An object stays while a view of it, or what was made of one, is alive. Ids are names of 1 to 20
letters, 40 hex digits, or 20 bytes. Times are seconds; None: for ever. Calls raise Error, which has
`code` ("not found", "exists already", ...).
"""
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_uint8, \
    c_void_p


class Error(Exception):
    """code: what happened, in words. hosts: of push, what happened at each."""

    def __init__(self, code, text):
        super().__init__(text or code)
        self.code = code
        self.hosts = {}


class _Id(ctypes.Structure):
    _fields_ = [("bytes", c_uint8 * 20)]


class _Entry(ctypes.Structure):
    _fields_ = [("id", _Id), ("metadata_bytes", c_uint32), ("data_bytes", c_uint64),
                ("is_pinned", c_uint32), ("is_referenced", c_uint32), ("is_spilled", c_uint32)]


class _Pushed(ctypes.Structure):
    _fields_ = [("host", ctypes.c_char * 120), ("code", c_int), ("was_there", c_int)]


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, "..", "..", "libweft_objstore.so.0"), "libweft_objstore.so.0"):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            failure = error
    raise failure


_lib = _load()
for _name, _result, *_arguments in (
        ("weft_object_error_text", c_char_p),
        ("weft_object_id_parse", c_int, c_char_p, POINTER(_Id)),
        ("weft_object_id_text", None, POINTER(_Id), c_char_p),
        ("weft_object_store_open", c_int, c_char_p, c_char_p, POINTER(c_void_p)),
        ("weft_object_store_close", None, c_void_p),
        ("weft_object_contains", c_int, c_void_p, POINTER(_Id)),
        ("weft_object_create", c_int, c_void_p, POINTER(_Id), c_uint64, c_uint32, c_uint64, c_int,
         c_int64, POINTER(c_void_p)),
        ("weft_object_buffer_data", c_void_p, c_void_p),
        ("weft_object_buffer_metadata", c_void_p, c_void_p),
        ("weft_object_seal", c_int, c_void_p, c_void_p),
        ("weft_object_abort", None, c_void_p),
        ("weft_object_put_copies", c_int, c_void_p, POINTER(_Id), c_void_p, c_uint64, c_void_p,
         c_uint32, c_uint32, c_uint64, c_int, c_int64),
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


def _check(code):
    if code != 0:
        raise Error(_name(code), _lib.weft_object_error_text().decode(errors="replace"))


def _id(value):
    made = _Id()
    if isinstance(value, (bytes, bytearray)) and len(value) == 20:
        made.bytes[:] = value
    else:
        _check(_lib.weft_object_id_parse(value.encode() if isinstance(value, str) else bytes(value),
                                         byref(made)))
    return made


def _ids(values):
    return (_Id * len(values))(*[_id(value) for value in values])


def _text(identifier):
    text = ctypes.create_string_buffer(41)
    _lib.weft_object_id_text(byref(identifier), text)
    return text.value.decode()


def _ms(seconds):
    return -1 if seconds is None else int(seconds * 1000)


class _Reference:
    """Keeps an object, and the store it is from, as long as views of it live."""

    def __init__(self, store, handle):
        self._store, self._handle = store, handle

    def __del__(self):
        if self._store._store:
            _lib.weft_object_release(self._handle)

    def view(self, function):
        length = c_uint64()
        address = function(self._handle, byref(length))
        array = (c_uint8 * length.value).from_address(address or 0) if length.value else (c_uint8 * 0)()
        array._reference = self  # lives as long as the array, and the view of it
        return memoryview(array).cast("B").toreadonly()


class _Memory:
    """Keeps memory of the store's as long as views of it live."""

    def __init__(self, store, handle):
        self._store, self._handle = store, handle

    def __del__(self):
        if self._store._store:
            _lib.weft_object_memory_free(self._handle)

    def view(self, length):
        if not length:
            return memoryview(bytearray())
        array = (c_uint8 * length).from_address(_lib.weft_object_memory_data(self._handle))
        array._memory = self
        return memoryview(array).cast("B")


class Buffer:
    """An object being written: `data` and `metadata` are writable memoryviews until it is sealed."""

    def __init__(self, store, handle, data_bytes, metadata_bytes):
        self._store, self._handle = store, handle

        def view(address, length):
            array = (c_uint8 * length).from_address(address) if length else (c_uint8 * 0)()
            return memoryview(array).cast("B")
        self.data = view(_lib.weft_object_buffer_data(handle), data_bytes)
        self.metadata = view(_lib.weft_object_buffer_metadata(handle), metadata_bytes)

    def _leave(self):
        handle, self._handle = self._handle, None
        self.data.release()
        self.metadata.release()
        return handle

    def seal(self):
        _check(_lib.weft_object_seal(self._store._store, self._leave()))

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

    def __del__(self):
        if self._handle and self._store._store:
            _lib.weft_object_abort(self._handle)


class ObjectStore:
    def __init__(self, socket=None, name="python"):
        self._store = None
        store = c_void_p()
        _check(_lib.weft_object_store_open(socket.encode() if socket else None, name.encode(),
                                           byref(store)))
        self._store = store

    def close(self):
        """Views of objects are of no more use afterwards: drop them before."""
        store, self._store = self._store, None
        if store:
            _lib.weft_object_store_close(store)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __contains__(self, identifier):
        return bool(_lib.weft_object_contains(self._store, byref(_id(identifier))))

    def create(self, identifier, data_bytes, metadata_bytes=0, ttl=0, pin=False, timeout=10.0):
        handle = c_void_p()
        _check(_lib.weft_object_create(self._store, byref(_id(identifier)), data_bytes,
                                       metadata_bytes, _ms(ttl), int(pin), _ms(timeout),
                                       byref(handle)))
        return Buffer(self, handle, data_bytes, metadata_bytes)

    def put(self, identifier, data, metadata=b"", ttl=0, pin=False, timeout=10.0, copies=1):
        """copies: hosts that have it before this returns."""
        view = memoryview(data)
        if copies > 1 and (view.readonly or not view.c_contiguous):
            view = memoryview(bytearray(view))
        if view.readonly or not view.c_contiguous:
            # ctypes takes the address of writable memory only.
            with self.create(identifier, view.nbytes, len(metadata), ttl, pin, timeout) as buffer:
                buffer.data[:] = view.cast("B") if view.c_contiguous else view.tobytes()
                buffer.metadata[:] = bytes(metadata)
            return
        array = (c_uint8 * view.nbytes).from_buffer(view) if view.nbytes else None
        metadata = bytes(metadata)
        _check(_lib.weft_object_put_copies(self._store, byref(_id(identifier)), array, view.nbytes,
                                           metadata, len(metadata), copies, _ms(ttl), int(pin),
                                           _ms(timeout)))

    def get(self, identifier, timeout=0.0):
        """The data, a memoryview without a copy."""
        return self.get_all([identifier], timeout)[0]

    def get_all(self, identifiers, timeout=0.0):
        return [view for view, _ in self.get_with_metadata(identifiers, timeout)]

    def get_with_metadata(self, identifiers, timeout=0.0):
        """Pairs of views: data and metadata."""
        if not identifiers:
            return []
        handles = (c_void_p * len(identifiers))()
        code = _lib.weft_object_get(self._store, _ids(identifiers), len(identifiers), _ms(timeout),
                                    handles)
        references = [_Reference(self, handle) for handle in handles if handle]
        _check(code)
        return [(reference.view(_lib.weft_object_data), reference.view(_lib.weft_object_metadata))
                for reference in references]

    def get_into(self, identifier, into, offset=0, timeout=0.0):
        """Fills writable memory with data from `offset` on, and keeps no copy on this host; how many
        bytes there were. From another host straight into memory of allocate()."""
        view = memoryview(into).cast("B")
        array = (c_uint8 * view.nbytes).from_buffer(view) if view.nbytes else None
        whole = c_uint64()
        _check(_lib.weft_object_get_into(self._store, byref(_id(identifier)), offset, array,
                                         view.nbytes, _ms(timeout), byref(whole)))
        return max(min(view.nbytes, whole.value - offset), 0)

    def get_range(self, identifier, offset, length, timeout=0.0):
        """A range of the data, shorter at the object's end, in memory of its own."""
        made = self.allocate(length)
        return made[:self.get_into(identifier, made, offset, timeout)].toreadonly()

    def allocate(self, length):
        """A writable memoryview of memory that the store can write to."""
        handle = c_void_p()
        _check(_lib.weft_object_memory_allocate(self._store, length, byref(handle)))
        return _Memory(self, handle).view(length)

    def push(self, identifier, hosts=(), timeout=60.0):
        """Sends the object to these hosts at once, or to all: {host: "had it" or "has it"}. If some
        have not got it, the Error's `hosts` tells of each."""
        names = (c_char_p * len(hosts))(*[host.encode() for host in hosts])
        pushed, num = (_Pushed * 1024)(), c_size_t()
        code = _lib.weft_object_push(self._store, byref(_id(identifier)), names, len(hosts),
                                     _ms(timeout), pushed, len(pushed), byref(num))
        told = {host.host.decode(errors="replace"):
                ("had it" if host.was_there else "has it") if host.code == 0 else _name(host.code)
                for host in pushed[:num.value]}
        try:
            _check(code)
        except Error as error:
            error.hosts = told
            raise
        return told

    def delete(self, identifier):
        _check(_lib.weft_object_delete(self._store, byref(_id(identifier))))

    def pin(self, identifier, pinned=True):
        _check(_lib.weft_object_pin(self._store, byref(_id(identifier)), int(pinned)))

    def wait(self, identifiers, least=None, timeout=None):
        """The ids that are here once `least` are, or the time is over."""
        here = (c_uint8 * len(identifiers))()
        code = _lib.weft_object_wait(self._store, _ids(identifiers), len(identifiers),
                                     len(identifiers) if least is None else least, _ms(timeout),
                                     here)
        if code != 9:  # timed out: tells by what is missing
            _check(code)
        return [identifier for identifier, is_here in zip(identifiers, here) if is_here]

    def fetch(self, identifiers, timeout=None):
        _check(_lib.weft_object_fetch(self._store, _ids(identifiers), len(identifiers),
                                      _ms(timeout)))

    def list(self):
        """(id, data bytes, metadata bytes) of each object."""
        num, most = c_size_t(), 1024
        while True:
            entries = (_Entry * most)()
            _check(_lib.weft_object_list(self._store, entries, most, byref(num)))
            if num.value <= most:
                return [(_text(entry.id), entry.data_bytes, entry.metadata_bytes)
                        for entry in entries[:num.value]]
            most = num.value + 1024

    def subscribe(self):
        _check(_lib.weft_object_subscribe(self._store))

    def next_event(self, timeout=None):
        """(id, data bytes) of an object sealed since subscribe(), or None."""
        event = _Entry()
        code = _lib.weft_object_next_event(self._store, _ms(timeout), byref(event))
        if code == 9:
            return None
        _check(code)
        return _text(event.id), event.data_bytes

    def status(self):
        import json
        text = ctypes.create_string_buffer(1 << 18)
        _check(_lib.weft_object_status(self._store, text, len(text)))
        return json.loads(text.value)
