#!/usr/bin/env python3
"""python_test.py LIBRARY FOLDER: weft.node of the package in that folder over that library. Each case makes Nodes of
its own; whatever a program does wrong is an exception."""
import array
import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import types
import unittest

LIBRARY, FOLDER = os.environ.get("NODE_TEST_LIBRARY"), os.environ.get("NODE_TEST_FOLDER")
if LIBRARY is None:
    LIBRARY, FOLDER = os.environ["NODE_TEST_LIBRARY"], os.environ["NODE_TEST_FOLDER"] = sys.argv[1:3]
    del sys.argv[1:3]
    # The library's folder first; a sanitizer has to be loaded before Python.
    linked = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
    sanitizers = [line.split()[2] for line in linked.splitlines()
                  if "libasan" in line or "libtsan" in line]
    os.environ["WEFT_INTERFACE"] = "lo"
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(LIBRARY)
    if sanitizers:
        # The address sanitizer looks for what throws exceptions when it is loaded.
        sanitizers += [line.split()[2] for line in linked.splitlines() if "libstdc++" in line]
        os.environ["LD_PRELOAD"] = ":".join(sanitizers)
        os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
    os.execv(sys.executable, [sys.executable, *sys.argv])
sys.path.insert(0, FOLDER)
import weft  # noqa: E402

RIGHTS = weft.READ | weft.WRITE | weft.ATOMIC
INFINITY = float("inf")


class Two:
    """A server and a client, the server's memory of 4096 bytes, and the client's view of it."""

    def __init__(self, timeout=60, **settings):
        self.server = weft.Node("server", secret="s", timeout=timeout, **settings)
        self.server.listen("127.0.0.1:0")
        self.client = weft.Node("client", secret="s", timeout=timeout, **settings)
        self.peer = self.client.connect(self.server.address)
        self.allocated = self.server.allocate(4096)
        self.key = self.server.key(self.allocated, RIGHTS)
        self.memory = self.peer.memory(self.key)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.allocated = None
        self.server.close()


def message_of(node, seconds=20):
    for event in node.events(seconds):
        if event.kind == weft.MESSAGE:
            return event
    return None


def interrupt_soon():
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)


def in_child(function):
    """What `function` returns in a forked child, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            text = str(function())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    status = os.waitpid(child, 0)[1]
    return text if status == 0 else f"ended with {status}: {text}"


def fetch(job):
    """In a process of a pool: a Node of its own."""
    address, key, number = job
    with weft.Node(f"worker {number}", secret="s") as node:
        memory = node.connect(address).memory(key)
        memory.fetch_add(0, number)
        return memory.get(8, 8)


inherited = None


def use_inherited(_):
    try:
        inherited.memory.get(0, 8)
        return "done"
    except weft.Error as error:
        return str(error)


class Calls(unittest.TestCase):
    def refused(self, code, call, *arguments, **where):
        with self.assertRaises(weft.Error) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.code, code)
        for name, value in where.items():
            self.assertEqual(getattr(caught.exception, name), value, name)
        return str(caught.exception)

    def test_moves(self):
        with Two() as two:
            two.memory.put(0, b"hello")
            self.assertEqual(two.memory.get(0, 6), b"hello\0")
            self.assertEqual(bytes(two.allocated[:5]), b"hello")
            self.assertEqual(two.memory.get(0, 0), b"")
            two.memory.put(0, b"")
            self.assertEqual(two.memory.get(0, 1), b"h")
            two.memory.put(16, b"a\0b")
            self.assertEqual(two.memory.get(16, 3), b"a\0b")
            self.assertEqual(two.memory.fetch_add(8, -1), 0)
            self.assertEqual(two.memory.cas(8, 2**64 - 1, 5), 2**64 - 1)
            self.assertEqual(two.memory.cas(8, -1, 6), 5)
            two.memory.put(0, bytearray(b"HE"), tag=b"t\0g")
            event = next(event for event in two.server.events(20) if event.kind == weft.NOTIFY)
            self.assertEqual(event.data, b"t\0g".ljust(16, b"\0"))
            two.peer.send(b"a\0b")
            event = message_of(two.server)
            self.assertEqual((event.data, event.peer.name), (b"a\0b", "client"))
            event.peer.send(memoryview(b"x" * 3_000_000))
            self.assertEqual(message_of(two.client).data, b"x" * 3_000_000)

    def test_buffers(self):
        with Two() as two:
            two.memory.put(0, bytes(range(256)))
            for buffer in (bytearray(16), array.array("d", [0, 0]), memoryview(bytearray(16))):
                two.memory.get_into(8, buffer)
                self.assertEqual(bytes(memoryview(buffer).cast("B")), bytes(range(8, 24)))
            two.memory.put(0, array.array("i", [1, 2, 3]))
            self.assertEqual(two.memory.get(0, 12), array.array("i", [1, 2, 3]).tobytes())
            two.memory.put(0, memoryview(b"xyz"))
            self.assertEqual(two.memory.get(0, 3), b"xyz")
            two.memory.get_into(0, bytearray())
            for wrong in (b"read-only", memoryview(bytearray(16))[::2]):
                with self.assertRaises(BufferError):
                    two.memory.get_into(0, wrong)
            for wrong in (5, "text", None):
                for call in (two.memory.get_into, two.memory.put):
                    with self.assertRaises(TypeError):
                        call(0, wrong)
                with self.assertRaises(TypeError):
                    two.peer.send(wrong)

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            print("skipped: numpy arrays: no numpy on this machine")
            return
        with Two() as two:
            matrix = numpy.arange(64, dtype="f8").reshape(8, 8)
            two.memory.put(0, matrix)
            of_server = numpy.frombuffer(two.allocated, dtype="f8", count=64)
            self.assertTrue((of_server == matrix.ravel()).all())
            of_server[3] = -1
            copy = numpy.zeros((8, 8))
            two.memory.get_into(0, copy)
            self.assertEqual(copy[0, 3], -1)
            with self.assertRaises((BufferError, TypeError)):
                two.memory.get_into(0, copy[:, ::2])
            with self.assertRaises(BufferError):
                two.server.release(two.allocated)
            with self.assertRaises(BufferError):
                two.server.close()
            self.assertEqual(of_server[3], -1)  # it is all still there
            del of_server
            two.server.release(two.allocated)

    def test_errors(self):
        with Two() as two:
            text = self.refused("bad argument", two.memory.get, 4090, 100, peer="server",
                                offset=4090, length=100)
            for part in ("server", "get", "4090", "100", "bad argument"):
                self.assertIn(part, text)
            self.refused("bad argument", two.memory.put, 2**64 - 1, b"abcd", offset=2**64 - 1)
            self.refused("bad argument", two.memory.fetch_add, 4, 1, offset=4, length=8)
            read_only = two.peer.memory(two.server.key(two.allocated, weft.READ))
            self.refused("not permitted", read_only.put, 0, b"x", peer="server")
            self.refused("not permitted", two.peer.memory(bytes(32)).get, 0, 4)
            error = None
            try:
                two.memory.get(5000, 1)
            except weft.Error as caught:
                error = pickle.loads(pickle.dumps(caught))
            self.assertEqual((error.code, error.peer, error.offset, error.length),
                             ("bad argument", "server", 5000, 1))
            with weft.Node("c", secret="other") as other:
                self.refused("not permitted", other.connect, two.server.address)
            self.refused("not found", two.client.connect, "unix:/nowhere/at/all")
            self.refused("bad argument", two.client.connect, "no address")
            two.allocated = None
            two.server.close()
            lost = next(event for event in two.client.events(20) if event.kind == weft.LOST)
            self.assertEqual((lost.peer.name, lost.code), ("server", "peer lost"))
            self.refused("peer lost", two.memory.get, 0, 4, peer="server")
            self.refused("peer lost", two.peer.send, b"x", peer="server")

    def test_numbers_that_cannot_be(self):
        with Two() as two:
            for call, *arguments in (
                    (two.memory.get, -1, 4), (two.memory.get, 2**64, 4), (two.memory.get, 0, -1),
                    (two.memory.get, 0, 2**62), (two.memory.put, -1, b"x"),
                    (two.memory.put, 2**64, b"x"), (two.memory.put, 0, b"x", b"t" * 17),
                    (two.memory.get_into, -8, bytearray(8)), (two.memory.fetch_add, 2**64, 1),
                    (two.memory.fetch_add, 0, 2**64), (two.memory.cas, 0, 0, -2**63 - 1),
                    (two.peer.memory, b"short"), (two.server.allocate, -1),
                    (two.server.key, two.allocated, 2**32 + 1), (two.server.key, two.allocated, -1)):
                with self.assertRaises(ValueError, msg=f"{call.__name__}{tuple(arguments)}"):
                    call(*arguments)
            for call, *arguments in ((two.memory.get, 0.5, 4), (two.memory.get, "0", 4),
                                     (two.peer.memory, None), (two.peer.memory, 32),
                                     (two.server.key, two.allocated, weft.READ, "client")):
                with self.assertRaises(TypeError, msg=f"{call.__name__}{tuple(arguments)}"):
                    call(*arguments)
            self.refused("bad argument", two.server.allocate, 0)
            self.refused("bad argument", two.server.key, two.allocated, 0)
            self.refused("bad argument", two.server.key, two.allocated, 8)
            with self.assertRaises(ValueError):
                two.server.key(bytearray(8), weft.READ)
            for seconds in (-1, -INFINITY, float("nan")):
                for call in (two.client.events, lambda s: two.client.connect("unix:@x", s),
                             lambda s: weft.Node("n", timeout=s)):
                    with self.assertRaises(ValueError):
                        call(seconds)
            with self.assertRaises((TypeError, ValueError)):
                two.client.events("soon")

    def test_secrets_and_names(self):
        with weft.Node("a", secret=b"a\0b\xff") as server:
            server.listen("127.0.0.1:0")
            for secret in ("a", b"a\0c\xff", b"a\0b", "", b"a\0b\xff\0"):
                with weft.Node("b", secret=secret) as client:
                    self.refused("not permitted", client.connect, server.address)
            with weft.Node("b", secret=bytearray(b"a\0b\xff")) as client:
                self.assertEqual(client.connect(server.address).name, "a")
            with self.assertRaises(ValueError):
                server.listen("127.0.0.1:0\0junk")
            with self.assertRaises(ValueError):
                server.connect("127.0.0.1:1\0junk")
        with weft.Node("a", secret="a\0b") as server, weft.Node("b", secret=b"a\0b") as client:
            server.listen("127.0.0.1:0")
            client.connect(server.address)
        for arguments in ({"name": "a\0b"}, {"fabrics": "shm\0junk"}):
            with self.assertRaises(ValueError):
                weft.Node(**arguments)
        for secret in (None, 5):
            with self.assertRaises(TypeError):
                weft.Node(secret=secret)

    def test_closed(self):
        two = Two()
        view = two.memory
        two.client.close()
        two.client.close()
        for call, *arguments in (
                (two.client.listen, "127.0.0.1:0"), (lambda: two.client.address,),
                (two.client.connect, two.server.address), (two.client.allocate, 8),
                (two.client.next_event,), (lambda: list(two.client.events(0.1)),),
                (two.client.key, two.allocated, 1), (two.client.release, two.allocated),
                (two.peer.send, b"x"), (two.peer.memory, two.key), (two.peer.close,),
                (lambda: two.peer.fabric,), (lambda: two.peer.is_lost,), (view.get, 0, 4),
                (view.put, 0, b"x"), (view.get_into, 0, bytearray(4)), (view.fetch_add, 0, 1),
                (view.cas, 0, 0, 1)):
            self.assertIn("is closed", self.refused("bad argument", call, *arguments))
        self.assertEqual(two.peer.name, "server")
        self.assertIn("server", repr(two.peer))
        two.allocated = None
        two.server.close()
        del two, view
        gc.collect()

    def test_released(self):
        with Two() as two:
            part = two.allocated[8:16]
            with self.assertRaises(BufferError):
                two.server.release(two.allocated)
            part[0] = 1  # it is all still there
            del part
            two.server.release(two.allocated)
            with self.assertRaises(ValueError):
                two.allocated[0] = 1
            for call, *arguments in ((two.server.key, two.allocated, 1),
                                     (two.server.release, two.allocated)):
                with self.assertRaises(ValueError):
                    call(*arguments)
            self.refused("not permitted", two.memory.get, 0, 4)
            kept = two.server.allocate(64)
            two.server.close()
            with self.assertRaises(ValueError):
                kept[0] = 1

    def test_failed_constructors(self):
        caught = []
        before, sys.unraisablehook = sys.unraisablehook, caught.append
        try:
            with Two() as two:
                for call, *arguments in ((weft.Node, "n" * 65), (weft.Node, "n", "s", "no fabric"),
                                         (weft.Node, 5), (weft.Memory, two.peer, b"short"),
                                         (weft.Memory, None, bytes(32)),
                                         (weft.Memory, two.peer, None)):
                    with self.assertRaises(Exception):
                        call(*arguments)
            gc.collect()
        finally:
            sys.unraisablehook = before
        self.assertEqual(caught, [])

    def test_interrupt(self):
        with Two() as two:
            interrupt_soon()
            with self.assertRaises(KeyboardInterrupt):
                list(two.server.events(INFINITY))

    def test_interrupt_of_what_a_stopped_peer_does_not_answer(self):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            with weft.Node("still", secret="s", fabrics="tcp") as node:
                node.listen("127.0.0.1:0")
                memory = node.allocate(4096)
                text = node.address.encode() + b"\n" + node.key(memory, RIGHTS).hex().encode()
                os.write(writer, text + b"\n")
                while True:
                    list(node.events(1))
        try:
            os.close(writer)
            with os.fdopen(reader) as file:
                address, key = file.readline().strip(), bytes.fromhex(file.readline())
            with weft.Node("client", secret="s", fabrics="tcp", timeout=INFINITY) as node:
                peer = node.connect(address)
                memory = peer.memory(key)
                memory.put(0, b"first")
                stop(child)
                buffer = bytearray(5)

                def fill():
                    while True:
                        peer.send(bytes(1000))

                waits = [lambda: memory.get(0, 5), lambda: memory.get_into(0, buffer),
                         lambda: memory.put(0, b"again"), lambda: memory.fetch_add(8, 1),
                         lambda: peer.send(bytes(1 << 20)), fill,
                         lambda: node.connect(address, INFINITY)]
                for wait in waits:
                    interrupt_soon()
                    with self.assertRaises(KeyboardInterrupt):
                        wait()
                os.kill(child, signal.SIGCONT)
                # What was begun has gone on.
                self.assertIn(memory.get(0, 5), (b"first", b"again"))
                self.assertEqual(memory.fetch_add(8, 0), 1)
                self.assertIn(bytes(buffer), (b"first", b"again"))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def test_close_ends_the_calls_of_other_threads(self):
        two = Two()
        ends = []

        def wait():
            try:
                list(two.client.events(INFINITY))
            except weft.Error as error:
                ends.append(error.code)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        two.client.close()
        for thread in threads:
            thread.join(20)
        self.assertEqual(ends, ["bad argument"] * 3)
        two.allocated = None
        two.server.close()

    def test_left_operations(self):
        """Threads that look for ended operations at once take off none that is under way: its buffer
        would go while the library writes to it."""
        class Library:
            both = threading.Barrier(2)

            def __getattr__(self, name):
                return getattr(library, name)

            def weft_op_is_done(self, op):
                if op == "ended":
                    self.both.wait(60)
                return op == "ended" or (op != "under way" and library.weft_op_is_done(op))

        library = weft.node._lib
        with weft.Node("left") as node:
            entries = [(types.SimpleNamespace(op=op), None) for op in ("ended", "under way")]
            node._left.extend(entries)
            weft.node._lib = Library()
            try:
                threads = [threading.Thread(target=node._take_operation) for _ in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            finally:
                weft.node._lib = library
            self.assertEqual(list(node._left), entries[1:])

    def test_threads(self):
        with Two() as two:
            def add():
                for _ in range(500):
                    two.memory.fetch_add(0, 1)
                    two.memory.get(8, 8)
            threads = [threading.Thread(target=add) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(two.memory.fetch_add(0, 0), 2000)

    def test_fork(self):
        for fabrics in ("shm", "tcp"):
            with self.subTest(fabrics), Two(fabrics=fabrics) as two:
                view = two.memory
                view.put(0, b"parent")
                for call in (lambda: view.get(0, 6), lambda: view.put(0, b"child!"),
                             lambda: view.fetch_add(8, 1), lambda: two.peer.send(b"x"),
                             lambda: two.client.address, lambda: two.client.listen("127.0.0.1:0"),
                             lambda: two.client.connect("unix:@x"), lambda: two.peer.is_lost,
                             lambda: two.server.allocate(8), two.server.next_event,
                             lambda: list(two.server.events(0)),
                             lambda: two.server.release(two.allocated)):
                    self.assertIn("connect anew after fork", in_child(call))

                def leave():
                    nonlocal view
                    two.client.close()
                    two.memory = two.peer = view = None
                    two.client = two.server = two.allocated = None
                    gc.collect()
                    return "left"

                self.assertEqual(in_child(leave), "left")

                child = os.fork()
                if child == 0:
                    signal.alarm(30)
                    try:
                        sys.stdout = sys.stderr = open(os.devnull, "w")
                        libc_exit = ctypes.CDLL(None).exit
                        leave()
                        libc_exit(0)  # with what libraries do at the end of a process
                    finally:
                        os._exit(1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)

                def anew():
                    with weft.Node("child", secret="s", fabrics=fabrics) as node:
                        return node.connect(address).memory(two.key).get(0, 6)

                address = two.server.address
                self.assertEqual(in_child(anew), "b'parent'")
                for i in range(3):
                    self.assertEqual(two.memory.get(0, 6), b"parent")
                    two.memory.put(16, b"again")
                    two.peer.send(b"to the server")
                    self.assertEqual(message_of(two.server).data, b"to the server")
                self.assertFalse(two.peer.is_lost)

    def test_pools(self):
        global inherited
        with Two() as two:
            two.memory.put(8, b"contents")
            inherited = two
            try:
                for method in ("fork", "spawn"):
                    with multiprocessing.get_context(method).Pool(2) as pool:
                        jobs = [(two.server.address, two.key, i) for i in range(4)]
                        self.assertEqual(pool.map(fetch, jobs), [b"contents"] * 4)
                        if method == "fork":
                            for text in pool.map(use_inherited, range(4)):
                                self.assertIn("connect anew after fork", text)
                        pool.close()
                        pool.join()
                self.assertEqual(two.memory.fetch_add(0, 0), 2 * (0 + 1 + 2 + 3))
            finally:
                inherited = None
            for thing in (two.client, two.peer, two.memory):
                with self.assertRaises(TypeError):
                    pickle.dumps(thing)


if __name__ == "__main__":
    unittest.main(verbosity=2)
