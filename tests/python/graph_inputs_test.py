#!/usr/bin/env python3
"""What weft.graph takes, and the memory that needs:

    graph_inputs_test.py BUILD SOURCE VERSION PACKAGES LIBDIR"""
import gc
import gzip
import importlib.util
import os
import sys
import tracemalloc
import unittest
import warnings
import weakref

sys.dont_write_bytecode = True  # in the source tree
from installed import FOLDER, HAS_NUMPY, SOURCE  # noqa: E402

if not HAS_NUMPY:
    print("numpy is not installed")
    sys.exit(77)
import numpy  # noqa: E402

import weft  # noqa: E402
from weft import graph  # noqa: E402


def optional(name):
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


networkx, sparse = optional("networkx"), optional("scipy.sparse") if optional("scipy") else None


class Inputs(unittest.TestCase):
    def distances(self, edges, **options):
        return graph.single_source_dijkstra_path_length(graph.Graph(edges, **options), 0).tolist()

    def test_arrays(self):
        for kind in ("u1", "i2", "u4", "i4", "u8", "i8", "f4", "f8", ">i4"):
            array = numpy.array([(0, 1, 4), (1, 2, 4)], kind)
            for edges in (array, numpy.asfortranarray(array), array[::-1], array.repeat(2, 0)[::2]):
                self.assertEqual(self.distances(edges), [0, 4, 8], kind)
                self.assertEqual(self.distances(edges[:, :2]), [0, 1, 2], kind)
                self.assertEqual(self.distances((edges[:, 0], edges[:, 1]), weights=[7, 7]), [0, 7, 14])
        self.assertEqual(self.distances([(0, 1), (1, 2)]), [0, 1, 2])
        self.assertEqual(self.distances([(0, 1, .5), (1, 2, 7)], weights=False), [0, 1, 2])
        # Later changes do not matter, and the array is not kept.
        array = numpy.array([(0, 1), (1, 2)])
        g, seen = graph.Graph(array), weakref.ref(array)
        array[:] = 0
        self.assertEqual(graph.bfs(g, 0)[0].tolist(), [0, 1, 2])
        del array
        self.assertIsNone(seen())

    def test_many(self):
        """More edges and empty rows than a block has."""
        num, drawn = 150_000, numpy.random.default_rng(5)
        sources = numpy.concatenate([numpy.full(70_000, 3), drawn.integers(0, 30, 70_000),
                                     drawn.integers(140_000, num, 5)])
        targets = drawn.integers(0, num, len(sources))
        with graph.Graph((sources, targets), num_vertices=num) as g:
            self.assertEqual((g.num_vertices, g.num_edges), (num, len(sources)))
            with open(g._path, "rb") as file:
                rows = numpy.fromfile(file, "<u4").reshape(-1, 2)
            self.assertTrue((rows[:, 0] == sources).all() and (rows[:, 1] == targets).all())
        if sparse is None:
            self.skipTest("scipy is not installed")
        weights = drawn.integers(0, 2**32, len(sources))
        right = sorted(zip(sources.tolist(), targets.tolist(), weights.tolist()))
        for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix):
            # Without adding up what is there twice.
            matrix = sparse.coo_matrix((weights, (sources, targets)), shape=(num, num))
            if kind is not sparse.coo_matrix:
                order = numpy.lexsort((targets, sources) if kind is sparse.csr_matrix else
                                      (sources, targets))
                rows, columns = (sources, targets) if kind is sparse.csr_matrix else (targets, sources)
                ends = numpy.searchsorted(rows[order], numpy.arange(num + 1))
                matrix = kind((weights[order], columns[order], ends), shape=(num, num))
            with graph.Graph(matrix) as g, open(g._path, "rb") as file:
                rows = numpy.fromfile(file, "<u4").reshape(-1, 3)
                self.assertEqual(sorted(map(tuple, rows.tolist())), right, kind)

    @unittest.skipIf(sparse is None, "scipy is not installed")
    def test_scipy(self):
        for kind in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
            matrix = sparse.coo_matrix(([5., 7.], ([0, 1], [1, 2])), shape=(4, 4)).asformat(kind)
            self.assertEqual(self.distances(matrix), [0, 5, 12, -1], kind)
            self.assertEqual(self.distances(matrix.astype(bool)), [0, 1, 2, -1], kind)
            self.assertEqual(self.distances(matrix, weights=False), [0, 1, 2, -1], kind)
            for empty in (0, 3):
                g = graph.Graph(sparse.coo_matrix((empty, empty)).asformat(kind if kind != "bsr" else "csr"))
                self.assertEqual((g.num_vertices, g.num_edges), (empty, 0))
        with self.assertRaisesRegex(ValueError, "3 columns"):
            graph.Graph(sparse.csr_matrix((2, 3)))
        wrong = sparse.csr_matrix(([1], [1], [0, 1, 1]), shape=(2, 2))
        wrong.indices[0] = 2
        with self.assertRaisesRegex(ValueError, "0 to 1, and one is 2"):
            graph.Graph(wrong)

    def test_sparse_matrices(self):
        """Whatever has tocoo(): scipy need not be here."""
        class Matrix:
            shape, row, col, data = (4, 4), [0, 1], [1, 2], numpy.array([5., 7.])

            def tocoo(self):
                return self
        self.assertEqual(self.distances(Matrix()), [0, 5, 12, -1])
        Matrix.data = numpy.array([.5, 7.])
        self.assertEqual(self.distances(Matrix()), [0, .5, 7.5, -1])
        Matrix.shape = (5, 5)
        self.assertEqual(self.distances(Matrix()), [0, .5, 7.5, -1, -1])

    @unittest.skipIf(networkx is None, "networkx is not installed")
    def test_networkx(self):
        named = networkx.Graph()
        named.add_node("alone")
        named.add_edge("ann", "bob", weight=3, time=10)
        named.add_edge("bob", "carl")
        g = graph.Graph(named)
        self.assertEqual((g.nodes, g.directed, g.num_edges), (["alone", "ann", "bob", "carl"], False, 2))
        self.assertEqual(dict(zip(g.nodes, graph.single_source_dijkstra_path_length(g, "carl").tolist())),
                         {"alone": -1, "ann": 4, "bob": 1, "carl": 0})
        self.assertEqual(graph.shortest_path_length(g, "ann", "carl"), 2)
        self.assertEqual(graph.shortest_path_length(graph.Graph(named, weights="time"), "ann", "carl", "time"), 11)
        self.assertEqual(graph.shortest_path_length(graph.Graph(named, weights=False), "ann", "carl", "time"), 2)
        self.assertEqual([g.nodes[v] for v in graph.bfs(g, "bob")[1] if v >= 0], ["bob", "bob", "bob"])
        for unknown in (0, "dora"):
            with self.assertRaisesRegex(ValueError, "no vertex of this name"):
                graph.bfs(g, unknown)
        self.assertEqual(graph.shortest_path_length(networkx.DiGraph([(0, 1), (1, 2)]), 0, 2), 2)
        self.assertEqual(graph.number_connected_components(networkx.empty_graph(3)), 3)
        self.assertEqual(self.distances(networkx.Graph([(0, 1, {"weight": .5})])), [0, .5])


class Files(unittest.TestCase):
    def write(self, name, text):
        path = os.path.join(FOLDER.name, name)
        with open(path, "wb") as file:
            file.write(text)
        return path

    def test_numbers(self):
        path = self.write("g.el.gz", gzip.compress(b"# edges\n0 1\n1 2\n4 2\n"))
        for cache in (False, True):
            g = graph.Graph.from_file(path, cache=cache)
            self.assertEqual((g.num_vertices, g.num_edges, list(g.nodes)), (5, 3, [0, 1, 2, 3, 4]))
            for processes in (1, 2):
                self.assertEqual(graph.bfs(g, 0, processes=processes)[0].tolist(), [0, 1, 2, -1, -1])
                self.assertEqual(graph.single_source_dijkstra_path_length(g, 0).tolist(), [0, 1, 2, -1, -1])
                self.assertEqual(graph.connected_components(g).tolist(), [0, 0, 0, 3, 0])
            self.assertEqual(os.path.exists(path + ".weft-cache"), cache)
        g = graph.Graph.from_file(path, directed=False)
        self.assertEqual(graph.bfs(g, 4)[0].tolist(), [3, 2, 1, -1, 0])
        more = self.write("more.el", b"3 0\n")
        self.assertEqual(graph.bfs(graph.Graph.from_file(path, also=[more]), 3)[0].tolist(), [1, 2, 3, 0, -1])

    def test_weights(self):
        path = self.write("w.csv", b"minutes,from,to\n0.5,0,1\n1.5,1,2\n")
        g = graph.Graph.from_file(path, weight_scale=10, columns="from,to,minutes")
        self.assertEqual(graph.single_source_dijkstra_path_length(g, 0).tolist(), [0, 5, 20])
        g = graph.Graph.from_file(path, weights="real", columns="from,to,minutes")
        self.assertEqual(graph.single_source_dijkstra_path_length(g, 0).tolist(), [0, .5, 2])
        self.assertEqual(graph.single_source_dijkstra_path_length(g, 2).tolist(), [-1, -1, 0])
        with graph.Graph.from_file(path, weights="real", columns="from,to,minutes", named=True) as g:
            self.assertEqual(graph.shortest_path_length(g, "0", "2", "weight"), 2)
        with self.assertRaisesRegex(ValueError, "weights is 'file'"):
            graph.Graph.from_file(path, weights="file")
        g = graph.Graph.from_file(path, columns="from,to", weights=False)
        self.assertEqual(graph.single_source_dijkstra_path_length(g, 0).tolist(), [0, 1, 2])
        self.assertEqual(graph.triangles(g).tolist(), [0, 0, 0])

    def test_names(self):
        path = self.write("n.csv", "from,to,weight\nänn,bob,3\nbob,\"carl, the\",5\n".encode())
        for cache in (False, True):
            with graph.Graph.from_file(path, named=True, directed=False, cache=cache) as g:
                self.assertEqual(g.nodes, ["änn", "bob", "carl, the"])
                for processes in (1, 2):
                    self.assertEqual(graph.single_source_dijkstra_path_length(g, "carl, the", processes=processes)
                                     .tolist(), [8, 5, 0])
                    self.assertEqual(graph.bfs(g, "bob", processes=processes)[0].tolist(), [1, 0, 1])
                self.assertEqual(graph.betweenness_centrality(g).tolist(), [0, 1, 0])
                folder = g._folder
            self.assertFalse(os.path.exists(folder))
            self.assertFalse(os.path.exists(path + ".weft-cache"))

    def test_graphalytics(self):
        path = os.path.join(SOURCE, "tests", "graph", "graphalytics", "example-directed")
        with self.assertRaisesRegex(ValueError, "named=True"):
            graph.Graph.from_file(path)
        with open(path + "-LCC", encoding="ascii") as file:
            right = {name: float(value) for name, value in map(str.split, file)}
        with graph.Graph.from_file(path, named=True, weights=False) as g:
            for processes in (1, 3):
                found = dict(zip(g.nodes, graph.clustering(g, processes=processes).tolist()))
                self.assertEqual(found.keys(), right.keys())
                for name, value in right.items():
                    self.assertAlmostEqual(found[name], value)

    def test_wrong(self):
        with self.assertRaisesRegex(weft.Error, "absent.el"):
            graph.Graph.from_file(os.path.join(FOLDER.name, "absent.el"))
        with self.assertRaisesRegex(weft.Error, "holds no edges"):
            graph.Graph.from_file(self.write("empty.el", b""))
        with self.assertRaisesRegex(weft.Error, "x.el:2"):
            graph.Graph.from_file(self.write("x.el", b"0 1\n1 x\n"))
        # How weft-graph takes a file is said.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            graph.Graph.from_file(self.write("text.bin", b"0 1\n1 2\n"))
        self.assertIn("text.bin: read as", str(caught[0].message))

    def test_real(self):
        path = os.path.join(SOURCE, "examples", "graphs", "soc-Epinions1.el.gz")
        g = graph.Graph.from_file(path)
        self.assertEqual((g.num_vertices, g.num_edges), (75888, 508837))
        self.assertEqual(graph.number_weakly_connected_components(g, processes=2), 11)
        self.assertEqual(int(graph.triangles(g).sum()) // 3, 1624481)


class Memory(unittest.TestCase):
    """What Python needs beside the caller's arrays, as docs/use/python.md says it."""
    NUM, NUM_EDGES = 300_000, 2_000_000

    def peak(self, function):
        """Of all that Python and numpy allocate meanwhile, in bytes."""
        gc.collect()
        tracemalloc.start()
        try:
            result = function()
            return tracemalloc.get_traced_memory()[1], result
        finally:
            tracemalloc.stop()

    def test_peak(self):
        drawn = numpy.random.default_rng(7)
        sources, targets = (drawn.integers(0, self.NUM, self.NUM_EDGES, numpy.uint32) for _ in range(2))
        inputs = {"a pair of u32": (sources, targets),
                  "a pair of i64": (sources.astype("i8"), targets.astype("i8")),
                  "columns": numpy.stack([sources, targets], 1),
                  "columns with weights": numpy.stack([sources, targets, targets], 1),
                  "floats": numpy.stack([sources, targets], 1).astype(float)}
        if sparse is not None:
            matrix = sparse.coo_matrix((numpy.ones(self.NUM_EDGES), (sources, targets)), shape=(self.NUM, self.NUM))
            inputs |= {kind: matrix.asformat(kind) for kind in ("coo", "csr", "csc")}
        for name, edges in inputs.items():
            with self.subTest(name):
                peak, g = self.peak(lambda: graph.Graph(edges))
                with g:
                    self.assertLess(peak, 2 << 20)  # all edges' ids, in 32 bits, are 16 MB
                    size = 12 if name not in ("a pair of u32", "a pair of i64", "columns", "floats") else 8
                    self.assertEqual(os.path.getsize(g._path), size * g.num_edges)
                    peak, _ = self.peak(lambda: graph.clustering(g))
                    self.assertLess(peak, 8 * self.NUM + (1 << 20))  # the result
                    peak, _ = self.peak(lambda: graph.connected_components(g))
                    self.assertLess(peak, (8 + 4) * self.NUM + (1 << 20))  # and that of 4 bytes


if __name__ == "__main__":
    unittest.main(verbosity=2)
