"""What weft.graph computes, by the definitions and as simply as can be: for edges (source, target,
weight), of an undirected graph in both directions."""
import heapq


def distances(num, edges, source):
    """Dijkstra's; -1: not reached."""
    found, heap = [-1] * num, [(0, source)]
    out = [[] for _ in range(num)]
    for a, b, weight in edges:
        out[a].append((b, weight))
    while heap:
        distance, vertex = heapq.heappop(heap)
        if found[vertex] < 0:
            found[vertex] = distance
            for to, weight in out[vertex]:
                if found[to] < 0:
                    heapq.heappush(heap, (distance + weight, to))
    return found


def neighbors(num, edges):
    """The other ends of edges out and in, each once."""
    found = [set() for _ in range(num)]
    for a, b, _ in edges:
        if a != b:
            found[a].add(b)
            found[b].add(a)
    return found


def components(num, edges):
    """The smallest vertex of each one's."""
    label, near = [-1] * num, neighbors(num, edges)
    for first in range(num):
        todo = [first] if label[first] < 0 else []
        while todo:
            vertex = todo.pop()
            if label[vertex] < 0:
                label[vertex] = first
                todo += near[vertex]
    return label


def labels(num, edges, iterations, directed):
    """Of communities; edges of an undirected graph are there in one direction. A self-loop leads out
    and in."""
    found = list(range(num))
    for _ in range(iterations):
        counts = [{} for _ in range(num)]
        for a, b, _ in edges:
            for at, other in ((a, b), (b, a)) if a != b or directed else ((a, b),):
                counts[at][found[other]] = counts[at].get(found[other], 0) + 1
        found = [min(count, key=lambda label: (-count[label], label)) if count else found[v]
                 for v, count in enumerate(counts)]
    return found


def triangles(num, edges):
    near = neighbors(num, edges)
    return [sum(len(near[a] & near[b]) for b in near[a]) // 2 for a in range(num)]


def clustering(num, edges):
    near, steps = neighbors(num, edges), {(a, b) for a, b, _ in edges}
    return [sum((a, b) in steps for a in own for b in own if a != b) / max(len(own) * (len(own) - 1), 1)
            for own in near]


def core_numbers(num, edges):
    near, core = neighbors(num, edges), [0] * num
    left, k = set(range(num)), 0
    while left:
        vertex = min(left, key=lambda v: len(near[v] & left))
        k = max(k, len(near[vertex] & left))
        core[vertex] = k
        left.remove(vertex)
    return core


def paths_over(num, edges, sources):
    """For each vertex the sum, over paths from the sources to others, of the share that leads over it."""
    ones = [(a, b, 1) for a, b, _ in edges]
    far = [distances(num, ones, source) for source in range(num)]
    steps = {(a, b) for a, b, _ in edges if a != b}
    paths = [[0] * num for _ in range(num)]
    for s in range(num):
        paths[s][s] = 1
        for t in sorted(range(num), key=lambda v: far[s][v]):
            if far[s][t] > 0:
                paths[s][t] = sum(paths[s][v] for v in range(num) if (v, t) in steps and far[s][v] == far[s][t] - 1)
    over = [0.0] * num
    for s in sources:
        for t in range(num):
            for v in range(num):
                if far[s][t] >= 0 and v not in (s, t) and far[s][v] >= 0 and far[v][t] >= 0 and \
                        far[s][v] + far[v][t] == far[s][t]:
                    over[v] += paths[s][v] * paths[v][t] / paths[s][t]
    return over
