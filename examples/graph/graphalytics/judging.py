"""Whether an output of weft-graph is right, by the rules of Graphalytics' specification (section 2.3)."""
import math

EPSILON = 1e-4  # of the right value
UNREACHED = 9223372036854775807  # in BFS


def first_difference(algorithm, reference, result):
    """What is wrong with the result, of the first vertex by the reference's order; None if nothing is."""
    value_of = _VALUES.get(algorithm, int)
    found = {}
    with open(result, encoding='utf-8') as file:
        for line in file:
            words = line.split()
            found[int(words[0])] = _given(algorithm, words[1])
    components = _Components()
    num_expected = 0
    with open(reference, encoding='utf-8') as file:
        for line in file:
            words = line.split()
            vertex, right = int(words[0]), value_of(words[1])
            num_expected += 1
            if vertex not in found:
                return f'vertex {vertex}: {right} is right, and the result has none'
            value = found[vertex]
            if algorithm == 'wcc':
                wrong = components.add(vertex, right, value)
                if wrong:
                    return f'vertex {vertex}: {wrong}'
            elif not _is_same(algorithm, right, value):
                return f'vertex {vertex}: {value} where {right} is right'
    if num_expected != len(found):
        return f'{len(found)} vertices where {num_expected} are right'
    return None


class _Components:
    """Components may have any names, but each its own."""

    def __init__(self):
        self._by_right, self._by_value = {}, {}  # the other name, and the first vertex

    def add(self, vertex, right, value):
        """What is wrong, if something is."""
        other, first = self._by_right.setdefault(right, (value, vertex))
        if other != value:
            return f'in component {value} and vertex {first} in {other}, where {right} of both is right'
        other, first = self._by_value.setdefault(value, (right, vertex))
        if other != right:
            return f'in component {value} with vertex {first}, where {right} and {other} are right'
        return None


_VALUES = {'pr': float, 'lcc': float, 'sssp': float}


def _given(algorithm, word):
    if algorithm == 'bfs':
        return UNREACHED if word == '-1' else int(word)
    if algorithm == 'sssp':
        return math.inf if word == '-1' else float(word)
    return _VALUES.get(algorithm, int)(word)


def _is_same(algorithm, right, value):
    if algorithm in ('bfs', 'cdlp') or math.isinf(right):
        return value == right
    return abs(right - value) <= EPSILON * right
