"""Weft's graph engine over numpy arrays: breadth-first search, shortest paths, PageRank, components.

    from weft import graph
    g = graph.Graph(edges)                 # an array of two columns; or (sources, targets); or a
    g = graph.Graph(matrix)                # scipy.sparse matrix, whose entries are weights
    graph.single_source_shortest_path_length(g, 0)     # numpy arrays with a value for each vertex
    graph.pagerank(g)
    graph.connected_components(g)

Functions have NetworkX's names; vertices are 0 to n - 1, and results are arrays in their order. Where
there is no value, as for vertices that are not reached, it is -1. The edges lead one way, unless the
Graph is made with directed=False.

The graph is written to a file, which weft-graph reads in a process of its own: processes=4 lets
four of them share the work, under weftrun. TMPDIR names the folder of the file; it needs 8 bytes an
edge, 12 with weights. A Graph that is used in a with-statement, or closed, leaves nothing there; one
that is not leaves nothing once it is collected.

Calls raise weft.Error; what can never be right raises ValueError or TypeError. Each has a form for
asyncio, with _async behind its name.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import weakref
from types import TracebackType
from typing import Any, Iterable, Union

import numpy
from numpy.typing import NDArray

from ._library import command
from ._threads import in_thread
from .errors import Error

__all__ = ["Graph", "bfs", "bfs_predecessors", "single_source_shortest_path_length",
           "single_source_dijkstra_path_length", "shortest_path_length", "pagerank",
           "connected_components", "number_connected_components", "bfs_async",
           "bfs_predecessors_async", "single_source_shortest_path_length_async",
           "single_source_dijkstra_path_length_async", "shortest_path_length_async", "pagerank_async",
           "connected_components_async", "number_connected_components_async"]

Integers = NDArray[numpy.int64]
_MOST_VERTICES = 2**32 - 1  # the largest id of 32 bits stands for none


def _whole(values: Any, what: str, end: int) -> Integers:
    """One-dimensional, each 0 to end - 1."""
    array = numpy.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{what} have {array.ndim} dimensions: 1 can be")
    if array.size == 0:
        return numpy.zeros(0, numpy.int64)
    if array.dtype.kind == "f":
        if not (array == numpy.floor(array)).all():  # nan, too
            wrong = array[array != numpy.floor(array)][0]
            raise ValueError(f"{what} are whole numbers, and one is {wrong}")
    elif array.dtype.kind not in "iub":
        raise TypeError(f"{what} are numbers, not {array.dtype}")
    least, most = array.min(), array.max()
    if least < 0 or most >= end:
        raise ValueError(f"{what} are 0 to {end - 1}, and one is {least if least < 0 else most}")
    return array.astype(numpy.int64)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # rather than a fork of it, which ends
        shutil.rmtree(folder, ignore_errors=True)


class Graph:
    """A graph for the functions of this module; edges that are there twice and self-loops stay.

    edges: an array of two columns, or of three with weights; a pair of arrays, sources and targets;
    or a scipy.sparse matrix, whose stored entries are edges and their weights.
    weights: one for each edge, whole numbers of 32 bits; shortest paths use them.
    num_vertices: by itself one more than the largest vertex of an edge.
    directed: False: edges lead both ways.
    """

    num_vertices: int
    num_edges: int

    def __init__(self, edges: Any, weights: Any = None, num_vertices: int | None = None,
                 directed: bool = True) -> None:
        sources, targets, found, least = _parts(edges)
        if weights is None:
            weights = found
        self._sources = _whole(sources, "the vertices", _MOST_VERTICES)
        self._targets = _whole(targets, "the vertices", _MOST_VERTICES)
        if len(self._sources) != len(self._targets):
            raise ValueError(f"there are {len(self._sources)} sources and {len(self._targets)} targets: "
                             "an edge has one of each")
        self.num_edges = len(self._sources)
        self._weights = None if weights is None else _whole(weights, "the weights", 2**32)
        if self._weights is not None and len(self._weights) != self.num_edges:
            raise ValueError(f"there are {len(self._weights)} weights for {self.num_edges} edges")
        #: Vertices 0 to this are in the file; those behind have no edges.
        self._in_file = 0
        if self.num_edges:
            self._in_file = 1 + int(max(self._sources.max(), self._targets.max()))
        self.num_vertices = max(self._in_file, least)
        if num_vertices is not None:
            if num_vertices < self.num_vertices:
                raise ValueError(f"num_vertices is {num_vertices}, and the edges have "
                                 f"{self.num_vertices} vertices")
            self.num_vertices = num_vertices
        self.directed = directed
        self._folder: str | None = None
        self._remove: Any = None

    def __repr__(self) -> str:
        return (f"<weft.graph.Graph of {self.num_vertices} vertices and {self.num_edges} "
                f"{'directed' if self.directed else 'undirected'} edges>")

    def close(self) -> None:
        """Removes its file; a later call of a function writes it anew."""
        if self._remove is not None:
            self._remove()
            self._folder = self._remove = None

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _file(self) -> str:
        """Written once."""
        if self._folder is None:
            folder = tempfile.mkdtemp(prefix="weft-graph-")
            remove = weakref.finalize(self, _remove, folder, os.getpid())
            columns = [self._sources, self._targets]
            if self._weights is not None:
                columns.append(self._weights)
            rows = numpy.empty((self.num_edges, len(columns)), "<u4")
            for number, column in enumerate(columns):
                rows[:, number] = column
            try:
                rows.tofile(os.path.join(folder, "edges"))
            except BaseException:
                remove()
                raise
            self._folder, self._remove = folder, remove
        return os.path.join(self._folder, "edges")

    def _run(self, algorithm: str, words: Iterable[str], processes: int, threads: int | None
             ) -> tuple[bytes, dict[str, Any]]:
        """The binary result of weft-graph, and what it prints of the run."""
        if processes < 1:
            raise ValueError(f"processes is {processes}: 1 or more can be")
        path = self._file()
        # Calls of several threads have results of their own.
        with tempfile.TemporaryDirectory(prefix="run-", dir=os.path.dirname(path)) as folder:
            out = os.path.join(folder, "result")
            line = [command("weft-graph"), algorithm, path, "--format",
                    "gemini" if self._weights is None else "paper", "--json", "--out", out,
                    "--out-format", "binary", *words]
            if not self.directed and algorithm != "wcc":
                line.append("--undirected")
            if threads is not None:
                line += ["--threads", str(threads)]
            if processes > 1:
                line = [command("weftrun"), "-n", str(processes), *line]
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="replace")
            if done.returncode:
                text = done.stderr.strip() or f"{line[0]} ended with status {done.returncode}"
                raise Error("bad argument" if done.returncode == 2 else "internal error", text)
            with open(out, "rb") as file:
                result = file.read()
        run: dict[str, Any] = json.loads(done.stdout)["runs"][0]
        return result, run


#: What the functions take: a Graph, or what makes one.
GraphLike = Union[Graph, Any]


def _parts(edges: Any) -> tuple[Any, Any, Any, int]:
    """Sources, targets, weights or None, and how many vertices there are at least."""
    if hasattr(edges, "tocoo"):  # scipy.sparse, which need not be here
        matrix = edges.tocoo()
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"the matrix has {matrix.shape[0]} rows and {matrix.shape[1]} columns: "
                             "as many can be")
        return matrix.row, matrix.col, matrix.data, int(matrix.shape[0])
    if isinstance(edges, tuple) and len(edges) == 2 and not numpy.isscalar(edges[0]) and \
            all(numpy.ndim(column) == 1 for column in edges) and \
            any(isinstance(column, numpy.ndarray) for column in edges):
        return edges[0], edges[1], None, 0
    array = numpy.asarray(edges)
    if array.size == 0:
        return [], [], None, 0
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise ValueError(f"the edges are an array of shape {array.shape}: 2 columns can be, or 3 with "
                         "weights; or a pair of arrays, or a scipy.sparse matrix")
    return array[:, 0], array[:, 1], array[:, 2] if array.shape[1] == 3 else None, 0


def _graph(graph: GraphLike) -> Graph:
    return graph if isinstance(graph, Graph) else Graph(graph)


def _source(graph: Graph, source: int, what: str = "the source") -> int:
    if not 0 <= source < graph.num_vertices:
        raise ValueError(f"{what} is {source}: the graph has vertices 0 to {graph.num_vertices - 1}"
                         if graph.num_vertices else f"{what} is {source}: the graph has no vertices")
    return int(source)


def _signed(values: Any) -> Integers:
    """None, which is all bits set, is -1."""
    unsigned = values.dtype
    signed: Integers = values.astype(numpy.int64)
    signed[values == numpy.iinfo(unsigned).max] = -1
    return signed


def _padded(graph: Graph, values: Any, fill: Any) -> Any:
    """With vertices that have no edges and are not in the file."""
    result = numpy.full(graph.num_vertices, fill, values.dtype)
    result[:len(values)] = values
    return result


def bfs(graph: GraphLike, source: int, *, processes: int = 1, threads: int | None = None
        ) -> tuple[Integers, Integers]:
    """Breadth-first search: each vertex's distance in edges from source, and its parent. The
    source is its own parent; -1, -1: not reached."""
    graph = _graph(graph)
    source = _source(graph, source)
    depths, parents = (numpy.full(graph.num_vertices, -1, numpy.int64) for _ in range(2))
    if source >= graph._in_file:
        depths[source], parents[source] = 0, source
        return depths, parents
    result, _ = graph._run("bfs", ["--source", str(source)], processes, threads)
    # Ids have 8 bytes in a build with 64-bit vertices.
    size = len(result) // graph._in_file
    rows = numpy.frombuffer(result, [("depth", "<u4"), ("parent", f"<u{size - 4}")])
    depths[:len(rows)], parents[:len(rows)] = _signed(rows["depth"]), _signed(rows["parent"])
    return depths, parents


def bfs_predecessors(graph: GraphLike, source: int, *, processes: int = 1,
                     threads: int | None = None) -> Integers:
    """The parent of each vertex in a breadth-first search; -1: the source, or not reached."""
    parents = bfs(graph, source, processes=processes, threads=threads)[1]
    parents[source] = -1
    return parents


def single_source_shortest_path_length(graph: GraphLike, source: int, *, processes: int = 1,
                                       threads: int | None = None) -> Integers:
    """The distance in edges of each vertex from source; -1: not reached."""
    return bfs(graph, source, processes=processes, threads=threads)[0]


def single_source_dijkstra_path_length(graph: GraphLike, source: int, *, processes: int = 1,
                                       threads: int | None = None) -> Integers:
    """The least sum of weights of a path to each vertex from source; -1: not reached. Without
    weights each edge has 1."""
    graph = _graph(graph)
    source = _source(graph, source)
    if source >= graph._in_file:
        lengths = numpy.full(graph.num_vertices, -1, numpy.int64)
        lengths[source] = 0
        return lengths
    result, _ = graph._run("sssp", ["--source", str(source)], processes, threads)
    lengths = _padded(graph, _signed(numpy.frombuffer(result, "<u8")), -1)
    return lengths


def shortest_path_length(graph: GraphLike, source: int, target: int | None = None,
                         weight: str | None = None, *, processes: int = 1,
                         threads: int | None = None) -> Any:
    """From source to target, an int, or to every vertex, an array; -1: not reached. weight: None
    counts edges; anything else sums weights, as NetworkX does by the name of an attribute."""
    graph = _graph(graph)
    if target is not None:
        _source(graph, target, "the target")
    lengths = (single_source_shortest_path_length if weight is None
               else single_source_dijkstra_path_length)(graph, source, processes=processes,
                                                        threads=threads)
    return lengths if target is None else int(lengths[target])


def pagerank(graph: GraphLike, max_iter: int = 100, tol: float = 1e-6, *, processes: int = 1,
             threads: int | None = None) -> NDArray[numpy.float64]:
    """PageRank by damping 0.85; the ranks sum to 1, and weights do not count.

    It ends once an iteration changes all ranks together by less than tol times the number of
    vertices, as NetworkX does, or after max_iter iterations. The rank of vertices without outgoing
    edges goes to all alike. Error ("timed out"): max_iter iterations were not enough."""
    if max_iter < 1:
        raise ValueError(f"max_iter is {max_iter}: 1 or more can be")
    if not tol > 0:
        raise ValueError(f"tol is {tol}: more than 0 can be")
    graph = _graph(graph)
    # A rank of weft-graph is 0.15 and 0.85 of what comes in; what vertices without outgoing edges
    # have is lost. Divided by the sum, the fixed point is the one that gives it to all alike: both
    # solve x = c + 0.85 A x, for another c.
    if not graph.num_edges:
        return numpy.full(graph.num_vertices, 1 / max(graph.num_vertices, 1))
    bound = tol * graph.num_vertices  # of ranks that sum to 1
    # Those of weft-graph sum to at least 0.15 for each vertex, but for the sum of this run.
    # One iteration more shows whether max_iter were enough.
    words = ["--iterations", str(max_iter + 1), "--tolerance", repr(0.15 * bound * graph._in_file)]
    result, run = graph._run("pagerank", words, processes, threads)
    if run["iterations"] > max_iter:
        raise Error("timed out", f"pagerank: after max_iter = {max_iter} iterations the ranks still "
                    "change by more than tol: give more iterations, or a larger tol")
    ranks: NDArray[numpy.float64] = _padded(graph, numpy.frombuffer(result, "<f8"), 0.15)
    ranks /= ranks.sum()
    return ranks


def connected_components(graph: GraphLike, *, processes: int = 1, threads: int | None = None
                         ) -> Integers:
    """The smallest vertex of each vertex's component, whichever way edges lead."""
    graph = _graph(graph)
    own: Integers = numpy.arange(graph.num_vertices, dtype=numpy.int64)
    if graph.num_edges:
        result, _ = graph._run("wcc", [], processes, threads)
        own[:graph._in_file] = numpy.frombuffer(result, f"<u{len(result) // graph._in_file}")
    return own


def number_connected_components(graph: GraphLike, *, processes: int = 1,
                                threads: int | None = None) -> int:
    """How many components there are, whichever way edges lead."""
    return len(numpy.unique(connected_components(graph, processes=processes, threads=threads)))


async def bfs_async(graph: GraphLike, source: int, *, processes: int = 1,
                    threads: int | None = None) -> tuple[Integers, Integers]:
    """bfs() for asyncio."""
    return await in_thread(bfs, graph, source, processes=processes, threads=threads)


async def bfs_predecessors_async(graph: GraphLike, source: int, *, processes: int = 1,
                                 threads: int | None = None) -> Integers:
    """bfs_predecessors() for asyncio."""
    return await in_thread(bfs_predecessors, graph, source, processes=processes, threads=threads)


async def single_source_shortest_path_length_async(graph: GraphLike, source: int, *,
                                                   processes: int = 1,
                                                   threads: int | None = None) -> Integers:
    """single_source_shortest_path_length() for asyncio."""
    return await in_thread(single_source_shortest_path_length, graph, source, processes=processes,
                           threads=threads)


async def single_source_dijkstra_path_length_async(graph: GraphLike, source: int, *,
                                                   processes: int = 1,
                                                   threads: int | None = None) -> Integers:
    """single_source_dijkstra_path_length() for asyncio."""
    return await in_thread(single_source_dijkstra_path_length, graph, source, processes=processes,
                           threads=threads)


async def shortest_path_length_async(graph: GraphLike, source: int, target: int | None = None,
                                     weight: str | None = None, *, processes: int = 1,
                                     threads: int | None = None) -> Any:
    """shortest_path_length() for asyncio."""
    return await in_thread(shortest_path_length, graph, source, target, weight,
                           processes=processes, threads=threads)


async def pagerank_async(graph: GraphLike, max_iter: int = 100, tol: float = 1e-6, *,
                         processes: int = 1, threads: int | None = None
                         ) -> NDArray[numpy.float64]:
    """pagerank() for asyncio."""
    return await in_thread(pagerank, graph, max_iter, tol, processes=processes, threads=threads)


async def connected_components_async(graph: GraphLike, *, processes: int = 1,
                                     threads: int | None = None) -> Integers:
    """connected_components() for asyncio."""
    return await in_thread(connected_components, graph, processes=processes, threads=threads)


async def number_connected_components_async(graph: GraphLike, *, processes: int = 1,
                                            threads: int | None = None) -> int:
    """number_connected_components() for asyncio."""
    return await in_thread(number_connected_components, graph, processes=processes, threads=threads)
