"""Ranks, components, communities and how vertices lie together."""
from __future__ import annotations


import numpy
from numpy.typing import NDArray

from .._threads import for_asyncio
from ..errors import Error
from ._graph import GraphLike, Integers, graph_of, padded, signed

Floats = NDArray[numpy.float64]


def pagerank(graph: GraphLike, max_iter: int = 100, tol: float = 1e-6, *, processes: int = 1,
             threads: int | None = None) -> Floats:
    """PageRank by damping 0.85; the ranks sum to 1, and weights do not count.

    It ends once an iteration changes all ranks together by less than tol times the number of
    vertices, as NetworkX does, or after max_iter iterations. The rank of vertices without outgoing
    edges goes to all alike. Error ("timed out"): max_iter iterations were not enough."""
    if max_iter < 1:
        raise ValueError(f"max_iter is {max_iter}: 1 or more can be")
    if not tol > 0:
        raise ValueError(f"tol is {tol}: more than 0 can be")
    graph = graph_of(graph)
    # A rank of weft-graph is 0.15 and 0.85 of what comes in; what vertices without outgoing edges
    # have is lost. Divided by the sum, the fixed point is the one that gives it to all alike: both
    # solve x = c + 0.85 A x, for another c.
    if not graph.num_edges:
        return numpy.full(graph.num_vertices, 1 / max(graph.num_vertices, 1))
    bound = tol * graph.num_vertices  # of ranks that sum to 1
    # Those of weft-graph sum to at least 0.15 for each vertex, but for the sum of this run.
    # One iteration more shows whether max_iter were enough.
    words = ["--iterations", str(max_iter + 1), "--tolerance", repr(0.15 * bound * graph._in_file)]
    found, run = graph._call("pagerank", words, "<f8", processes, threads)
    if run["iterations"] > max_iter:
        raise Error("timed out", f"pagerank: after max_iter = {max_iter} iterations the ranks still "
                    "change by more than tol: give more iterations, or a larger tol")
    ranks: Floats = padded(graph, found, 0.15)
    ranks /= ranks.sum()
    return ranks


def connected_components(graph: GraphLike, *, processes: int = 1, threads: int | None = None
                         ) -> Integers:
    """The smallest vertex of each vertex's component, whichever way edges lead: NetworkX has sets
    instead, and refuses directed graphs here."""
    return _labels(graph, "wcc", [], processes, threads)


def weakly_connected_components(graph: GraphLike, *, processes: int = 1,
                                threads: int | None = None) -> Integers:
    """The same as connected_components()."""
    return _labels(graph, "wcc", [], processes, threads)


def number_connected_components(graph: GraphLike, *, processes: int = 1,
                                threads: int | None = None) -> int:
    """How many components there are, whichever way edges lead."""
    graph = graph_of(graph)
    if not graph.num_edges:
        return graph.num_vertices
    _, run = graph._call("wcc", [], None, processes, threads)
    return int(run["components"]) + graph.num_vertices - graph._in_file


def number_weakly_connected_components(graph: GraphLike, *, processes: int = 1,
                                       threads: int | None = None) -> int:
    """The same as number_connected_components()."""
    return number_connected_components(graph, processes=processes, threads=threads)


def cdlp(graph: GraphLike, max_iter: int = 10, *, processes: int = 1, threads: int | None = None
         ) -> Integers:
    """Communities by label propagation, as Graphalytics defines them: the label of each vertex.

    Every vertex begins with itself; in an iteration all take at once the most frequent label among
    the other ends of their edges, of several the smallest. Edges in both directions, and those that
    are there twice, count twice. It ends after max_iter iterations, or when one changes nothing.
    NetworkX's label_propagation_communities() and asyn_lpa_communities() take labels in other
    orders, and find other communities."""
    if max_iter < 1:
        raise ValueError(f"max_iter is {max_iter}: 1 or more can be")
    return _labels(graph, "cdlp", ["--iterations", str(max_iter)], processes, threads)


def clustering(graph: GraphLike, *, processes: int = 1, threads: int | None = None) -> Floats:
    """Local clustering coefficients: of the pairs of different neighbors of a vertex, in both
    orders, the share between which an edge leads from the first to the second; 0 with fewer than
    two. Neighbors are the other ends of edges out and in; self-loops and weights do not count, and
    edges that are there twice count once.

    Of undirected graphs this is NetworkX's clustering(). For directed ones NetworkX has Fagiolo's
    coefficient, which counts triangles by the directions of all their edges; this is Graphalytics'."""
    graph = graph_of(graph)
    if not graph.num_edges:
        return numpy.zeros(graph.num_vertices)
    found, _ = graph._call("lcc", [], "<f8", processes, threads)
    coefficients: Floats = padded(graph, found, 0)
    return coefficients


def average_clustering(graph: GraphLike, *, processes: int = 1, threads: int | None = None) -> float:
    """The mean of clustering(), nan without vertices."""
    coefficients = clustering(graph, processes=processes, threads=threads)
    return float(coefficients.mean()) if len(coefficients) else float("nan")


def triangles(graph: GraphLike, *, processes: int = 1, threads: int | None = None) -> Integers:
    """In how many triangles each vertex is: sets of three vertices each two of which have an edge,
    whichever way it leads (NetworkX refuses directed graphs). All have sum() // 3."""
    return _counts(graph, "triangles", "<u8", processes, threads)


def core_number(graph: GraphLike, *, processes: int = 1, threads: int | None = None) -> Integers:
    """The largest k such that the vertex is in a part of the graph where each has k neighbors,
    whichever way edges lead. An edge that is there twice, or in both directions, counts once
    (NetworkX counts those of directed graphs twice); self-loops do not."""
    return _counts(graph, "kcore", "<u4", processes, threads)


def _labels(graph: GraphLike, algorithm: str, words: list[str], processes: int,
            threads: int | None) -> Integers:
    """Vertices without edges have themselves."""
    graph = graph_of(graph)
    own: Integers = numpy.arange(graph.num_vertices, dtype=numpy.int64)
    if graph.num_edges:
        own[:graph._in_file] = graph._call(algorithm, words, "id", processes, threads)[0]
    return own


def _counts(graph: GraphLike, algorithm: str, kind: str, processes: int, threads: int | None
            ) -> Integers:
    """Vertices without edges have 0."""
    graph = graph_of(graph)
    if not graph.num_edges:
        return numpy.zeros(graph.num_vertices, numpy.int64)
    counts: Integers = padded(graph, signed(graph._call(algorithm, [], kind, processes, threads)[0]), 0)
    return counts


average_clustering_async = for_asyncio(average_clustering)
cdlp_async = for_asyncio(cdlp)
clustering_async = for_asyncio(clustering)
connected_components_async = for_asyncio(connected_components)
core_number_async = for_asyncio(core_number)
number_connected_components_async = for_asyncio(number_connected_components)
number_weakly_connected_components_async = for_asyncio(number_weakly_connected_components)
pagerank_async = for_asyncio(pagerank)
triangles_async = for_asyncio(triangles)
weakly_connected_components_async = for_asyncio(weakly_connected_components)
