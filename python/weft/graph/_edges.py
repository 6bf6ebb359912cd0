"""What a Graph is made of, as edges that are read block by block: arrays stay as and where they are."""
from __future__ import annotations

from typing import Any, BinaryIO, Iterator, Sequence

import numpy
from numpy.typing import NDArray

Column = NDArray[Any]

_MOST_VERTICES = 2**32 - 1  # the largest id of 32 bits stands for none
_BLOCK_EDGES = 1 << 15  # at once; with their temporaries they stay in a core's cache


def largest_of(values: Column, what: str, end: int) -> int:
    """The largest of some values, which are whole numbers from 0 to end - 1."""
    if values.dtype.kind == "f":
        wrong = values[values != numpy.floor(values)]  # nan, too
        if wrong.size:
            raise ValueError(f"{what} are whole numbers, and one is {wrong[0]}")
    least, most = values.min(), values.max()
    if least < 0 or most >= end:
        raise ValueError(f"{what} are 0 to {end - 1}, and one is {least if least < 0 else most}")
    return int(most)


def _has_fractions(values: Column) -> bool:
    if values.dtype.kind != "f":
        return False
    blocks = (values[first:first + _BLOCK_EDGES] for first in range(0, len(values), _BLOCK_EDGES))
    return any(bool((block != numpy.floor(block)).any()) for block in blocks)


def _floats_of(weights: Column) -> Column:
    with numpy.errstate(over="ignore"):
        floats = weights.astype("<f4")
    wrong = weights[~(numpy.isfinite(floats) & (weights >= 0) & ((floats > 0) | (weights == 0)))]  # nan, too
    if wrong.size:
        raise ValueError(f"weights with fractions are floats from 0, and one is {wrong[0]}")
    return floats + numpy.float32(0)  # of -0, too


class Edges:
    """Of which each block is checked as it is read. num_vertices: at least; one more than the
    largest vertex may be more. nodes: the vertices' names, or None. directed: None: not known."""

    def __init__(self, num_vertices: int, weights: Column | None, nodes: Sequence[Any] | None = None,
                 directed: bool | None = None) -> None:
        self.num_vertices, self.nodes, self.directed = num_vertices, nodes, directed
        #: All True: they need no place.
        self.weights = None if weights is not None and weights.dtype == bool else weights
        self.num_edges = 0
        #: Some have fractions: all are written as floats.
        self.has_real_weights = self.weights is not None and _has_fractions(self.weights)
        #: A vertex of an edge is less.
        self.end = num_vertices or _MOST_VERTICES

    def _blocks(self) -> Iterator[tuple[int, int, Column, Column]]:
        """The first edge, the last one's successor, sources, targets."""
        raise NotImplementedError

    def write(self, file: BinaryIO) -> int:
        """In binary, as weft-graph reads them. Returns one more than the largest vertex."""
        rows = numpy.empty((_BLOCK_EDGES, 2 if self.weights is None else 3), "<u4")
        num_vertices = 0
        for first, last, sources, targets in self._blocks():
            num = last - first
            for number, column in enumerate((sources, targets)):
                num_vertices = max(num_vertices, 1 + largest_of(column, "the vertices", self.end))
                rows[:num, number] = column
            if self.weights is not None and self.has_real_weights:
                rows[:num, 2] = _floats_of(self.weights[first:last]).view("<u4")
            elif self.weights is not None:
                weights = self.weights[first:last]
                largest_of(weights, "the weights", 2**32)
                rows[:num, 2] = weights
            file.write(rows[:num].data)
        return num_vertices


class Columns(Edges):
    """Arrays of sources and targets."""

    def __init__(self, sources: Any, targets: Any, weights: Any, num_vertices: int = 0,
                 **about: Any) -> None:
        super().__init__(num_vertices, None if weights is None else column(weights, "the weights"),
                         **about)
        self._sources, self._targets = (column(sources, "the vertices"),
                                        column(targets, "the vertices"))
        self.num_edges = len(self._sources)
        if self.num_edges != len(self._targets):
            raise ValueError(f"there are {self.num_edges} sources and {len(self._targets)} targets: "
                             "an edge has one of each")

    def _blocks(self) -> Iterator[tuple[int, int, Column, Column]]:
        for first in range(0, self.num_edges, _BLOCK_EDGES):
            last = min(first + _BLOCK_EDGES, self.num_edges)
            yield first, last, self._sources[first:last], self._targets[first:last]


class Compressed(Edges):
    """The rows of a matrix in CSR, or the columns of one in CSC."""

    def __init__(self, matrix: Any, weights: Any) -> None:
        self._ends: Column = matrix.indptr
        self._others: Column = matrix.indices
        self._by_row = matrix.format == "csr"
        num_edges = int(self._ends[-1])  # the arrays may be longer
        weights = _chosen(weights, matrix.data[:num_edges])
        super().__init__(int(matrix.shape[0]),
                         None if weights is None else column(weights, "the weights"))
        self.num_edges = num_edges

    def _blocks(self) -> Iterator[tuple[int, int, Column, Column]]:
        # A block ends with _BLOCK_EDGES edges or rows, so that empty rows need no more memory.
        row, first = 0, 0
        while first < self.num_edges:
            end_row = min(row + _BLOCK_EDGES, self.num_vertices)
            last = min(first + _BLOCK_EDGES, int(self._ends[end_row]))
            if last > first:
                ends = numpy.clip(self._ends[row:end_row + 1], first, last)
                own = numpy.repeat(numpy.arange(row, end_row), numpy.diff(ends))
                others = self._others[first:last]
                yield (first, last, own, others) if self._by_row else (first, last, others, own)
            row, first = end_row, last
            if last < self._ends[end_row]:
                # By its own type: for another one all ends would be converted.
                row = int(numpy.searchsorted(self._ends, self._ends.dtype.type(last), "right")) - 1


def column(values: Any, what: str) -> Column:
    """As it is, if it is an array."""
    array: Column = numpy.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{what} have {array.ndim} dimensions: 1 can be")
    if array.size and array.dtype.kind not in "iubf":
        raise TypeError(f"{what} are numbers, not {array.dtype}")
    return array


def _chosen(weights: Any, found: Any) -> Any:
    return found if weights is None else None if weights is False else weights


def _of_matrix(matrix: Any, weights: Any) -> Edges:
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"the matrix has {matrix.shape[0]} rows and {matrix.shape[1]} columns: "
                         "as many can be")
    if getattr(matrix, "format", None) in ("csr", "csc"):
        return Compressed(matrix, weights)
    matrix = matrix.tocoo()
    return Columns(matrix.row, matrix.col, _chosen(weights, matrix.data), int(matrix.shape[0]))


def _of_networkx(graph: Any, weights: Any) -> Edges:
    nodes = list(graph)
    number = {node: at for at, node in enumerate(nodes)}
    name = "weight" if weights is None else weights
    if isinstance(name, str):
        found = [weight for _, _, weight in graph.edges(data=name)]
        weights = None if all(weight is None for weight in found) else \
            [1 if weight is None else weight for weight in found]
    num = graph.number_of_edges()
    sources, targets = (numpy.fromiter((number[edge[side]] for edge in graph.edges()), numpy.uint32, num)
                        for side in (0, 1))
    named = any(node != at or isinstance(node, bool) for at, node in enumerate(nodes))
    return Columns(sources, targets, _chosen(weights, None), len(nodes), nodes=nodes if named else None,
                   directed=bool(graph.is_directed()))


def edges_of(edges: Any, weights: Any) -> Edges:
    """weights: None: those that are found; False: none."""
    if isinstance(weights, str) and not hasattr(edges, "is_directed"):
        raise TypeError("weights is a name, which is for the edges of a NetworkX graph: give an array")
    if hasattr(edges, "tocoo"):  # scipy.sparse, which need not be here
        made = _of_matrix(edges, weights)
    elif hasattr(edges, "is_directed") and hasattr(edges, "number_of_edges"):  # nor NetworkX
        made = _of_networkx(edges, weights)
    else:
        made = _of_arrays(edges, weights)
    if made.weights is not None and len(made.weights) != made.num_edges:
        raise ValueError(f"there are {len(made.weights)} weights for {made.num_edges} edges")
    return made


def _of_arrays(edges: Any, weights: Any) -> Edges:
    if isinstance(edges, tuple) and len(edges) == 2 and not numpy.isscalar(edges[0]) and \
            all(numpy.ndim(column) == 1 for column in edges) and \
            any(isinstance(column, numpy.ndarray) for column in edges):
        return Columns(edges[0], edges[1], _chosen(weights, None))
    array = numpy.asarray(edges)
    if array.size == 0:
        return Columns([], [], _chosen(weights, None))
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise ValueError(f"the edges are an array of shape {array.shape}: 2 columns can be, or 3 with "
                         "weights; or a pair of arrays, a scipy.sparse matrix, or a NetworkX graph")
    third = array[:, 2] if array.shape[1] == 3 else None
    return Columns(array[:, 0], array[:, 1], _chosen(weights, third))
