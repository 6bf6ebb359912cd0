"""Data sets of Graphalytics: NAME.v, NAME.e, NAME.properties, and NAME-BFS and so on, the reference outputs."""
import os

ALGORITHMS = ('bfs', 'cdlp', 'lcc', 'pr', 'sssp', 'wcc')


class Wrong(Exception):
    """What the user gave cannot be used; the text says why."""


class DataSet:
    """A graph with the parameters of its algorithms."""

    def __init__(self, folder, name):
        self.name = name
        self._folder = folder
        self._properties = os.path.join(folder, name + '.properties')
        self._values = _read_properties(self._properties, f'graph.{name}.')
        self.vertices = self._file('vertex-file', name + '.v')
        self.edges = self._file('edge-file', name + '.e')
        directed = self.parameter('directed')
        if directed not in ('true', 'false'):
            raise Wrong(f'{self._properties}: graph.{name}.directed is "{directed}", not true or false')
        self.directed = directed == 'true'
        self.algorithms = [word.strip() for word in self.parameter('algorithms').split(',')]
        for word in self.algorithms:
            if word not in ALGORITHMS:
                raise Wrong(f'{self._properties}: the algorithm "{word}" is none of {", ".join(ALGORITHMS)}')

    def parameter(self, key):
        """The value of graph.NAME.key."""
        if key not in self._values:
            raise Wrong(f'{self._properties}: has no graph.{self.name}.{key}')
        return self._values[key]

    def reference(self, algorithm):
        """The file with the right output, or None."""
        path = os.path.join(self._folder, f'{self.name}-{algorithm.upper()}')
        return path if os.path.exists(path) else None

    def _file(self, key, default):
        path = os.path.join(self._folder, self._values.get(key, default))
        if not os.path.exists(path):
            raise Wrong(f'{path}: there is no such file, which {self._properties} names')
        return path


def find(folder):
    """The data sets of a folder, by name."""
    if not os.path.isdir(folder):
        raise Wrong(f'{folder}: there is no such folder')
    names = sorted(name.removesuffix('.properties') for name in os.listdir(folder)
                   if name.endswith('.properties'))
    if not names:
        raise Wrong(f'{folder}: has no NAME.properties, and so no data set of Graphalytics')
    return [DataSet(folder, name) for name in names]


def _read_properties(path, prefix):
    values = {}
    with open(path, encoding='utf-8') as file:
        for line in file:
            key, equals, value = line.partition('=')
            if equals and key.strip().startswith(prefix):
                values[key.strip().removeprefix(prefix)] = value.strip()
    return values
