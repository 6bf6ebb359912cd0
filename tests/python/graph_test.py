#!/usr/bin/env python3
"""weft.graph as it is installed:

    graph_test.py BUILD SOURCE VERSION PACKAGES LIBDIR

Results are compared with NetworkX, if it is there, and with computations in Python."""
import asyncio
import gc
import importlib.util
import itertools
import math
import os
import random
import sys
import threading
import unittest

sys.dont_write_bytecode = True  # in the source tree
from installed import HAS_NUMPY  # noqa: E402

if not HAS_NUMPY:
    print("numpy is not installed")
    sys.exit(77)
import graph_definitions as defined  # noqa: E402
import numpy  # noqa: E402

import weft  # noqa: E402
from weft import graph  # noqa: E402


networkx = importlib.import_module("networkx") if importlib.util.find_spec("networkx") else None


def random_edges(seed, num, num_edges):
    """Also self-loops, edges that are there twice, and vertices without edges."""
    drawn = random.Random(seed)
    edges = [(drawn.randrange(num), drawn.randrange(num), drawn.randrange(1, 100))
             for _ in range(num_edges)]
    return edges + edges[:num_edges // 10]


# Vertices and edges.
GRAPHS = {"no vertex": (0, []), "one vertex": (1, []), "a self-loop": (1, [(0, 0, 3)]),
          "no edge": (4, []), "the last are isolated": (6, [(2, 1, 7), (1, 2, 5), (3, 3, 1)]),
          "two triangles": (5, [(0, 1, 1), (1, 2, 1), (2, 0, 9), (3, 1, 2), (3, 2, 2)]),
          "thin": (43, random_edges(1, 40, 50)), "dense": (27, random_edges(2, 25, 200))}


class Small(unittest.TestCase):
    def test_known(self):
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
            self.assertEqual(list(g.nodes), list(range(6)))
            folder = g._folder
            self.assertTrue(os.path.exists(folder))
        self.assertFalse(os.path.exists(folder))
        with self.assertRaisesRegex(ValueError, "closed"):
            graph.pagerank(g)
        g = graph.Graph([(0, 1, 5), (1, 2, 7), (0, 2, 20)], directed=False)
        self.assertEqual(graph.single_source_dijkstra_path_length(g, 2).tolist(), [12, 7, 0])
        self.assertEqual(graph.shortest_path_length(g, 2).tolist(), [1, 1, 0])
        self.assertEqual(graph.shortest_path_length(g, 2, 0, weight="weight"), 12)
        folder = g._folder
        del g
        gc.collect()
        self.assertFalse(os.path.exists(folder))

    def test_asyncio(self):
        g = graph.Graph([(0, 1), (1, 2), (2, 0), (3, 4)])

        async def all_at_once():
            return await asyncio.gather(graph.bfs_async(g, 3), graph.triangles_async(g),
                                        graph.pagerank_async(g, tol=1e-8), graph.cdlp_async(g))
        found, counts, ranks, labels = asyncio.run(all_at_once())
        self.assertEqual(found[0].tolist(), [-1, -1, -1, 0, 1])
        self.assertEqual(counts.tolist(), [1, 1, 1, 0, 0])
        self.assertEqual((len(ranks), len(labels)), (5, 5))
        for name in graph.__all__:
            if name != "Graph" and not name.endswith("_async"):
                form = getattr(graph, name + "_async")
                self.assertTrue(asyncio.iscoroutinefunction(form), name)
                self.assertEqual(form.__name__, name + "_async")

    def test_wrong(self):
        for wrong, words in (([(0, -1)], "one is -1"), ([(0, 1.5)], "one is 1.5"), ([(0, 2**32)], "one is"),
                             ([1, 2, 3], "shape"), ([(0, 1, -1)], "weights"), ([(0, 1, -.5)], "one is -0.5"),
                             ([(0, 1, .5), (0, 1, 1e39)], r"one is 1e\+39"), ([(0, 1, numpy.nan)], "one is nan"),
                             ([(0, 1, numpy.inf)], "one is inf"),
                             (numpy.array([(0, numpy.nan)]), "one is nan"),
                             ((numpy.array([0, 1]), numpy.array([1])), "2 sources and 1 targets")):
            with self.assertRaisesRegex(ValueError, words):
                graph.Graph(wrong)
        with self.assertRaisesRegex(TypeError, "not <U"):
            graph.Graph([("a", "b")])
        with self.assertRaisesRegex(ValueError, "1 weights for 2 edges"):
            graph.Graph([(0, 1), (1, 2)], weights=[1])
        with self.assertRaisesRegex(ValueError, "num_vertices is 2"):
            graph.Graph([(0, 1), (1, 2)], num_vertices=2)
        for call in (graph.bfs, graph.single_source_dijkstra_path_length):
            with self.assertRaisesRegex(ValueError, "vertices 0 to 1"):
                call([(0, 1)], 2)
        with self.assertRaisesRegex(ValueError, "processes is 0"):
            graph.bfs([(0, 1)], 0, processes=0)
        with self.assertRaisesRegex(ValueError, "k is 3"):
            graph.betweenness_centrality([(0, 1)], 3)
        with self.assertRaises(weft.Error) as caught:
            graph.pagerank([(0, 1)] * 3 + [(1, 2), (2, 0), (1, 0)], max_iter=1, tol=1e-12)
        self.assertEqual(caught.exception.code, "timed out")
        # What weft-graph refuses is said in its words.
        path = [(i, i + 1) for i in range(3)]
        with self.assertRaisesRegex(weft.Error, "threads"):
            graph.bfs(path, 0, threads=-1)


class Definitions(unittest.TestCase):
    """All functions, on graphs of every kind, by one to three processes."""
    turn = itertools.cycle((1, 2, 3))

    def check(self, call, right, exact=True, **options):
        # Of most graphs by one number of processes, each time another.
        for processes in (1, 2, 3) if self.about["graph"] == "thin" else (next(self.turn),):
            found = call(self.g, processes=processes, **options)
            with self.subTest(function=call.__name__, processes=processes, **self.about):
                self.assertEqual(len(found), self.num)
                if exact:
                    self.assertEqual(found.dtype, numpy.int64)
                    self.assertEqual(found.tolist(), right)
                else:
                    numpy.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-9)

    def graphs(self):
        for name, (self.num, self.edges) in GRAPHS.items():
            for directed in (True, False):
                self.about = {"graph": name, "directed": directed}
                self.both = self.edges if directed else self.edges + [
                    (b, a, w) for a, b, w in self.edges if a != b]
                self.directed = directed
                with graph.Graph(self.edges, num_vertices=self.num, directed=directed) as self.g:
                    yield

    def test_structure(self):
        for _ in self.graphs():
            num, both = self.num, self.both
            components = defined.components(num, both)
            self.check(graph.connected_components, components)
            self.check(graph.weakly_connected_components, components)
            self.assertEqual(graph.number_connected_components(self.g, processes=2), len(set(components)))
            # Every edge of an undirected graph is there once, of a directed one those in both ways twice.
            self.check(graph.cdlp, defined.labels(num, self.edges, 10, self.directed))
            self.check(graph.triangles, defined.triangles(num, both))
            self.check(graph.core_number, defined.core_numbers(num, both))
            coefficients = defined.clustering(num, both)
            self.check(graph.clustering, coefficients, exact=False)
            average = graph.average_clustering(self.g)
            self.assertTrue(math.isnan(average) if num == 0 else
                            abs(average - sum(coefficients) / num) < 1e-12)

    def test_paths(self):
        for _ in self.graphs():
            num, both = self.num, self.both
            ones = [(a, b, 1) for a, b, _ in both]
            for source in {0, num - 1} if num else ():
                depths = defined.distances(num, ones, source)
                self.check(graph.single_source_shortest_path_length, depths, source=source)
                self.check(graph.single_source_dijkstra_path_length, defined.distances(num, both, source),
                           source=source)
                found, parents = graph.bfs(self.g, source, processes=2)
                self.assertEqual((found.tolist(), parents[source]), (depths, source))
                steps = {(a, b) for a, b, _ in both}
                for v in range(num):
                    if depths[v] > 0:
                        self.assertIn((parents[v], v), steps)
                        self.assertEqual(depths[parents[v]], depths[v] - 1)
                    self.assertEqual(parents[v] < 0, depths[v] < 0)
            sources = list(range(num))[:4]
            right = numpy.array(defined.paths_over(num, both, sources)) * (num / max(len(sources), 1))
            if sources:
                self.check(graph.betweenness_centrality, right / (1 if self.directed else 2), exact=False,
                           sources=sources, normalized=False)
                drawn = random.Random(4).sample(range(num), (num + 1) // 2)
                right = numpy.array(defined.paths_over(num, both, drawn)) * (num / len(drawn))
                self.check(graph.betweenness_centrality, right / max((num - 1) * (num - 2), 1), exact=False,
                           k=(num + 1) // 2, seed=4)

    @unittest.skipIf(networkx is None, "networkx is not installed")
    def test_networkx(self):
        for _ in self.graphs():
            many = networkx.MultiDiGraph() if self.directed else networkx.MultiGraph()
            many.add_nodes_from(range(self.num))
            many.add_weighted_edges_from(self.edges)
            once = networkx.DiGraph(many) if self.directed else networkx.Graph(many)
            once.remove_edges_from(list(networkx.selfloop_edges(once)))

            def values(found, none=-1):
                return [found.get(v, none) for v in range(self.num)]
            # From its own object as well.
            own = graph.Graph(many)
            self.assertEqual((own.num_vertices, own.num_edges, own.directed),
                             (self.num, len(self.edges), self.directed))
            if self.num:
                self.check(graph.pagerank, values(networkx.pagerank(many, weight=None, tol=1e-12, max_iter=1000)),
                           exact=False, tol=1e-9, max_iter=1000)
                numpy.testing.assert_allclose(graph.pagerank(own, 1000), graph.pagerank(self.g, 1000),
                                              rtol=1e-9)
                for source in (0, self.num - 1):
                    self.check(graph.single_source_shortest_path_length, values(
                        networkx.single_source_shortest_path_length(many, source)), source=source)
                    self.check(graph.single_source_dijkstra_path_length, values(
                        networkx.single_source_dijkstra_path_length(many, source)), source=source)
                    self.assertEqual(
                        graph.single_source_dijkstra_path_length(own, source).tolist(),
                        graph.single_source_dijkstra_path_length(self.g, source).tolist())
                for normalized in (True, False):
                    self.check(graph.betweenness_centrality, values(
                        networkx.betweenness_centrality(once, normalized=normalized)), exact=False,
                        normalized=normalized)
            if self.directed:
                right = networkx.number_weakly_connected_components(many)
                self.assertEqual(graph.number_weakly_connected_components(self.g), right)
                continue
            self.assertEqual(graph.number_connected_components(self.g), networkx.number_connected_components(many))
            self.check(graph.triangles, values(networkx.triangles(once)))
            self.check(graph.core_number, values(networkx.core_number(once)) if self.num else [])
            self.check(graph.clustering, values(networkx.clustering(once)), exact=False)
            if self.num:
                self.assertAlmostEqual(graph.average_clustering(self.g), networkx.average_clustering(once))


class Calls(unittest.TestCase):
    def test_at_once(self):
        """Calls of several threads share a Graph, and what the first of them leaves for later ones."""
        num, edges = 500, random_edges(9, 500, 3000)
        right = [defined.distances(num, edges, 0), defined.components(num, edges), defined.triangles(num, edges)]
        calls = [lambda g, p: graph.single_source_dijkstra_path_length(g, 0, processes=p),
                 lambda g, p: graph.connected_components(g, processes=p),
                 lambda g, p: graph.triangles(g, processes=p)]
        for cache in (True, False):
            with graph.Graph(edges, num_vertices=num, cache=cache) as g:
                found = [None] * 12

                def work(at):
                    found[at] = calls[at % 3](g, at % 2 + 1).tolist()
                threads = [threading.Thread(target=work, args=(at,)) for at in range(len(found))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                for at, values in enumerate(found):
                    self.assertEqual(values, right[at % 3], at)
                rows = [name for name in os.listdir(g._folder) if name.endswith(".weft-cache")]
                self.assertEqual(len(rows), 2 if cache else 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
