#!/usr/bin/env python3
"""The Python package weft as it is installed, and from a wheel:

    package_test.py BUILD SOURCE VERSION PACKAGES LIBDIR

Weft is installed by meson into a prefix of its own, below which PACKAGES and LIBDIR lie; of that a wheel is
made for a fresh virtual environment. No path but PYTHONPATH is set. Graph results are compared with a computation in Python."""
import asyncio
import glob
import heapq
import importlib.util
import os
import pickle
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

BUILD, SOURCE, VERSION, PACKAGES, LIBDIR = sys.argv[1:6]
del sys.argv[1:6]
BUILD, SOURCE = os.path.realpath(BUILD), os.path.realpath(SOURCE)
LIMIT_S = 60
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
FOLDER = tempfile.TemporaryDirectory(prefix="weft-package-")
PREFIX = os.path.join(FOLDER.name, "prefix")


def meson_install(tags):
    """Below a folder of its own; whether the build has everything that it installs."""
    root = os.path.join(FOLDER.name, "root")
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags", tags,
                           "--destdir", root], timeout=LIMIT_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        shutil.rmtree(root, ignore_errors=True)
        return done.stdout
    packages, = glob.glob(os.path.join(root, "**", PACKAGES), recursive=True)
    os.rename(packages[:-len(PACKAGES) - 1], PREFIX)
    return None


for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
    os.environ.pop(name, None)
# A build of this test's targets alone has not all that is installed; they run with a path set then.
INCOMPLETE = meson_install("python,runtime,graph,mcast,objstore,tools")
if INCOMPLETE is not None:
    assert meson_install("python") is None
    for folder, paths in ((LIBDIR, ("libcomm/libweft.so.0", "objstore/libweft_objstore.so.1")),
                          ("bin", ("tools/weft-copy/weft-copy", "tools/weft-graph/weft-graph",
                                   "tools/weft-store/weft-store", "tools/weftrun/weftrun"))):
        os.makedirs(os.path.join(PREFIX, folder), exist_ok=True)
        for path in paths:
            shutil.copy(os.path.join(BUILD, path), os.path.join(PREFIX, folder, os.path.basename(path)))
    os.environ["LD_LIBRARY_PATH"] = os.path.join(PREFIX, LIBDIR)
os.environ["WEFT_FABRIC"] = "shm"
sys.path.insert(0, os.path.join(PREFIX, PACKAGES))
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


@unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
class Graphs(unittest.TestCase):
    def setUp(self):
        import numpy
        from weft import graph
        self.numpy, self.graph = numpy, graph

    def test_small(self):
        graph = self.graph
        with graph.Graph([(0, 1), (1, 2), (2, 0), (3, 4)], num_vertices=6) as g:
            depths, parents = graph.bfs(g, 0)
            self.assertEqual(depths.tolist(), [0, 1, 2, -1, -1, -1])
            self.assertEqual(parents.tolist(), [0, 0, 1, -1, -1, -1])
            self.assertEqual(graph.bfs_predecessors(g, 0).tolist(), [-1, 0, 1, -1, -1, -1])
            self.assertEqual(graph.single_source_shortest_path_length(g, 5).tolist(),
                             [-1, -1, -1, -1, -1, 0])
            self.assertEqual(graph.connected_components(g).tolist(), [0, 0, 0, 3, 3, 5])
            self.assertEqual(graph.number_connected_components(g), 3)
            self.assertEqual(graph.shortest_path_length(g, 0, 2), 2)
            self.assertEqual(asyncio.run(graph.bfs_async(g, 3))[0].tolist(), [-1, -1, -1, 0, 1, -1])
            folder = g._folder
            self.assertTrue(os.path.exists(folder))
        self.assertFalse(os.path.exists(folder))
        g = graph.Graph([(0, 1, 5), (1, 2, 7), (0, 2, 20)], directed=False)
        self.assertEqual(graph.single_source_dijkstra_path_length(g, 2).tolist(), [12, 7, 0])
        self.assertEqual(graph.shortest_path_length(g, 2).tolist(), [1, 1, 0])
        self.assertEqual(graph.shortest_path_length(g, 2, 0, weight="weight"), 12)
        # Without edges there is no file.
        none = graph.Graph([], num_vertices=2)
        self.assertEqual(graph.pagerank(none).tolist(), [0.5, 0.5])
        self.assertEqual(graph.connected_components(none).tolist(), [0, 1])
        self.assertEqual(graph.bfs(none, 1)[0].tolist(), [-1, 0])

    def test_inputs(self):
        numpy, graph = self.numpy, self.graph
        want = [0, 1, 2]
        for edges in ([(0, 1), (1, 2)], numpy.array([(0, 1), (1, 2)], "u1"),
                      (numpy.array([0, 1]), numpy.array([1, 2])), numpy.array([(0., 1.), (1., 2.)])):
            self.assertEqual(graph.bfs(edges, 0)[0].tolist(), want)
        for wrong, words in (([(0, -1)], "one is -1"), ([(0, 1.5)], "one is 1.5"), ([(0, 2**32)], "one is"),
                             ([1, 2, 3], "shape"), ([(0, 1, -1)], "weights"), ([(0, 1, .5)], "weights")):
            with self.assertRaisesRegex(ValueError, words):
                graph.Graph(wrong)
        with self.assertRaisesRegex(ValueError, "1 weights for 2 edges"):
            graph.Graph([(0, 1), (1, 2)], weights=[1])
        with self.assertRaisesRegex(ValueError, "vertices 0 to 1"):
            graph.bfs([(0, 1)], 2)
        with self.assertRaises(weft.Error) as caught:
            graph.pagerank([(0, 1)] * 3 + [(1, 2), (2, 0), (1, 0)], max_iter=1, tol=1e-12)
        self.assertEqual(caught.exception.code, "timed out")

    def test_scipy(self):
        try:
            from scipy import sparse
        except ImportError:
            self.skipTest("scipy is not installed")
        matrix = sparse.csr_matrix(([5, 7], ([0, 1], [1, 2])), shape=(4, 4))
        self.assertEqual(self.graph.single_source_dijkstra_path_length(matrix, 0).tolist(),
                         [0, 5, 12, -1])
        with self.assertRaisesRegex(ValueError, "3 columns"):
            self.graph.Graph(sparse.csr_matrix((2, 3)))

    def test_sparse_matrices(self):
        """Whatever has tocoo(): scipy need not be here."""
        class Matrix:
            shape, row, col, data = (4, 4), [0, 1], [1, 2], self.numpy.array([5., 7.])

            def tocoo(self):
                return self
        self.assertEqual(self.graph.single_source_dijkstra_path_length(Matrix(), 0).tolist(),
                         [0, 5, 12, -1])

    def test_random(self):
        graph, drawn = self.graph, random.Random(1)
        num = 60
        edges = [(drawn.randrange(num), drawn.randrange(num), drawn.randrange(1, 100))
                 for _ in range(120)]
        with graph.Graph(edges, num_vertices=num) as g:
            for processes in (1, 2):
                self.assertEqual(graph.single_source_dijkstra_path_length(g, 0, processes=processes)
                                 .tolist(), distances(num, edges, 0), processes)
                self.assertEqual(graph.bfs(g, 0, processes=processes)[0].tolist(),
                                 distances(num, [(a, b, 1) for a, b, _ in edges], 0))
                both = edges + [(b, a, w) for a, b, w in edges]
                label = [min(v for v, d in enumerate(distances(num, both, u)) if d >= 0)
                         for u in range(num)]
                self.assertEqual(graph.connected_components(g, processes=processes).tolist(), label)
                ranks = graph.pagerank(g, tol=1e-10, processes=processes)
                for mine, theirs in zip(ranks, pagerank(num, edges)):
                    self.assertAlmostEqual(mine, theirs, places=8)


def distances(num, edges, source):
    """Dijkstra's."""
    found, heap = [-1] * num, [(0, source)]
    while heap:
        distance, vertex = heapq.heappop(heap)
        if found[vertex] < 0:
            found[vertex] = distance
            for a, b, weight in edges:
                if a == vertex and found[b] < 0:
                    heapq.heappush(heap, (distance + weight, b))
    return found


def pagerank(num, edges):
    """As NetworkX defines it: vertices without outgoing edges give to all."""
    outgoing = [sum(a == vertex for a, _, _ in edges) for vertex in range(num)]
    ranks = [1 / num] * num
    for _ in range(300):
        lost = sum(rank for rank, count in zip(ranks, outgoing) if not count)
        new = [(0.15 + 0.85 * lost) / num] * num
        for a, b, _ in edges:
            new[b] += 0.85 * ranks[a] / outgoing[a]
        ranks = new
    return ranks


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
