"""Searches and shortest paths."""
from __future__ import annotations

import random
from typing import Any, Iterable

import numpy
from numpy.typing import NDArray

from .._threads import for_asyncio
from ._graph import GraphLike, Integers, graph_of, padded, signed


def bfs(graph: GraphLike, source: Any, *, processes: int = 1, threads: int | None = None
        ) -> tuple[Integers, Integers]:
    """Breadth-first search: each vertex's distance in edges from source, and its parent. The
    source is its own parent; -1, -1: not reached."""
    graph = graph_of(graph)
    source = graph.number_of(source, "the source")
    depths, parents = (numpy.full(graph.num_vertices, -1, numpy.int64) for _ in range(2))
    if source >= graph._in_file:
        depths[source], parents[source] = 0, source
        return depths, parents
    rows, _ = graph._call("bfs", ["--source", str(source)], "depth and id", processes, threads)
    depths[:len(rows)], parents[:len(rows)] = signed(rows["depth"]), signed(rows["id"])
    return depths, parents


def bfs_predecessors(graph: GraphLike, source: Any, *, processes: int = 1,
                     threads: int | None = None) -> Integers:
    """The parent of each vertex in a breadth-first search; -1: the source, or not reached."""
    graph = graph_of(graph)
    parents = bfs(graph, source, processes=processes, threads=threads)[1]
    parents[graph.number_of(source)] = -1
    return parents


def single_source_shortest_path_length(graph: GraphLike, source: Any, *, processes: int = 1,
                                       threads: int | None = None) -> Integers:
    """The distance in edges of each vertex from source; -1: not reached."""
    return bfs(graph, source, processes=processes, threads=threads)[0]


def single_source_dijkstra_path_length(graph: GraphLike, source: Any, *, processes: int = 1,
                                       threads: int | None = None
                                       ) -> Integers | NDArray[numpy.float64]:
    """The least sum of weights of a path to each vertex from source; -1: not reached. Without
    weights each edge has 1. Floats if weights have fractions."""
    graph = graph_of(graph)
    source = graph.number_of(source, "the source")
    lengths: Integers | NDArray[numpy.float64]
    if source >= graph._in_file:
        lengths = numpy.full(graph.num_vertices, -1, "f8" if graph.has_real_weights else "i8")
        lengths[source] = 0
        return lengths
    found, _ = graph._call("sssp", ["--source", str(source)],
                           "<f8" if graph.has_real_weights else "<u8", processes, threads)
    if graph.has_real_weights:
        found[numpy.isnan(found)] = -1
    else:
        found = signed(found)
    lengths = padded(graph, found, -1)
    return lengths


def shortest_path_length(graph: GraphLike, source: Any, target: Any = None,
                         weight: str | None = None, *, processes: int = 1,
                         threads: int | None = None) -> Any:
    """From source to target, a number, or to every vertex, an array; -1: not reached. weight: None
    counts edges; anything else sums weights, as NetworkX does by the name of an attribute."""
    graph = graph_of(graph)
    if target is not None:
        target = graph.number_of(target, "the target")
    lengths = (single_source_shortest_path_length if weight is None
               else single_source_dijkstra_path_length)(graph, source, processes=processes,
                                                        threads=threads)
    return lengths if target is None else lengths[target].item()


def betweenness_centrality(graph: GraphLike, k: int | None = None, normalized: bool = True,
                           seed: int | None = None, *, sources: Iterable[Any] | None = None,
                           processes: int = 1, threads: int | None = None
                           ) -> NDArray[numpy.float64]:
    """The sum, over pairs of other vertices, of the share of the shortest paths between them that
    lead over a vertex. Paths count edges; edges that are there twice count once.

    normalized: divided by the number of pairs, (n - 1) (n - 2); else, of an undirected graph, by 2.
    By itself paths from all vertices count, which takes a search from each. k: from that many,
    drawn by seed; sources: from these; the sums are then multiplied by n / k, as NetworkX does it
    up to version 3.4. The same k and seed draw the same vertices as there. weft.Error
    ("bad argument"): more shortest paths lead to a vertex than a float can count."""
    graph = graph_of(graph)
    num = graph.num_vertices
    if sources is not None:
        if k is not None:
            raise ValueError("k is for vertices that are drawn, and sources gives them")
        chosen = [graph.number_of(source, "a source") for source in sources]
    elif k is not None:
        if not 1 <= k <= num:
            raise ValueError(f"k is {k}: 1 to {num} can be, the number of vertices")
        chosen = random.Random(seed).sample(range(num), k)
    else:
        chosen = list(range(num))
    scores: NDArray[numpy.float64] = numpy.zeros(num)
    # From vertices without edges no path leads anywhere.
    started = [source for source in chosen if source < graph._in_file]
    if not started:
        return scores
    found, _ = graph._call("betweenness", ["--unscaled"], "<f8", processes, threads,
                           lines={"--sources": started})
    scores = padded(graph, found, 0)
    pairs = (num - 1) * (num - 2) if normalized else 1 if graph.directed else 2
    scores *= num / len(chosen) / max(pairs, 1)
    return scores


betweenness_centrality_async = for_asyncio(betweenness_centrality)
bfs_async = for_asyncio(bfs)
bfs_predecessors_async = for_asyncio(bfs_predecessors)
shortest_path_length_async = for_asyncio(shortest_path_length)
single_source_dijkstra_path_length_async = for_asyncio(single_source_dijkstra_path_length)
single_source_shortest_path_length_async = for_asyncio(single_source_shortest_path_length)
