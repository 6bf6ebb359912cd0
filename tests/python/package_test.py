#!/usr/bin/env python3
"""The Python package weft as it is installed, and from a wheel:

    package_test.py BUILD SOURCE VERSION PACKAGES LIBDIR

Of what installed.py installs a wheel is made for a fresh virtual environment. weft.graph has a test of its own."""
import asyncio
import importlib.util
import os
import pickle
import random
import shutil
import subprocess
import sys
import unittest
import warnings

sys.dont_write_bytecode = True  # in the source tree
from installed import (FOLDER, HAS_NUMPY, INCOMPLETE, LIBDIR, LIMIT_S, PACKAGES, PREFIX,
                       SOURCE, VERSION)  # noqa: E402

import weft  # noqa: E402


def python(code, *words, interpreter=sys.executable, **environment):
    """What it prints, on both streams; it does not see the tree."""
    done = subprocess.run([interpreter, *words, "-c", code], cwd=FOLDER.name, timeout=LIMIT_S,
                          env={**os.environ, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(done.stdout)
    return done.stdout


class Installed(unittest.TestCase):
    def test_names(self):
        self.assertEqual(weft.__version__, VERSION)
        self.assertTrue(weft.__file__.startswith(PREFIX))
        for name in weft.__all__:
            if HAS_NUMPY or name != "graph":
                self.assertIsNotNone(getattr(weft, name), name)
                self.assertIn(name, dir(weft))
        with self.assertRaises(AttributeError):
            weft.no_such_name
        self.assertTrue(os.path.exists(os.path.join(PREFIX, PACKAGES, "weft", "py.typed")))

    def test_imports_what_it_needs(self):
        code = "import weft, sys; weft.Node('n').close(); print('numpy' in sys.modules)"
        self.assertEqual(python(code, "-Werror", PYTHONPATH=os.path.join(PREFIX, PACKAGES)), "False\n")

    def test_by_a_link(self):
        """As a Debian package has it."""
        place = os.path.join(FOLDER.name, "dist-packages")
        os.makedirs(place)
        os.symlink(os.path.join(PREFIX, PACKAGES, "weft"), os.path.join(place, "weft"))
        self.assertEqual(python("import weft; print(weft.Node('n').name)", "-Werror",
                                PYTHONPATH=place), "n\n")

    def test_missing_library(self):
        place = os.path.join(FOLDER.name, "alone")
        shutil.copytree(os.path.join(PREFIX, PACKAGES, "weft"), os.path.join(place, "weft"))
        code = ("import weft\ntry: weft.Node\nexcept ImportError as error: print(error)\n"
                "from weft import _library\n"
                "try: _library.command('weft-graph')\nexcept weft.Error as error: print(error.code)")
        printed = python(code, PYTHONPATH=place)
        for word in ("libweft.so.0", "install Weft again", "not found"):
            self.assertIn(word, printed)

    def test_former_names(self):
        code = ("import weft, weft_object_store as w; from weft import store; print(weft.Node, "
                "w is store, w.Error is weft.StoreError)")
        printed = python(code, "-Walways", PYTHONPATH=os.path.join(PREFIX, LIBDIR, "weft", "python"))
        self.assertEqual(printed.count("DeprecationWarning"), 2, printed)
        self.assertIn("<class 'weft.node.Node'> True True", printed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import weft_object_store
        self.assertEqual([warning.category for warning in caught], [DeprecationWarning])
        self.assertIs(weft_object_store.ObjectStore, weft.ObjectStore)

    def test_errors(self):
        for error in (weft.Error("timed out", "text"), weft.NodeError("peer lost", "text", "p", 1, 2),
                      weft.StoreError("not found", "text", b"id"), weft.BadArgument("text", "id")):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), vars(again)), (type(error), "text", vars(error)))
            self.assertIsInstance(again, weft.Error)
        self.assertIsInstance(weft.BadArgument("text"), ValueError)

    def test_mypy(self):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("mypy is not installed")
        if not HAS_NUMPY:
            self.skipTest("numpy, whose types weft.graph uses, is not installed")
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull,
                               os.path.join(PREFIX, PACKAGES, "weft")], cwd=FOLDER.name,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


class Async(unittest.TestCase):
    def test_node(self):
        async def both():
            with weft.Node("server", secret="s") as server, weft.Node("client", secret="s") as client:
                server.listen("127.0.0.1:0")
                peer = await client.connect_async(server.address)
                memory = server.allocate(64)
                remote = peer.memory(server.key(memory, weft.READ | weft.WRITE | weft.ATOMIC))
                await remote.put_async(0, b"hello")
                self.assertEqual(await remote.get_async(0, 5), b"hello")
                self.assertEqual(await remote.fetch_add_async(8, 3), 0)
                self.assertEqual(await remote.cas_async(8, 3, 4), 3)
                into = bytearray(5)
                await remote.get_into_async(0, into)
                self.assertEqual(into, b"hello")
                # Once a call has ended its buffer can be released, whether or not it has failed.
                for offset, code in [(0, None), (1000, "bad argument")] * 20:
                    buffer, found = client.allocate(64), None
                    try:
                        await remote.get_into_async(offset, buffer[:8])
                    except weft.Error as error:
                        found = error.code
                    self.assertEqual(found, code)
                    client.release(buffer)
                # A wait that is cancelled takes no event.
                waiting = asyncio.ensure_future(self.message_of(client))
                await asyncio.sleep(0)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
                waiting = asyncio.ensure_future(self.message_of(server))
                await peer.send_async(b"message")
                self.assertEqual((await waiting).data, b"message")
                with self.assertRaises(weft.Error) as caught:
                    await client.connect_async("unix:/nowhere")
                self.assertEqual(caught.exception.code, "not found")
                memory = None
        asyncio.run(asyncio.wait_for(both(), LIMIT_S))

    @staticmethod
    async def message_of(node):
        async for event in node.events_async(LIMIT_S):
            if event.kind == weft.MESSAGE:
                return event

    def test_store(self):
        path = os.path.join(FOLDER.name, "socket")
        store = subprocess.Popen([os.path.join(PREFIX, "bin", "weft-store"), "--socket", path,
                                  "--memory", "16MiB"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        try:
            self.assertEqual(store.stdout.readline(), f"ready {path}\n")

            async def wait_and_put():
                with weft.ObjectStore(path) as client:
                    # More of them than a shared pool has threads.
                    waiting = [asyncio.ensure_future(client.get_async("late", timeout=LIMIT_S))
                               for _ in range(50)]
                    client.subscribe()
                    await client.put_async("late", b"now")
                    self.assertEqual([bytes(view) for view in await asyncio.gather(*waiting)],
                                     [b"now"] * 50)
                    self.assertEqual(await client.next_event_async(LIMIT_S), ("late", 3))
                    self.assertEqual(await client.wait_async(["late"]), ["late"])
                    self.assertEqual(bytes(await client.get_range_async("late", 1, 2)), b"ow")
                    with self.assertRaises(weft.Error) as caught:
                        await client.get_async("none")
                    self.assertEqual((caught.exception.code, caught.exception.id),
                                     ("not found", "none"))
            asyncio.run(asyncio.wait_for(wait_and_put(), LIMIT_S))
        finally:
            store.terminate()
            store.wait()
            store.stdout.close()


class Multicast(unittest.TestCase):
    def test_sends(self):
        from weft import multicast
        folders = [os.path.join(FOLDER.name, name) for name in ("receiver a", "receiver b")]
        for folder in folders:
            os.mkdir(folder)
        addresses = [f"unix:{FOLDER.name}/{name}" for name in "ab"]
        data = random.Random(2).randbytes(3_000_000)
        with multicast.Receiver(addresses[0], folders[0], "open"), \
                multicast.Receiver(addresses[1], folders[1], b"open"):
            multicast.send_bytes(bytearray(data), "name", addresses, "open")
            asyncio.run(multicast.send_bytes_async(b"small", "other", addresses, b"open", into="deep/er"))
            tree = os.path.join(FOLDER.name, "tree")
            os.mkdir(tree)
            for name, content in (("one", b"1"), ("two", data)):
                with open(os.path.join(tree, name), "wb") as file:
                    file.write(content)
            multicast.send_files([tree], addresses, "open", resume=True)
            for folder in folders:
                for name, content in (("name", data), ("deep/er/other", b"small"), ("tree/two", data)):
                    with open(os.path.join(folder, name), "rb") as file:
                        self.assertEqual(file.read(), content, name)
            with self.assertRaises(weft.Error) as caught:
                multicast.send_bytes(b"x", "name", addresses, "another")
            self.assertEqual(caught.exception.code, "not delivered")
            self.assertIn("secret", str(caught.exception))
        for wrong in ("", "two\nlines", b"\0"):
            with self.assertRaisesRegex(ValueError, "secret"):
                multicast.send_bytes(b"x", "name", addresses, wrong)
        with self.assertRaisesRegex(ValueError, "no address"):
            multicast.send_bytes(b"x", "name", [], "open")
        with self.assertRaises(weft.Error) as caught:
            multicast.Receiver(addresses[0], os.path.join(FOLDER.name, "none"), "open")
        self.assertEqual(caught.exception.code, "not found")


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if INCOMPLETE is not None:
            raise unittest.SkipTest("the build folder has not all that is installed: ninja -C build")
        cls.folder = os.path.join(FOLDER.name, "wheel")
        os.mkdir(cls.folder)
        done = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts", "wheel"), "--prefix",
                               PREFIX, "--output", cls.folder], stdout=subprocess.PIPE, text=True,
                              check=True)
        cls.path = done.stdout.splitlines()[-1]

    def test_wrong_use(self):
        for words in (["--prefix"], ["--prefix", "/nowhere"], ["--no-such-option"]):
            done = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts", "wheel"), *words],
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words[-1], done.stderr)

    def test_in_a_fresh_environment(self):
        place = os.path.join(FOLDER.name, "venv")
        if importlib.util.find_spec("pip") is None:
            self.skipTest("python3-pip is not installed")
        # This Python's pip serves it: one of its own takes longer than all other tests here.
        made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages",
                               place], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode:
            self.skipTest("python3 -m venv makes no environment: python3-venv is not installed")
        interpreter = os.path.join(place, "bin", "python")
        subprocess.run([sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-index", "--quiet",
                        "--disable-pip-version-check", self.path], check=True)
        code = "import weft; print(weft.__version__, weft.Node('n').name, weft.__file__)"
        self.assertTrue(python(code, "-Werror", interpreter=interpreter)
                        .startswith(f"{VERSION} n {place}"))
        if HAS_NUMPY:
            code = "from weft import graph; print(*graph.connected_components([(0, 1), (3, 2)]{}))"
            for more in ("", ", processes=2"):
                self.assertEqual(python(code.format(more), interpreter=interpreter), "0 0 2 2\n")

    def test_by_pip(self):
        """pyproject.toml makes the same wheel."""
        if importlib.util.find_spec("pip") is None:
            self.skipTest("python3-pip is not installed")
        source = os.path.join(FOLDER.name, "source")  # as pip leaves files in it
        shutil.copytree(os.path.join(SOURCE, "python"), source)
        place = os.path.join(FOLDER.name, "by pip")
        subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--quiet",
                        "--disable-pip-version-check", "--config-settings", f"prefix={PREFIX}",
                        "--wheel-dir", place, source], check=True)
        made, = os.listdir(place)
        with open(os.path.join(place, made), "rb") as one, open(self.path, "rb") as other:
            self.assertEqual(one.read(), other.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
