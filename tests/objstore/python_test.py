#!/usr/bin/env python3
"""The Python client: what it refuses, memory that outlives its store, fork, spawn and Ctrl-C:
python_test.py WEFT_STORE FOLDER_OF_PACKAGE."""
import gc
import math
import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, sys.argv[2])
from weft import store as w  # noqa: E402


def refused(kind, call, *words):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return error
    raise AssertionError(f"not refused: {kind} {words}")


def check_arguments(s):
    s.put("secret", b"SECRETSECRET")
    s.put("t", b"0123456789")
    assert bytes(s.get_range("secret", 0, 12)) == b"SECRETSECRET"
    for offset in (-1, 11, -(1 << 63), 1 << 63, 1 << 64, (1 << 64) - 1):
        assert refused(ValueError, lambda: s.get_range("t", offset, 12)).code == "bad argument"
        refused(ValueError, lambda: s.get_into("t", bytearray(4), offset))
    for length in (-1, 1 << 63, 1 << 64):
        refused(ValueError, lambda: s.get_range("t", 0, length))
        refused(ValueError, lambda: s.allocate(length))
        refused(ValueError, lambda: s.create("u", length))
    refused(ValueError, lambda: s.create("u", 1, 1 << 32))
    assert refused(w.Error, lambda: s.allocate(1 << 62)).code == "out of memory"
    assert bytes(s.get_range("t", 8, 100)) == b"89" and bytes(s.get_range("t", 10, 1)) == b""
    # Ids: bytes with a length.
    keys = [struct.pack("<QQ", 1, 2), struct.pack("<QQ", 1, 3), b"a", b"a\0", b"a\0b", b"\0", b"\0\0",
            "kv/llama-3-70b/layer.12/block-000123", "x" * 255, "schlüssel", bytes(range(256))[:255],
            "0123456789abcdef0123456789abcdef01234567"]
    for key in keys:
        assert key not in s
        s.put(key, key if isinstance(key, bytes) else key.encode())
    for key in keys:
        assert bytes(s.get(key)) == (key if isinstance(key, bytes) else key.encode())
    listed = [key for key, _, _ in s.list()]
    for key in keys:
        try:  # bytes that are text come back as text
            text = key.decode() if isinstance(key, bytes) else key
        except UnicodeDecodeError:
            text = key
        assert (text if isinstance(text, str) and text.isprintable() else key) in listed, key
    assert s.wait(keys, timeout=0) == keys
    for key in (b"", "", "x" * 256, "é" * 128):
        assert refused(ValueError, lambda: s.put(key, b"1"), "1 to 255").id == key
    for key in (1, 1.5, None, ["a"]):
        for call in (s.get, s.delete, lambda key: s.put(key, b"1"), lambda key: key in s):
            refused(TypeError, lambda: call(key), "id is str or bytes")
    refused(TypeError, lambda: s.get_all("abc"))
    refused(TypeError, lambda: s.push("t", "host"))
    refused(ValueError, lambda: s.push("t", ["ho\0st"]), "byte 0")
    refused(ValueError, lambda: w.ObjectStore("/tmp/x\0y"), "byte 0")
    refused(ValueError, lambda: w.ObjectStore(PATH, name="a\0b"), "byte 0")
    # Times.
    for seconds in (math.nan, -1, -0.001, -math.inf):
        for call in (lambda: s.get("t", timeout=seconds), lambda: s.put("n", b"", timeout=seconds),
                     lambda: s.put("n", b"", ttl=seconds), lambda: s.next_event(timeout=seconds),
                     lambda: s.wait(["t"], timeout=seconds)):
            refused(ValueError, call, "0 seconds or more")
    assert bytes(s.get("t", timeout=math.inf)) == b"0123456789" == bytes(s.get("t", timeout=1e300))
    assert refused(w.Error, lambda: s.get("none", timeout=0.0001)).code == "timed out"
    error = refused(w.Error, lambda: s.put("t", b"again"), "object t")
    assert (error.code, error.id) == ("exists already", "t")
    assert refused(w.Error, lambda: s.get("none")).id == "none"
    s.put("ttl", b"1", ttl=math.inf)
    assert "ttl" in s


def check_constructor():
    """One that failed is one exception, and nothing on standard error when it is collected."""
    code = f"""
import sys, gc
sys.path.insert(0, {sys.argv[2]!r})
from weft import store as w
for wrong in ("/nowhere/socket", "x" * 200, 17):
    try: w.ObjectStore(wrong)
    except (w.Error, TypeError): pass
    else: raise SystemExit("connected")
try: w.Buffer(None, None, None)
except TypeError: pass
gc.collect()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, ""), result


def check_close():
    s = w.ObjectStore(PATH)
    s.put("kept", bytes(range(100)), b"meta")
    view, (_, metadata) = s.get("kept"), s.get_with_metadata(["kept"])[0]
    memory, buffer = s.allocate(100), s.create("half", 10)
    data = buffer.data
    memory[:3] = b"abc"
    with s:
        pass
    refused(w.BadArgument, lambda: s.get("kept"), "was closed")
    refused(w.BadArgument, lambda: "kept" in s, "was closed")
    with w.ObjectStore(PATH) as other:
        other.delete("kept")
        for i in range(100):
            other.put(f"fill{i}", b"\x55" * 1_000_000)
        assert bytes(view) == bytes(range(100)) and bytes(metadata) == b"meta"
        assert bytes(memory[:3]) == b"abc"
        data[:] = b"0123456789"
        buffer.seal()
        assert bytes(other.get("half")) == b"0123456789"
    refused(w.BadArgument, buffer.seal, "before")
    # In a cycle, which the collector ends in any order.
    t = w.ObjectStore(PATH)
    cycle = [t, t.get("half"), t.allocate(10), t.create("cyclic", 5)]
    cycle.append(cycle)
    del t, cycle
    gc.collect()
    del view, metadata, memory, data, buffer
    gc.collect()


def open_here(_):
    global mine
    mine = w.ObjectStore(PATH, name="worker")


def work(number):
    wrong = 0
    for k in range(30):
        name, want = f"w{number}-{k}", bytes([number * 16 + k % 16]) * 200_000
        mine.put(name, want, timeout=30)
        wrong += bytes(mine.get(name, timeout=30)) != want
        mine.delete(name)
    return wrong


def with_given(store):
    return bytes(store.get("given", timeout=10))


def check_pools(s):
    s.put("given", b"by pickle", pin=True)
    for how in ("fork", "spawn"):
        context = multiprocessing.get_context(how)
        with context.Pool(3, open_here, (None,)) as pool:
            assert pool.map(work, range(3)) == [0, 0, 0], how
            assert pool.map(with_given, [s] * 3) == [b"by pickle"] * 3
    assert bytes(pickle.loads(pickle.dumps(s)).get("given")) == b"by pickle"


def check_fork(s):
    s.put("a", b"parent")
    view = s.get("a")

    def in_child(body):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.alarm(60)
                body()
                gc.collect()
                code = 0
            finally:
                os._exit(code) if code else sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0

    def all_refused():
        for call in (lambda: s.get("a"), lambda: s.put("c", b"child"), lambda: "a" in s,
                     lambda: s.next_event(timeout=0), lambda: s.list(), lambda: s.status(),
                     lambda: s.allocate(10), lambda: s.create("c", 10)):
            refused(w.BadArgument, call, "connect anew after fork")
        assert bytes(view) == b"parent"
        assert bytes(w.ObjectStore(PATH).get("a")) == b"parent"

    def drop_all():
        nonlocal view
        del view
        s.close()
    in_child(all_refused)
    in_child(drop_all)
    in_child(lambda: None)
    began = time.monotonic()
    s.put("p", b"1", timeout=2)
    assert bytes(s.get("p", timeout=2)) == b"1" and time.monotonic() - began < 2
    s.delete("a")
    for i in range(100):
        s.put(f"g{i}", b"\x55" * 1_000_000)
    assert bytes(view) == b"parent"


def check_interrupt(s):
    """Ctrl-C in each call that waits, with and without an end to its waiting; nothing comes of it."""
    full = w.ObjectStore(PATH)
    held = []
    for i in range(1000):  # until all memory is referenced
        try:
            full.put(f"full{i}", b"1" * (1 << 20), timeout=0)
        except w.Error:
            break
        held.append(full.get(f"full{i}"))
    s.subscribe()
    while s.next_event(timeout=0):
        pass
    for what, call in (
            ("get", lambda: s.get("never", timeout=math.inf)), ("fetch", lambda: s.fetch(["never"])),
            ("wait", lambda: s.wait(["never"])), ("next_event", lambda: s.next_event()),
            ("put", lambda: s.put("late", bytearray(1 << 20), timeout=None)),
            ("put of bytes", lambda: s.put("late", b"1" * (1 << 20), timeout=60)),
            ("create", lambda: s.create("late", 1 << 20, timeout=60)),
            ("get_into", lambda: s.get_into("never", bytearray(10), timeout=60))):
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        began = time.monotonic()
        timer.start()
        refused(KeyboardInterrupt, call)
        assert time.monotonic() - began < 20, what
        timer.join()
    # A handler that goes on ends the call, too, and says so.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    assert refused(w.Error, lambda: s.get("never", timeout=None)).code == "cancelled"
    timer.join()
    signal.signal(signal.SIGINT, before)
    del held
    gc.collect()
    s.put("late", b"now", timeout=30)  # nobody put it before
    assert bytes(s.get("late")) == b"now"


def main():
    global PATH
    folder = tempfile.mkdtemp(prefix="weft-store-python-")
    PATH = os.path.join(folder, "socket")
    os.environ["WEFT_TEST_SOCKET"] = PATH
    store = subprocess.Popen([sys.argv[1], "--socket", PATH, "--memory", "64MiB"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert store.stdout.readline() == f"ready {PATH}\n"
    try:
        s = w.ObjectStore(PATH)
        check_arguments(s)
        check_constructor()
        check_close()
        check_fork(w.ObjectStore(PATH))
        check_pools(s)
        check_interrupt(s)
        for client in s.status()["clients"]:
            assert client["pid"] == os.getpid(), client
        # The store's end: what is held can be read.
        view = s.get("given")
        store.terminate()
        assert store.wait(timeout=20) == 0
        refused(w.Error, lambda: s.put("x", b""), "has ended")
        s.close()
        assert bytes(view) == b"by pickle"
    finally:
        store.kill()
        store.wait()
        store.stdout.close()
    os.rmdir(folder)
    print("as expected")


if __name__ == "__main__":
    main()
else:
    PATH = os.environ["WEFT_TEST_SOCKET"]  # a worker's, which was spawned
