"""Weft's graph engine over numpy arrays, scipy.sparse matrices, NetworkX graphs and files.

    from weft import graph
    g = graph.Graph(edges)                 # an array of two columns; or (sources, targets); or a
    g = graph.Graph(matrix)                # scipy.sparse matrix, whose entries are weights; or a
    g = graph.Graph(networkx_graph)        # networkx.Graph; or
    g = graph.Graph.from_file("g.el.gz")   # any file that weft-graph reads

    graph.single_source_shortest_path_length(g, 0)     # numpy arrays with a value for each vertex
    graph.pagerank(g)
    graph.core_number(g, processes=4)

Functions have NetworkX's names where they compute what NetworkX does; where they differ, they say so.
Vertices are 0 to n - 1, or have names (of a NetworkX graph's nodes, or a file's), by which sources are
then given. Results are arrays in the order of g.nodes; where there is no value, as for vertices that
are not reached, it is -1. dict(zip(g.nodes, result)) is what NetworkX would return.

A Graph of arrays is written to a file, once, from the arrays as they are: block by block, so that
Python needs less than 2 MiB for it, whatever the size. TMPDIR names the folder of the file; it needs
8 bytes an edge, 12 with weights. After that the Graph needs the arrays no more. Each call runs
weft-graph, which reads the file, in a process of its own: processes=4 lets four of them share the
work, under weftrun. The first call leaves rows in TMPDIR, of 8 bytes an edge, which later ones read
faster. A Graph that is used in a with-statement, or closed, leaves nothing there; one that is not
leaves nothing once it is collected.

Calls raise weft.Error; what can never be right raises ValueError or TypeError. Each has a form for
asyncio, with _async behind its name.
"""
from __future__ import annotations

from ._graph import Graph
from ._paths import (betweenness_centrality, betweenness_centrality_async, bfs, bfs_async,
                     bfs_predecessors, bfs_predecessors_async, shortest_path_length,
                     shortest_path_length_async, single_source_dijkstra_path_length,
                     single_source_dijkstra_path_length_async, single_source_shortest_path_length,
                     single_source_shortest_path_length_async)
from ._structure import (average_clustering, average_clustering_async, cdlp, cdlp_async, clustering,
                         clustering_async, connected_components, connected_components_async,
                         core_number, core_number_async, number_connected_components,
                         number_connected_components_async, number_weakly_connected_components,
                         number_weakly_connected_components_async, pagerank, pagerank_async,
                         triangles, triangles_async, weakly_connected_components,
                         weakly_connected_components_async)

__all__ = [
    "Graph", "average_clustering", "average_clustering_async", "betweenness_centrality",
    "betweenness_centrality_async", "bfs", "bfs_async", "bfs_predecessors",
    "bfs_predecessors_async", "cdlp", "cdlp_async", "clustering", "clustering_async",
    "connected_components", "connected_components_async", "core_number", "core_number_async",
    "number_connected_components", "number_connected_components_async",
    "number_weakly_connected_components", "number_weakly_connected_components_async", "pagerank",
    "pagerank_async", "shortest_path_length", "shortest_path_length_async",
    "single_source_dijkstra_path_length", "single_source_dijkstra_path_length_async",
    "single_source_shortest_path_length", "single_source_shortest_path_length_async", "triangles",
    "triangles_async", "weakly_connected_components", "weakly_connected_components_async"]
