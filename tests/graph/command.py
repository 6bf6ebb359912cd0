"""weft-graph as its tests run it: by what names, and each in a folder of its own."""
import os
import subprocess
import sys
import tempfile
import unittest

GRAPH = WEFTRUN = EXAMPLES = GRAPHS = MORE = None
DEADLINE_S = 120
ADDRESS = 'ASAN_OPTIONS' in os.environ  # under the address sanitizer

# Options of the algorithms, some of which take weights from no file.
OPTIONS = {'bfs': ['--source', '0'], 'sssp': ['--source', '0', '--weights', 'hash'],
           'wcc': [], 'pagerank': []}
# Those that run in one way alone.
ONE_WAY = {'cdlp': ['--iterations', '7'], 'lcc': [], 'triangles': [], 'kcore': [],
           'betweenness': ['--source', '0,1']}
# Of the others, those that differ most.
MODES = ['paper', 'auto']


def fields(text):
    """Numbers of key=value pairs, lists as lists of numbers."""
    found = {}
    for pair in text.split():
        key, equals, value = pair.partition('=')
        if equals:
            found[key] = [float(number) for number in value.replace(':', ',').split(',')]
    return found


def same(expected, got):
    """Whether all expected numbers are there, to one unit in the last of nine digits."""
    expected, got = fields(expected), fields(got)
    return all(key in got and len(got[key]) == len(numbers) and
               all(abs(a - b) <= 1.01e-9 * 10 ** len(str(int(abs(a)))) for a, b in zip(numbers, got[key]))
               for key, numbers in expected.items())


def children_of(root):
    """The processes below another, by their names."""
    parents, names = {}, {}
    for entry in os.listdir('/proc'):
        if not entry.isdigit():
            continue
        try:
            with open(f'/proc/{entry}/stat', encoding='utf-8') as file:
                head, _, tail = file.read().rpartition(')')
        except OSError:
            continue
        names[int(entry)] = head.partition('(')[2]
        parents[int(entry)] = int(tail.split()[1])
    found = []
    for pid, name in names.items():
        above = pid
        while above in parents and above != root:
            above = parents[above]
        if above == root and pid != root:
            found.append((pid, name))
    return found


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weft-graph-')
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, content):
        with open(self.path(name), 'wb') as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def run_it(self, *arguments, ranks=1, env=None, prefix=(), given=None):
        launcher = [WEFTRUN, '-n', str(ranks), '--timeout', str(DEADLINE_S)] if ranks > 1 else []
        return subprocess.run([*prefix, *launcher, GRAPH, *map(str, arguments)], cwd=self.folder.name,
                              text=isinstance(given, (str, type(None))), capture_output=True,
                              timeout=DEADLINE_S + 10, check=False, input=given,
                              env={**os.environ, **(env or {})})

    def good(self, *arguments, **more):
        done = self.run_it(*arguments, **more)
        self.assertEqual(done.returncode, 0, f'{arguments}: {done.stderr}')
        return done.stdout

    def bad(self, reason, *arguments, **more):
        before = sorted(os.listdir(self.folder.name))
        done = self.run_it(*arguments, **more)
        own = [line for line in done.stderr.splitlines() if line.startswith('weft-graph: ')]
        self.assertEqual(done.returncode, 2, f'{arguments}: {done.stderr}')
        self.assertEqual(len(own), 1, done.stderr)
        self.assertIn(reason, own[0])
        self.assertEqual(before, sorted(os.listdir(self.folder.name)))


def main():
    """The arguments are WEFT_GRAPH WEFTRUN [EXAMPLES GRAPHS MORE_GRAPHS] and, without a slash, unittest's."""
    global GRAPH, WEFTRUN, EXAMPLES, GRAPHS, MORE
    paths = [os.path.abspath(word) for word in sys.argv[1:] if '/' in word]
    GRAPH, WEFTRUN, EXAMPLES, GRAPHS, MORE = (paths + [None] * 3)[:5]
    unittest.main(module='__main__', argv=sys.argv[:1] + [word for word in sys.argv[1:] if '/' not in word])
