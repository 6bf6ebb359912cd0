"""Graph: a graph in a file, and how weft-graph is run on it."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import warnings
import weakref
from types import TracebackType
from typing import Any, Iterable, Sequence, Union

import numpy
from numpy.typing import NDArray

from .._library import command
from ..errors import Error
from ._edges import edges_of

Integers = NDArray[numpy.int64]
_FOR_SSSP = "-sssp"


class Graph:
    """A graph for the functions of this module; edges that are there twice and self-loops stay.

    edges: an array of two columns, or of three with weights; a pair of arrays, sources and targets;
    a scipy.sparse matrix, whose stored entries are edges and their weights; or a NetworkX graph.
    Their values are taken now: later changes of an array do not matter.
    weights: one for each edge, from 0: whole numbers of 32 bits, or where some have fractions floats;
    shortest paths use them. None: those that come with the edges; False: none. For a NetworkX graph: the name of the attribute that they are,
    by itself "weight"; an edge without it weighs 1.
    num_vertices: by itself one more than the largest vertex of an edge.
    directed: False: edges lead both ways. By itself as a NetworkX graph is, True for others.
    cache: False: the first call leaves no rows in TMPDIR, which later calls read faster.

    nodes: the vertices' names in their order: range(num_vertices), or a list.
    has_real_weights: they are floats, and distances are.
    """

    num_vertices: int
    num_edges: int
    directed: bool
    has_real_weights: bool
    nodes: Sequence[Any]
    _words: list[str]
    _weight_words: list[str]

    def __init__(self, edges: Any, weights: Any = None, num_vertices: int | None = None,
                 directed: bool | None = None, cache: bool = True) -> None:
        made = edges_of(edges, weights)
        if directed is None:
            directed = made.directed is not False
        self._start(directed, cache)
        self.num_edges = made.num_edges
        if self.num_edges:
            self._path = self._new_path("edges")
            try:
                with open(self._path, "wb") as file:
                    self._in_file = made.write(file)
            except BaseException:
                self.close()
                raise
            os.link(self._path, self._path + _FOR_SSSP)
        self.has_real_weights = made.has_real_weights
        self._words = ["--format", self._own_format(made.weights is not None)]
        self._weight_words = ["--weights", "none"] if made.weights is None else self._real_words()
        self.num_vertices = max(self._in_file, made.num_vertices)
        if num_vertices is not None:
            if num_vertices < self.num_vertices:
                self.close()
                raise ValueError(f"num_vertices is {num_vertices}, and the edges have "
                                 f"{self.num_vertices} vertices")
            if made.nodes is None:
                self.num_vertices = num_vertices
        self._name(made.nodes)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, directed: bool = True,
                  format: str | None = None, also: Iterable[str | os.PathLike[str]] = (),
                  columns: str | None = None, named: bool = False, weights: bool | str = True,
                  weight_scale: float | None = None, cache: bool = False) -> Graph:
        """The graph of any file that weft-graph reads, or a folder of them. Its options are
        described in docs/use/graph.md:

        format: by itself told by the file's content. also: more files of the same graph.
        columns: of a table, "source,target" or "source,target,weight".
        named: vertices are any words, which nodes then has: a copy of the graph with numbers, of 12
        bytes an edge (8 without weights), is made in TMPDIR.
        weights: False: those of the file are not looked at; "real": they have fractions, and are
        floats. weight_scale: they are multiplied by it and rounded; distances are as many times those
        of the file.
        cache: the first call leaves rows beside the file, in PATH.weft-cache, or named, in TMPDIR;
        later calls read these, which is faster. Shortest paths by weights read a file of directed
        edges itself, as they need other rows.

        Without named the file is read where it is: it must stay as it is. What
        weft-graph says of how it takes the file is a warning. weft.Error: it is not there, or wrong.
        """
        graph = cls.__new__(cls)
        graph._start(directed, cache)
        path = os.path.abspath(path)
        how = [] if columns is None else ["--columns", columns]
        for more in also:
            how += ["--also", os.path.abspath(more)]
        if isinstance(weights, str) and weights != "real":
            raise ValueError(f'weights is {weights!r}: True, False or "real" can be')
        graph.has_real_weights = weights == "real"
        scale = graph._real_words()
        if weight_scale is not None and weights:
            scale += ["--weight-scale", repr(weight_scale)]
        nodes = None
        if named:
            graph._path, names = graph._new_path("edges"), graph._new_path("names")
            graph._words = ["--format", graph._own_format(bool(weights))]
            graph._weight_words = graph._real_words() if weights else ["--weights", "none"]
            told = _run([command("weft-graph"), "convert", path, graph._path, "--names", names,
                         *graph._words, *how, *scale,
                         *([] if format is None else ["--from-format", format])])
            with open(names, "rb") as file:
                nodes = file.read().decode(errors="surrogateescape").split("\n")[:-1]
            os.remove(names)
            os.link(graph._path, graph._path + _FOR_SSSP)
            facts = graph._facts().stdout
        else:
            graph._path = path
            graph._words = how + ([] if format is None else ["--format", format])
            graph._weight_words = scale if weights else ["--weights", "none"]
            told = graph._facts()
            facts = told.stdout
        _say(told.stderr)
        found = json.loads(facts)
        if found.get("named", False):  # and results, which have none, would be of other vertices
            raise ValueError(f"{path}: its vertices have names: give named=True")
        graph.num_edges, graph._in_file = found["edges"], found["vertices"]
        graph.num_vertices = graph._in_file if nodes is None else len(nodes)
        graph._name(nodes)
        return graph

    def _own_format(self, weighted: bool) -> str:
        return "gemini-weighted" if self.has_real_weights else "paper" if weighted else "gemini"

    def _real_words(self) -> list[str]:
        return ["--weights", "real"] if self.has_real_weights else []

    def _facts(self) -> subprocess.CompletedProcess[str]:
        return _run([command("weft-graph"), "info", self._path, "--json", *self._words])

    def _start(self, directed: bool, cache: bool) -> None:
        self.directed, self._cache = directed, cache
        self._path = ""
        #: By which weft-graph reads it, and those of weights, for algorithms that look at them.
        self._words, self._weight_words = [], []
        #: Vertices 0 to this are in the file; those behind have no edges.
        self._in_file = 0
        self._folder: str | None = None
        self._remove: Any = None
        self._is_closed = False
        #: The files beside which rows are. Where they are missing one call writes them while others
        #: wait: processes of one call could otherwise read rows of two.
        self._cached: set[str] = set()
        self._caching = threading.Lock()

    def _name(self, nodes: Sequence[Any] | None) -> None:
        self._number = None if nodes is None else {node: at for at, node in enumerate(nodes)}
        self.nodes = range(self.num_vertices) if nodes is None else nodes

    def __repr__(self) -> str:
        return (f"<weft.graph.Graph of {self.num_vertices} vertices and {self.num_edges} "
                f"{'directed' if self.directed else 'undirected'} edges>")

    def close(self) -> None:
        """Removes what is in TMPDIR; functions raise ValueError from then on."""
        self._is_closed = True
        if self._remove is not None:
            self._remove()
            self._folder = self._remove = None

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _new_path(self, name: str) -> str:
        """In a folder of its own."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="weft-graph-")
            self._remove = weakref.finalize(self, _remove, self._folder, os.getpid())
        return os.path.join(self._folder, name)

    def number_of(self, node: Any, what: str = "the vertex") -> int:
        """The vertex that is called so. ValueError: there is none."""
        if self._number is not None:
            number = self._number.get(node)
            if number is None:
                raise ValueError(f"{what} is {node!r}: the graph has no vertex of this name")
            return number
        if not 0 <= node < self.num_vertices:
            raise ValueError(f"{what} is {node}: the graph has vertices 0 to {self.num_vertices - 1}"
                             if self.num_vertices else f"{what} is {node}: the graph has no vertices")
        return int(node)

    def _cached_path(self, algorithm: str) -> str | None:
        """The file beside which rows for the algorithm are or come; None: none."""
        if not self._cache:
            return None
        # It needs weights and no edges in, and the others the reverse, so that rows of one kind would
        # replace the other's: it has a second name of the file for its own.
        if algorithm == "sssp":
            return None if self._folder is None else self._path + _FOR_SSSP
        return self._path

    def _call(self, algorithm: str, words: Iterable[str], result: Any, processes: int,
            threads: int | None, lines: dict[str, Iterable[int]] | None = None
            ) -> tuple[Any, dict[str, Any]]:
        """The values of weft-graph's binary result, of the numpy type `result` (None: not asked
        for), and what it prints of the run. lines: options with files of numbers."""
        if self._is_closed:
            raise ValueError("the Graph is closed")
        if processes < 1:
            raise ValueError(f"processes is {processes}: 1 or more can be")
        # Calls of several threads have results of their own.
        with tempfile.TemporaryDirectory(prefix="weft-graph-run-", dir=self._folder) as folder:
            out = os.path.join(folder, "result")
            cached = self._cached_path(algorithm)
            line = [command("weft-graph"), algorithm, cached or self._path, *self._words, "--json", *words]
            if cached is not None:
                line.append("--cache")
            if result is not None:
                line += ["--out", out, "--out-format", "binary"]
            if algorithm == "sssp":
                line += self._weight_words
            if not self.directed:
                line.append("--undirected")
            if threads is not None:
                line += ["--threads", str(threads)]
            for option, numbers in (lines or {}).items():
                line += [option, os.path.join(folder, option)]
                with open(line[-1], "w", encoding="ascii") as file:
                    file.writelines(f"{number}\n" for number in numbers)
            if processes > 1:
                line = [command("weftrun"), "-n", str(processes), *line]
            if cached is None or cached in self._cached:
                told = _run(line)
            else:
                with self._caching:
                    told = _run(line)
                self._cached.add(cached)
            run: dict[str, Any] = json.loads(told.stdout)["runs"][0]
            values = None
            if result is not None:
                if result == "id":  # 8 bytes in a build with 64-bit vertices
                    result = f"<u{os.path.getsize(out) // self._in_file}"
                elif result == "depth and id":
                    result = [("depth", "<u4"), ("id", f"<u{os.path.getsize(out) // self._in_file - 4}")]
                values = numpy.fromfile(out, result)
        return values, run


#: What the functions take: a Graph, or what makes one.
GraphLike = Union[Graph, Any]


def graph_of(graph: GraphLike) -> Graph:
    return graph if isinstance(graph, Graph) else Graph(graph, cache=False)  # for one call


def signed(values: Any) -> Integers:
    """None, which is all bits set, is -1."""
    if values.dtype.itemsize == 8:
        same: Integers = values.view(numpy.int64)
        return same
    found: Integers = values.astype(numpy.int64)
    found[values == numpy.iinfo(values.dtype).max] = -1
    return found


def padded(graph: Graph, values: Any, fill: Any) -> Any:
    """With vertices that have no edges and are not in the file."""
    if len(values) == graph.num_vertices:
        return values
    result = numpy.full(graph.num_vertices, fill, values.dtype)
    result[:len(values)] = values
    return result


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # rather than a fork of it, which ends
        shutil.rmtree(folder, ignore_errors=True)


def _run(line: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace")
    if done.returncode:
        text = done.stderr.strip() or f"{line[0]} ended with status {done.returncode}"
        raise Error("bad argument" if done.returncode == 2 else "internal error", text)
    return done


def _say(notes: str) -> None:
    """What weft-graph says of how it reads a file; lines of progress end in a percentage."""
    for note in notes.splitlines():
        if not note.endswith("%"):
            warnings.warn(note, stacklevel=3)
