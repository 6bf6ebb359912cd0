#!/usr/bin/env python3
"""weft-graph as a user runs it: known results on real graphs, and what it says to bad input.

  cli_test.py WEFT_GRAPH WEFTRUN EXAMPLES GRAPHS MORE_GRAPHS

EXAMPLES has the programs of examples/graph; GRAPHS has soc-Epinions1.el.gz; MORE_GRAPHS may have others, with expected.tsv. Whatever is wrong with
the input, the exit status is 2, one process says so in one line, and nothing is written.
"""
import contextlib
import gzip
import json
import lzma
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

GRAPH = WEFTRUN = EXAMPLES = GRAPHS = MORE = None
DEADLINE_S = 120
ADDRESS = 'ASAN_OPTIONS' in os.environ  # under the address sanitizer

EPINIONS = {
    'bfs': 'reached=47676 sum_dist=170249 max_depth=9 reached_arcs=467468',
    'sssp': 'reached=47676 sum_dist=7459720 max_dist=919 at=71365',
    'wcc': 'components=11 largest=75877 singletons=9 sum_min_labels=432153',
    'pagerank': 'sum=54509.8871 top10=18:247.315655,737:171.960297,118:115.792262,1719:113.343195,'
                '136:108.384705,790:107.347719,143:106.729049,40:99.6538761,1619:83.8138089,'
                '725:81.6953728',
}
OPTIONS = {'bfs': ['--source', '0'], 'sssp': ['--source', '0', '--weights', 'hash'],
           'wcc': [], 'pagerank': []}
# Those that run in one way alone.
ONE_WAY = {'cdlp': ['--iterations', '7'], 'lcc': [], 'triangles': [], 'kcore': [],
           'betweenness': ['--source', '0,1']}
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


class Cli(unittest.TestCase):
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

    def check_graph(self, path, expected, ranks, threads, modes, env=None):
        for algorithm, right in expected.items():
            for mode in modes:
                with self.subTest(path=path, algorithm=algorithm, ranks=ranks, threads=threads,
                                  mode=mode):
                    out = self.good(algorithm, path, *OPTIONS[algorithm], '--threads', threads,
                                    '--mode', mode, ranks=ranks, env=env)
                    self.assertTrue(same(right, out), f'expected {right}\ngot {out}')

    def test_known_results(self):
        path = os.path.join(GRAPHS, 'soc-Epinions1.el.gz')
        ways = ((1, 1), (1, 4), (2, 2), (3, 1), (4, 3), (8, 1))
        if ADDRESS:  # each takes a minute there
            ways = ((1, 4), (3, 1))
        for ranks, threads in ways:
            self.check_graph(path, EPINIONS, ranks, threads, MODES)

    def test_known_results_over_ofi(self):
        self.check_graph(os.path.join(GRAPHS, 'soc-Epinions1.el.gz'), EPINIONS, 3, 2, MODES,
                         env={'WEFT_FABRIC': 'ofi', 'WEFT_OFI_INTERFACE': 'lo'})

    @unittest.skipIf(ADDRESS, 'no other memory than by the known results')
    def test_more_known_results(self):
        table = os.path.join(MORE, 'expected.tsv')
        if not os.path.exists(table):
            self.skipTest(f'no {table}')
        names = {'bfs': 'bfs', 'sssp': 'sssp', 'cc': 'wcc', 'pr20': 'pagerank'}
        expected = {}
        with open(table, encoding='utf-8') as file:
            for line in file:
                graph, algorithm, values = line.rstrip('\n').split('\t')
                if algorithm in names:
                    values = ' '.join(v for v in values.split() if not v.startswith('bellman'))
                    expected.setdefault(graph, {})[names[algorithm]] = values
        for graph, results in expected.items():
            if os.path.exists(os.path.join(GRAPHS, graph + '.el.gz')):
                continue  # one of the known results
            for ranks, threads in ((1, 2), (2, 1), (4, 2)):
                self.check_graph(os.path.join(MORE, graph + '.el.gz'), results, ranks, threads, MODES)

    def test_results_are_verified(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '12')
        for algorithm, options in {**ONE_WAY, **OPTIONS, 'sssp': ['--source', '0']}.items():
            for form in ('text', 'binary'):
                for ranks in (1, 3):
                    self.good(algorithm, 'g.bin', *options, '--out', 'r', '--out-format', form,
                              ranks=ranks)
                    self.assertIn('right for all ',
                                  self.good('verify', algorithm, 'g.bin', 'r', *options,
                                            '--out-format', form))
        # What is wrong is found.
        with open(self.path('r'), 'r+b') as file:
            file.seek(8 * 100)
            file.write(struct.pack('d', 1.0))
        self.bad('vertex 100', 'verify', 'pagerank', 'g.bin', 'r', '--out-format', 'binary')
        self.good('bfs', 'g.bin', '--source', '0', '--out', 'r')
        with open(self.path('r'), encoding='utf-8') as file:
            lines = file.read().splitlines()
        self.write('short', '\n'.join(lines[:50]) + '\n')
        for at, line in enumerate(lines):
            vertex, depth, parent = line.split()
            if depth == '2':
                lines[at] = f'{vertex} 2 {vertex}'
                break
        self.write('wrong', '\n'.join(lines) + '\n')
        self.bad('its parent is not', 'verify', 'bfs', 'g.bin', 'wrong', '--source', '0')
        self.bad('vertex 50', 'verify', 'bfs', 'g.bin', 'short', '--source', '0')

    def test_algorithms_with_one_way(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '8', '--permute')
        for algorithm, options in (*ONE_WAY.items(), ('betweenness', ['--source', '3,9', '--unscaled'])):
            for more in ([], ['--undirected']):
                results = set()
                for ranks, threads in ((1, 1), (1, 2), (2, 1), (3, 2)):
                    with self.subTest(algorithm=algorithm, more=more, ranks=ranks, threads=threads):
                        summary = self.good(algorithm, 'g.bin', *options, *more, '--threads', threads, '--out', 'r',
                                            ranks=ranks)
                        with open(self.path('r'), encoding='utf-8') as file:
                            lines = file.read()
                        if algorithm != 'betweenness':  # whose last bits depend on the order of sums
                            results.add((summary.partition(' seconds=')[0], lines))
                        self.good('verify', algorithm, 'g.bin', 'r', *options, *more)
                self.assertLessEqual(len(results), 1, algorithm)
                # One other value is found, whose ever it is.
                vertex, _, value = lines.splitlines()[77].partition(' ')
                self.assertEqual(vertex, '77')
                self.write('wrong', lines.replace(f'\n77 {value}\n', f'\n77 {int(float(value)) + 1}\n'))
                self.bad('vertex 77: ', 'verify', algorithm, 'g.bin', 'wrong', *options, *more)
            self.bad('--mode', algorithm, 'g.bin', *options, '--mode', 'push', ranks=2)

    def test_ranks_that_sum_to_one(self):
        """By a power iteration written down from the definition."""
        self.good('generate', 'rmat', 'g.bin', '--scale', '7', '--permute')
        self.good('convert', 'g.bin', 'g.el')
        with open(self.path('g.el'), encoding='utf-8') as file:
            edges = [tuple(map(int, line.split())) for line in file if line[0] != '#']
        number = 1 + max(map(max, edges))
        degree = [0] * number
        for source, _ in edges:
            degree[source] += 1
        self.assertIn(0, degree)
        for sources, damping in (([], .85), ([], .5), ([7], .85), ([7, 3, 7, 100], .6), ([], 0), ([0], 1)):
            unit = [(sources.count(v) / len(sources) if sources else 1 / number) for v in range(number)]
            ranks = unit
            for _ in range(12):
                dangling = sum(rank for rank, out in zip(ranks, degree) if out == 0)
                given = [0.] * number
                for source, destination in edges:
                    given[destination] += ranks[source] / degree[source]
                ranks = [(1 - damping + damping * dangling) * mine + damping * got for mine, got in zip(unit, given)]
            options = ['--source', ','.join(map(str, sources))] if sources else ['--normalized']
            options += ['--iterations', '12']
            other = [*options, '--damping', '0.7']
            options += ['--damping', damping]
            for mode in ('auto', 'push', 'paper'):
                for processes, threads in ((1, 1), (2, 2), (3, 1)):
                    with self.subTest(sources=sources, damping=damping, mode=mode, processes=processes):
                        said = self.good('pagerank', 'g.bin', *options, '--mode', mode, '--threads', threads, '--out',
                                         'r', ranks=processes)
                        self.assertAlmostEqual(fields(said)['sum'][0], 1, delta=1e-8)
                        with open(self.path('r'), encoding='utf-8') as file:
                            for line in file:
                                vertex, rank = line.split()
                                self.assertAlmostEqual(float(rank), ranks[int(vertex)], delta=1e-12)
                        self.good('verify', 'pagerank', 'g.bin', 'r', *options)
            self.bad(' where it is ', 'verify', 'pagerank', 'g.bin', 'r', *other)
            self.bad(' where it is ', 'verify', 'pagerank', 'g.bin', 'r', '--iterations', '12')
            # The last state stays, as the result cannot be written over a folder.
            self.run_it('pagerank', 'g.bin', *options, '--checkpoint', 'c', '--checkpoint-every', '0', '--out', '.')
            self.bad('is of the run "pagerank', 'pagerank', 'g.bin', '--iterations', '12', '--checkpoint', 'c', ranks=2)
            self.bad('is of the run "pagerank', 'pagerank', 'g.bin', *other, '--checkpoint', 'c')
            resumed = self.good('pagerank', 'g.bin', *options, '--checkpoint', 'c', ranks=2)
            self.assertTrue(same(said.partition(' steps=')[0], resumed), f'{said}{resumed}')
        self.bad('source 128 does not exist', 'pagerank', 'g.bin', '--source', '128', ranks=2)
        for damping in ('1.1', '-1', 'nan'):
            self.bad('--damping', 'pagerank', 'g.bin', '--damping', damping)

    def test_formats_carry_the_same_graph(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '10', '--permute')
        right = self.good('sssp', 'g.bin', '--source', '1').rsplit('steps', 1)[0]
        for name in ('g.wel', 'g.wgemini', 'g.mtx', 'g.gr', 'h.bin'):
            self.good('convert', 'g.bin', name)
            self.assertEqual(right, self.good('sssp', name, '--source', '1', ranks=2)
                             .rsplit('steps', 1)[0], name)
        self.good('convert', 'g.bin', 'g.gemini')
        self.good('convert', 'g.gemini', 'g.el')
        with open(self.path('g.wel'), 'rb') as file:
            self.write('g.wel.gz', gzip.compress(file.read()))
        with open(self.path('g.mtx'), 'rb') as file:
            self.write('g.mtx.gz', gzip.compress(file.read()))
        self.assertEqual(right, self.good('sssp', 'g.wel.gz', '--source', '1', ranks=3)
                         .rsplit('steps', 1)[0])
        self.assertEqual(right, self.good('sssp', 'g.mtx.gz', '--source', '1', ranks=3)
                         .rsplit('steps', 1)[0])
        self.assertEqual(self.good('bfs', 'g.el', '--source', '1').rsplit('steps', 1)[0],
                         self.good('bfs', 'g.gemini', '--source', '1').rsplit('steps', 1)[0])
        self.write('large.wel', '0 1 16777217\n1 0 16777216\n')
        self.bad('the weight 16777217', 'convert', 'large.wel', 'large.wgemini')
        # The last vertices of a matrix may have no edges.
        self.write('wide.mtx', '%%MatrixMarket matrix coordinate pattern symmetric\n5 5 2\n2 1\n2 2\n')
        self.assertIn('components=4 ', self.good('wcc', 'wide.mtx', ranks=2))
        self.good('convert', 'wide.mtx', 'copy.mtx')
        self.assertIn('components=4 ', self.good('wcc', 'copy.mtx'))
        self.good('convert', 'g.bin', 'hashed.bin', '--weights', 'hash')
        self.assertEqual(right, self.good('sssp', 'hashed.bin', '--source', '1').rsplit('steps', 1)[0])

    def test_ways_of_working_find_the_same(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '10')
        for algorithm, result in (('sssp', r'reached.*at=\d+'), ('pagerank', r'sum=.*(?= steps=)')):
            words = [algorithm, 'g.bin', '--mode', 'paper']
            words += ['--source', '0'] if algorithm == 'sssp' else []
            right = re.search(result, self.good(*words))[0]
            for ways in (['--schedule', 'steal'], ['--schedule', 'fixed'], ['--grain', '1'],
                         ['--combine', 'edge'], ['--pairing', 'thread', '--block', '1'],
                         ['--block', '4096'], ['--shares', '5,1'], ['--alpha', '3'],
                         ['--migrate', '--migrate-threshold', '0', '--migrate-cache', '100'],
                         ['--equal-cut', '--no-bind']):
                with self.subTest(algorithm=algorithm, ways=ways):
                    out = self.good(*words, *ways, '--threads', '2', ranks=2)
                    self.assertTrue(same(right, out), f'expected {right}\ngot {out}')
        self.bad('one number above 0 for each of the 2', 'wcc', 'g.bin', '--shares', '1', ranks=2)
        self.bad('one number above 0 for each of the 2', 'wcc', 'g.bin', '--shares', '1,0', ranks=2)

    def test_examples(self):
        path = os.path.join(GRAPHS, 'soc-Epinions1.el.gz')
        for program, arguments, right in (
                ('graph_sssp', ['0'], 'sum of distances 170249\n'),
                ('graph_pagerank', [], 'sum of ranks 54509.9\n'),
                ('graph_pagerank_delta', [], 'sum of ranks 54388.0\n'),
                ('graph_k_core', [], 'largest core number 91, of 422 vertices; sum of core numbers 522580\n')):
            found = set()
            for ranks in (1, 3):
                done = subprocess.run([WEFTRUN, '-n', str(ranks), '--timeout', str(DEADLINE_S),
                                       os.path.join(EXAMPLES, program), path, *arguments], text=True,
                                      capture_output=True, timeout=DEADLINE_S + 10, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                # How many steps PageRank-Delta takes may depend on last bits.
                found.add(done.stdout.splitlines(keepends=True)[0])
            self.assertEqual(len(found), 1)
            self.assertIn(right, found.pop())
            for words in ([], ['absent.el', *arguments]):
                done = subprocess.run([WEFTRUN, '-n', '3', '--timeout', str(DEADLINE_S),
                                       os.path.join(EXAMPLES, program), *words], text=True,
                                      capture_output=True, timeout=DEADLINE_S + 10, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr.count(program + ': '), 1, done.stderr)

    def test_checkpoints(self):
        self.good('generate', 'grid', 'grid.bin', '--width', '40', '--height', '5')
        self.good('generate', 'rmat', 'rmat.bin', '--scale', '10')
        for folder in ('taken', 'taken.3'):
            os.mkdir(self.path(folder))
        for algorithm, graph, options, modes in (
                ('bfs', 'grid.bin', ['--source', '3'], MODES),
                ('bfs', 'grid.bin', ['--source', '3,5,4'], ['push', 'auto']),
                ('sssp', 'grid.bin', ['--source', '3'], MODES),
                ('sssp', 'grid.bin', ['--source', '3,5,4'], MODES),
                ('pagerank', 'rmat.bin', [], MODES),
                ('wcc', 'grid.bin', ['--undirected'], ['paper']),
                ('cdlp', 'rmat.bin', ['--iterations', '7'], [None]),
                ('lcc', 'rmat.bin', [], [None]),
                ('kcore', 'rmat.bin', [], [None]),
                ('betweenness', 'rmat.bin', ['--source', '3,5,4'], [None])):
            right = self.good(algorithm, graph, *options)
            for first_mode in modes:
                for mode, ranks in zip(modes * 2, (1, 3)):
                    with self.subTest(algorithm=algorithm, options=options, first_mode=first_mode, mode=mode):
                        words = [] if first_mode is None else ['--mode', first_mode]
                        # The last state stays, as the result cannot be written over a folder.
                        done = self.run_it(algorithm, graph, *options, *words, '--checkpoint', 'c', '--out', 'taken',
                                           '--checkpoint-every', '0', ranks=2)
                        self.assertEqual(done.returncode, 2)
                        words = [] if mode is None else ['--mode', mode]
                        done = self.run_it(algorithm, graph, *options, *words, '--checkpoint', 'c', ranks=ranks)
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertEqual(done.stderr.count('weft-graph: goes on from c of '), 1)
                        for one, other in zip(right.splitlines(), done.stdout.splitlines(), strict=True):
                            one = one.partition(' steps=')[0]
                            self.assertTrue(same(one, other), f'expected {one}\ngot {other}')
                        self.assertFalse(os.path.exists(self.path('c')))
        os.mkfifo(self.path('pipe'))
        self.bad('not a checkpoint', 'pagerank', 'rmat.bin', '--checkpoint', 'pipe', ranks=3)
        self.bad('not a checkpoint', 'pagerank', 'rmat.bin', '--checkpoint', 'grid.bin', ranks=3)
        self.bad('leave out --repeat', 'pagerank', 'rmat.bin', '--checkpoint', 'c', '--repeat', '2')

    def test_cache(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '10')
        cache = 'g.bin.weft-cache'
        for algorithm, options in {**OPTIONS, 'sssp': ['--source', '0']}.items():
            for more in ([], ['--undirected']):
                right = self.good(algorithm, 'g.bin', *options, *more, ranks=2).partition(' steps=')[0]
                for ranks in (2, 3):
                    out = self.good(algorithm, 'g.bin', *options, *more, '--cache', ranks=ranks)
                    self.assertTrue(same(right, out), f'expected {right}\ngot {out}')
        self.good('sssp', 'g.bin', '--source', '0', '--cache')
        with open(self.path(cache), 'rb') as file:
            whole = file.read()
        # What is of another file, or not whole, is made again.
        self.assertTrue(same(self.good('sssp', 'g.bin', '--source', '0').partition(' steps=')[0],
                             self.good('sssp', 'g.bin', '--source', '0', '--cache')))
        self.write(cache, whole[:-4])
        self.good('sssp', 'g.bin', '--source', '0', '--cache', ranks=2)
        with open(self.path(cache), 'rb') as file:
            self.assertEqual(len(file.read()), len(whole))
        # What was read in another format is another graph.
        with open(self.path('g.bin'), 'rb') as file:
            self.write('h.bin', file.read(24000))
        for form, edges in (('paper', 2000), ('gemini', 3000), ('paper', 2000)):
            info = json.loads(self.good('info', 'h.bin', '--format', form, '--cache', '--json'))
            self.assertEqual(info['edges'], edges)
        self.good('generate', 'rmat', 'g.bin', '--scale', '9')
        right = self.good('wcc', 'g.bin', ranks=2).partition(' steps=')[0]
        self.assertTrue(same(right, self.good('wcc', 'g.bin', '--cache', ranks=2)))
        # What is inside is checked: its sums, and where these are right, what it says.
        with open(self.path(cache), 'rb') as file:
            whole = file.read()
        block = 1 << 18
        sums_at = len(whole) - 4 * -(-(len(whole) - 64) // (block + 4))

        def changed(at, word, sealed):
            body = whole[64:at] + struct.pack('<I', word) + whole[at + 4:sums_at]
            sums = b''.join(struct.pack('<I', zlib.crc32(body[i:i + block]))
                            for i in range(0, len(body), block))
            self.write(cache, whole[:64] + body + (sums if sealed else whole[sums_at:]))

        vertices = 64 + 4 * 512
        changed(64, struct.unpack_from('<I', whole, 64)[0], True)
        self.assertTrue(same(right, self.good('wcc', 'g.bin', '--cache', ranks=2)))
        for at in (64, vertices, sums_at - 4):
            changed(at, 3, False)
            self.bad('damaged behind byte 64', 'wcc', 'g.bin', '--cache', ranks=2)
        changed(64, 1 << 30, True)
        self.bad('do not add up', 'wcc', 'g.bin', '--cache', ranks=2)
        changed(vertices, 600, True)
        self.bad('names a vertex', 'wcc', 'g.bin', '--cache', ranks=2)

    def test_edges_that_stay_in_a_file(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '11')
        self.good('convert', 'g.bin', 'g.el')
        with open(self.path('g.el'), 'rb') as file:
            self.write('z.el.gz', gzip.compress(file.read()))
        cache = 'g.bin.weft-cache'
        algorithms = {**OPTIONS, **ONE_WAY, 'sssp': ['--source', '0', '--weights', 'none']}
        for algorithm, options in algorithms.items():
            for more in ([], ['--undirected'], ['--mode', 'paper']):
                if '--mode' in more and algorithm in ONE_WAY:
                    continue
                right = self.good(algorithm, 'g.bin', *options, *more).partition(' steps=')[0]
                for ranks, threads in ((1, 2), (3, 1)):
                    with self.subTest(algorithm=algorithm, more=more, ranks=ranks):
                        if os.path.exists(self.path(cache)):
                            os.remove(self.path(cache))
                        for _ in range(2):  # the file is made, and used again
                            out = self.good(algorithm, 'g.bin', *options, *more, '--stream', '--threads',
                                            threads, ranks=ranks)
                            self.assertTrue(same(right, out), f'expected {right}\ngot {out}')
        # Any file that weft-graph reads can be streamed, and the cache is the one of --cache.
        right = self.good('wcc', 'g.bin').partition(' steps=')[0]
        for name in ('g.el', 'z.el.gz'):
            self.assertTrue(same(right, self.good('wcc', name, '--stream', ranks=2)))
        done = self.run_it('wcc', 'g.bin', '--stream')
        self.assertIn('is written first', done.stderr)
        self.assertIn('of memory, of ', done.stderr)
        os.utime(self.path('g.bin'))
        self.good('wcc', 'g.bin', '--cache')
        done = self.run_it('wcc', 'g.bin', '--stream')
        self.assertTrue(same(right, done.stdout))
        self.assertNotIn('is written first', done.stderr)
        # What the cache says is checked before it is used.
        with open(self.path(cache), 'r+b') as file:
            file.seek(64 + 4 * 2048)
            file.write(struct.pack('<I', 1 << 20))
        done = self.run_it('wcc', 'g.bin', '--stream', ranks=2)
        self.assertEqual(done.returncode, 2)
        self.assertIn('damaged behind byte 64', done.stderr)
        self.bad('--weights none', 'sssp', 'g.bin', '--source', '0', '--stream')
        self.bad('--stream has no effect here', 'bfs', 'g.bin', '--source', '0', '--stream', '--mode',
                 'paper', '--migrate', ranks=2)

    def test_a_process_does_not_hold_the_edges_as_they_were_read(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '18')
        small = json.loads(self.good('bfs', self.write('s.el', '0 1\n'), '--source', '0', '--json'))
        large = json.loads(self.good('bfs', 'g.bin', '--source', '0', '--json'))
        taken = large['peak_resident_bytes'] - small['peak_resident_bytes']
        # 4 bytes an edge, out and in, and some 40 a vertex; as they were read edges have 8 bytes more.
        self.assertLess(taken, 1.25 * (8 * large['edges'] + 40 * large['vertices']))

    def test_info(self):
        self.write('g.el', '0 1\n0 1\n2 2\n2 0\n')
        info = json.loads(self.good('info', 'g.el', '--json', ranks=2))
        self.assertEqual((info['vertices'], info['edges'], info['self_loops'], info['duplicate_edges'],
                          info['vertices_without_edges_out'], info['largest_out_degree']),
                         (3, 4, 1, 1, 1, 2))

    def test_the_cut_is_by_edges_but_for_the_papers_programs_in_which_vertices_cost_time(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '12')

        def cut(*words):
            return json.loads(self.good(*words, '--json', ranks=2))['cut']
        edges, paper = cut('info', 'g.bin'), cut('info', 'g.bin', '--alpha', '16')
        self.assertNotEqual(edges, paper)
        self.assertEqual(paper, cut('info', 'g.bin', '--alpha', '0'))
        for mode in ('auto', 'push', 'paper'):
            self.assertEqual(edges, cut('pagerank', 'g.bin', '--mode', mode))
            self.assertEqual(paper, cut('pagerank', 'g.bin', '--mode', mode, '--alpha', '16'))
            self.assertEqual(paper if mode == 'paper' else edges,
                             cut('bfs', 'g.bin', '--mode', mode, '--source', '0'))
        self.assertEqual(cut('info', 'g.bin', '--undirected'), cut('wcc', 'g.bin', '--mode', 'paper'))

    def test_the_edges_of_skewed_graphs_are_shared_out_evenly(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '14')
        for ranks in (2, 3):
            info = json.loads(self.good('info', 'g.bin', '--json', ranks=ranks))
            self.assertLess(max(info['edges_of_processes']) / min(info['edges_of_processes']), 1.1)

    def test_several_sources(self):
        self.write('g.el', '0 1\n1 2\n2 0\n')
        self.write('sources', '0 # first\n2\n')
        runs = json.loads(self.good('bfs', 'g.el', '--source', '1', '--sources', 'sources', '--json',
                                    '--out', 'r'))['runs']
        self.assertEqual([run['source'] for run in runs], [1, 0, 2])
        self.assertEqual([run['sum_dist'] for run in runs], [3, 3, 3])
        for source in '012':
            self.good('verify', 'bfs', 'g.el', 'r.' + source, '--source', source)

    def test_bad_input(self):
        self.write('g.el', '0 1\n1 2\n')
        self.write('cut.bin', b'\0' * 25)
        self.write('junk.el', '0 1\n' * 16 + 'junk\n' + '0 1\n' * 16)
        self.write('large.el', '0 4294967296\n')
        self.write('large.bin', struct.pack('<6I', 0, 1, 1, 2, 4294967295, 1))
        self.write('negative.wel', '0 1 5\n1 2 -7\n')
        self.write('negative.wgemini', struct.pack('<2If2If', 0, 1, 5, 1, 2, -7))
        self.write('empty.bin', b'')
        self.write('comment.el', '# nothing\n')
        self.write('not.el.gz', 'not gzipped? it is read as it is\n')
        self.write('sources', '0\nx\n')
        self.write('short.mtx', '%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n')
        self.write('half.mtx', '%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n')
        self.write('long', 'x' * 100000)
        os.mkfifo(self.path('pipe'))
        os.mkdir(self.path('folder'))
        self.write('broken.el.gz', gzip.compress(b'0 1\n' * 10000)[:-20])
        self.write('broken.el.xz', lzma.compress(b'0 1\n' * 10000)[:-20])
        self.write('behind.el.gz', gzip.compress(b'0 1\n') + b'more')
        self.write('cut.gemini.gz', gzip.compress(b'\0' * 65537))
        for ranks in (1, 3):
            self.bad('truncated', 'wcc', 'cut.bin', ranks=ranks)
            self.bad('junk.el:17:', 'wcc', 'junk.el', ranks=ranks)
            self.bad('large.el:1: vertex id does not fit in 32 bits', 'wcc', 'large.el', ranks=ranks)
            self.bad('large.bin: the edge at byte 12 has vertex 4294967295', 'wcc', 'large.bin',
                     ranks=ranks)
            self.bad('negative.wgemini: the edge at byte 12', 'sssp', 'negative.wgemini',
                     '--source', '0', ranks=ranks)
            self.bad('negative.wel:2: negative weight', 'sssp', 'negative.wel', '--source', '0',
                     ranks=ranks)
            self.bad('holds no edges', 'wcc', 'empty.bin', ranks=ranks)
            self.bad('holds no edges', 'wcc', 'comment.el', ranks=ranks)
            self.bad('No such file', 'wcc', 'absent.bin', ranks=ranks)
            self.bad('source 3 does not exist', 'bfs', 'g.el', '--source', '3', ranks=ranks)
            self.bad('sources:2:', 'bfs', 'g.el', '--sources', 'sources', ranks=ranks)
            self.bad('--source', 'bfs', 'g.el', ranks=ranks)
            self.bad('not.el.gz:1: expected two vertex ids', 'wcc', 'not.el.gz', ranks=ranks)
            self.bad('cannot inflate', 'wcc', 'broken.el.gz', ranks=ranks)
            self.bad('cannot inflate', 'wcc', 'broken.el.xz', ranks=ranks)
            self.bad('cannot inflate', 'wcc', 'behind.el.gz', ranks=ranks)
            self.bad('truncated: it ends within the edge at byte 65536', 'wcc', 'cut.gemini.gz',
                     ranks=ranks)
            self.bad('its header promises 2', 'wcc', 'short.mtx', ranks=ranks)
            self.bad('its header promises 2', 'wcc', 'half.mtx', ranks=ranks)
            self.bad('--grain', 'wcc', 'g.el', '--grain', 'x', ranks=ranks)
            self.bad('not a file', 'wcc', 'pipe', ranks=ranks)
            self.bad('found "' + 'x' * 40 + '"', 'bfs', 'g.el', '--sources', 'long', ranks=ranks)
            self.bad('cannot read it', 'bfs', 'g.el', '--sources', 'folder', ranks=ranks)
            for number in ('nan', '-1', 'x', 'inf'):
                self.bad(f'expected a number from 0, found "{number}"', 'pagerank', 'g.el',
                         '--tolerance', number, ranks=ranks)
            self.bad('found "nan"', 'wcc', 'g.el', '--alpha', 'nan', ranks=ranks)
            self.bad('--iterations', 'pagerank', 'g.el', '--iterations', '0', ranks=ranks)
            for vertex in ('-1', '1.5', '99999999999999999999'):
                self.bad(f'found "{vertex}"', 'bfs', 'g.el', '--source', vertex, ranks=ranks)
        self.bad('for one process', 'convert', 'g.el', 'g.bin', ranks=2)
        for name in ('short.mtx', 'half.mtx'):
            self.bad('its header promises 2', 'convert', name, 'new.bin')
        # Said before the graph is read, which is not there.
        for words in (['--out', 'absent/result'], ['--checkpoint', 'absent/state']):
            self.bad(f'{words[1]}: cannot create it: No such file', 'cdlp', 'absent.el', *words, ranks=2)
        # Negative weights do not matter where none is asked for.
        self.good('bfs', 'negative.wel', '--source', '0')

    def sssp(self, name, *more, **ways):
        """How far the farthest vertex is, of 0 to 2 by edges that weigh 5 and 7."""
        self.assertIn(' max_dist=12 at=2 ', self.good('sssp', name, '--source', '0', *more, **ways))

    def test_files_as_other_programs_write_them(self):
        mtx = '%%MatrixMarket matrix coordinate integer general\n'
        for name, text in (
                ('plain.wel', '0 1 5\n1 2 7\n'), ('end.wel', '0 1 5\n1 2 7'),
                ('dos.wel', '0 1 5\r\n1 2 7\r\n'), ('spaces.wel', '\n 0\t1  5 \n\n1 2 7\t\n \n'),
                ('mark.wel', '\ufeff0 1 5\n1 2 7\n'), ('float.wel', '0 1 5.0\n1 2 7e0\n'),
                ('comma.csv', '0,1,5\n1,2,7\n'), ('blank.csv', '0, 1, 5\r\n1, 2, 7\r\n'),
                ('named.csv', 'source,target,weight\n0,1,5\n1,2,7\n'),
                ('marked.csv', '\ufeff"from","to","cost"\r\n0,1,5\r\n1,2,7'),
                ('named.tsv', '# c\nu\tv\tw\n0\t1\t5\n1\t2\t7\n'),
                ('snap.txt', '# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\t5\n1\t2\t7\n'),
                ('konect.txt', '% asym weighted\n% 2 3 3\n0 1 5 100\n1 2 7 100 \n'),
                ('third.el', '0 1 5\n1 2 7\n'),
                ('capitals.mtx', mtx.upper() + '% c\n3 3 2\n1 2 5\n2 3 7\n'),
                ('one.mtx', mtx[1:] + '3 3 2\n1 2 5\n2 3 7\n'),
                ('mark.mtx', '\ufeff' + mtx + '\n3 3 2\n1 2 5\n2 3 7\n'),
                ('index.csv', ',source,target,weight\n0,0,1,5\n1,1,2,7\n'),
                ('turned.csv', '# c\r\nWeight;To;From\r\n5;1;0\r\n7;2;1\r\n'),
                ('quoted.csv', '"source","target","cost"\n"0","1","5"\n"1" , "2" ,"7.0"\n'),
                ('bars.txt', '0|1|5\n1|2|7\n'), ('tabs.tsv', 'name\tfrom\tto\tw\n a b\t0\t1\t5\n\t1\t2\t7'),
                ('neo.csv', ':START_ID,:END_ID,:TYPE,weight\n0,1,KNOWS,5\n1,2,"KNOWS, well",7\n'),
                ('sized.graph', '% c\n3 2 111 2\n9 8 8 2 5\n1 1 1 1 5 3 7\n1 1 1 2 7\n'),
                ('weighted.graph', '3 2 1\n2 5\n1 5 3 7\n2 7\n'),
                ('mac.wel', '0 1 5\r1 2 7'),
                ('road.gr', 'c road\np sp 3 2\nc\na 1 2 5\na 2 3 7\n')):
            self.write(name, text)
            self.write(name + '.gz', gzip.compress(text.encode()[:9]) + gzip.compress(text.encode()[9:]))
            self.write(name + '.xz', lzma.compress(text.encode()))
            with self.subTest(name=name):
                self.sssp(name)
                self.sssp(name, ranks=2)
                self.sssp(name + '.gz', ranks=2)
                self.sssp(name + '.xz', ranks=2)
                self.good('convert', name, 'copy.bin')
                self.sssp('copy.bin')
        # Weights in a third column are named, as they may be something else.
        for words in ('sssp', 'third.el', '--source', '0'), ('convert', 'third.el', 'new.wel'):
            self.assertIn('third.el: the third column is taken for the weights',
                          self.run_it(*words).stderr)
        self.assertIn(' max_dist=2 ', self.good('sssp', 'third.el', '--source', '0', '--weights',
                                                'none'))
        self.assertEqual(self.run_it('bfs', 'third.el', '--source', '0').stderr, '')
        self.sssp('konect.txt', '--format', 'wel')
        complex_ = '%%MatrixMarket matrix coordinate complex hermitian\n3 3 2\n2 1 5 1\n3 2 7 2\n'
        self.write('complex.mtx', complex_)
        self.assertIn('components=1 ', self.good('wcc', 'complex.mtx'))
        self.assertIn(' max_dist=2 ', self.good('sssp', 'complex.mtx', '--source', '0', '--weights',
                                                'none'))

    @unittest.skipUnless(shutil.which('zstd'), 'no zstd to compress with')
    def test_files_compressed_by_zstd(self):
        self.good('generate', 'rmat', 'g.el', '--scale', '12')
        right = self.good('wcc', 'g.el').rsplit('steps', 1)[0]
        subprocess.run(['zstd', '-q', self.path('g.el')], check=True, timeout=DEADLINE_S)
        for ranks in (1, 3):
            self.assertEqual(self.good('wcc', 'g.el.zst', ranks=ranks).rsplit('steps', 1)[0], right)
        with open(self.path('g.el.zst'), 'rb') as file:
            self.write('cut.el.zst', file.read()[:-50])
        self.bad('cannot inflate it', 'wcc', 'cut.el.zst', ranks=2)

    def test_what_a_file_is_is_told_by_its_content(self):
        edges, metis = '0 1\n1 2\n2 0\n', '4 4\n2 3\n1 3\n1 2 4\n3\n'
        mtx = '%%MatrixMarket matrix coordinate pattern general\n3 3 3\n1 2\n2 3\n3 1\n'
        binary = struct.pack('<9I', 0, 1, 7, 1, 2, 7, 2, 0, 7)
        for name, content, num_edges, note in (
                ('mac.el', edges.replace('\n', '\r'), 3, ''),
                ('long.el', '0 1\r' * 100000, 100000, ''),
                ('mac.mtx', mtx.replace('\n', '\r'), 3, ''),
                ('mac.graph', metis.replace('\n', '\r'), 8, ''),
                ('mac.csv', 'source,target\r0,1\r1,2', 2, ''),
                ('g.edges', edges, 3, ''), ('out.konect', '% asym\n1 2\n', 1, ''), ('g', edges, 3, ''),
                ('text.gemini', edges, 3, 'text.gemini: read as el, as it is text with an edge a line'),
                ('text.bin', mtx, 3, 'text.bin: read as mtx, as its first line is a MatrixMarket header'),
                ('metis.txt', metis, 8, 'metis.txt: read as metis, as its first line has the sizes'),
                ('metis', metis, 8, ''),
                ('twelve.graph', metis + '\n' * (-len(metis) % 12), 8, ''),
                ('crlf.graph', metis.replace('\n', '\r\n'), 8, ''),
                ('last.graph', '3 1\n2\n1\n', 2, ''),
                ('hub.metis', '5000 4999\n' + ' '.join(map(str, range(2, 5001))) + '\n' + '1\n' * 4999,
                 9998, ''),
                ('list.graph', '0 1\n1 2\n', 2, 'list.graph: read as el'),
                ('g.dat', binary, 3, ''), ('eight', struct.pack('<8I', *range(8)), 4, ''),
                ('floats', struct.pack('<2If2If2If', 0, 1, 7, 1, 2, 7, 2, 0, 7), 3, ''),
                ('packed.bin', gzip.compress(binary * 1000), 3000, ''),
                ('packed.gz', gzip.compress(edges.encode()), 3, ''),
                ('packed.el', gzip.compress(edges.encode()), 3, ''),
                ('road', 'c x\np sp 3 1\na 1 2 3\n', 1, '')):
            self.write(name, content)
            with self.subTest(name=name):
                for ranks in (1, 3):
                    done = self.run_it('info', name, '--json', ranks=ranks)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(json.loads(done.stdout)['edges'], num_edges)
                    self.assertIn(note, done.stderr)
                    self.assertEqual(not note, not done.stderr)
                self.good('convert', name, 'copy.bin')
                self.assertEqual(json.loads(self.good('info', 'copy.bin', '--json'))['edges'], num_edges)
        self.good('convert', 'floats', 'weights.wel')
        with open(self.path('weights.wel'), encoding='utf-8') as file:
            self.assertEqual(file.read(), '0 1 7\n1 2 7\n2 0 7\n')

    def test_columns(self):
        self.write('t.csv', 'a,b,c,d\n0,5,1,9\n1,7,2,9\n')
        self.write('bare.csv', '9;0;5;1\n9;1;7;2\n')
        self.write('g.mtx', '%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n')
        for name, columns in (('t.csv', 'a,c,b'), ('t.csv', 'A, C ,B'), ('t.csv', '1,3,2'),
                              ('bare.csv', '2,4,3')):
            self.sssp(name, '--columns', columns, ranks=2)
            self.good('convert', name, 'copy.bin', '--columns', columns)
            self.sssp('copy.bin')
        done = self.run_it('sssp', 't.csv', '--columns', 'a,c', '--source', '0')
        self.assertIn('no column is named weight', done.stderr)
        self.assertIn(' max_dist=2 at=2 ', done.stdout)
        for columns, reason in (('a,x', 't.csv:1: --columns: no column is named x, of a, b, c, d'),
                                ('a', 'two columns or three'), ('1,2,3,4', 'two columns or three'),
                                ('0,1', 'counted from 1'), ('1,9', 't.csv:2: 4 columns, where 9'),
                                ('1,2,99999', 'counted from 1')):
            self.bad(reason, 'sssp', 't.csv', '--columns', columns, '--source', '0', ranks=2)
        self.bad('--columns is for tables, and this is mtx', 'wcc', 'g.mtx', '--columns', '1,2')

    def test_vertices_with_names(self):
        self.write('n.csv', 'since,from,to,weight\n1,"New ""York"", NY",Paris,5\n2,Paris,-1,7\n'
                   '3,9223372036854775807,A b,2\n')
        self.write('plain.el', '-5 1000000000000\n1000000000000 x/y\n')
        self.write('from', '# c\nNew "York", NY\n')
        self.write('two', '-1\nA b\n')
        right = ('"New ""York"", NY" 0\nParis 5\n-1 12\n9223372036854775807 -1\n"A b" -1\n')
        self.good('convert', 'n.csv', 'n.bin', '--names', 'names')
        with open(self.path('names'), encoding='utf-8') as file:
            self.assertEqual(file.read(), 'New "York", NY\nParis\n-1\n9223372036854775807\nA b\n')
        self.good('convert', 'n.csv', 'n.mtx', '--names', 'names')
        for words in (['n.csv', '--named'], ['n.bin', '--names', 'names'], ['n.mtx', '--names', 'names'],
                      ['n.bin', '--names', 'names', '--cache'], ['n.bin', '--names', 'names', '--cache']):
            for ranks in (1, 3):
                with self.subTest(words=words, ranks=ranks):
                    out = self.good('sssp', *words, '--sources', 'from', '--out', 'r', ranks=ranks)
                    self.assertIn('source=New "York", NY reached=3 sum_dist=17 max_dist=12 at=-1 ', out)
                    with open(self.path('r'), encoding='utf-8') as file:
                        self.assertEqual(file.read(), right)
                    checked = [word for word in words if word != '--cache']
                    self.good('verify', 'sssp', *checked[:1], 'r', *checked[1:], '--sources', 'from')
                    for algorithm, options in (('bfs', ['--sources', 'from']), ('wcc', []),
                                               ('pagerank', [])):
                        self.good(algorithm, *words, *options, '--out', 'r', ranks=ranks)
                        self.good('verify', algorithm, *checked[:1], 'r', *checked[1:], *options)
                    self.good('bfs', *words, '--sources', 'two', '--out', 'r', ranks=ranks)
                    with open(self.path('r.1'), encoding='utf-8') as file:
                        self.assertIn('"A b" 0 "A b"\n', file.read())
        self.assertIn('"at": "x/y"', self.good('sssp', 'plain.el', '--named', '--source=-5', '--json'))
        # A result that names another vertex is wrong.
        self.good('wcc', 'n.csv', '--named', '--out', 'r')
        with open(self.path('r'), encoding='utf-8') as file:
            self.write('r', file.read().replace('Paris "New', 'Paris "Old'))
        self.bad('expected the values of vertex 1', 'verify', 'wcc', 'n.csv', 'r', '--named')
        self.write('short', 'a\nb\n')
        self.write('twice', 'a\nb\na\n')
        self.write('blank', 'a\n\nb\n')
        self.write('g.gr', 'p sp 2 1\na 1 2 5\n')
        self.write('hole.csv', 'a,b\nb,\n')
        for ranks in (1, 3):
            self.bad('short: has 2 names, and n.bin vertices up to 4', 'wcc', 'n.bin', '--names', 'short',
                     ranks=ranks)
            self.bad('twice:3: the same name as in line 1', 'wcc', 'n.bin', '--names', 'twice', ranks=ranks)
            self.bad('blank:2: no name', 'wcc', 'n.bin', '--names', 'blank', ranks=ranks)
            self.bad('absent: cannot open it', 'wcc', 'n.bin', '--names', 'absent', ranks=ranks)
            self.bad('no vertex has this name', 'bfs', 'n.csv', '--named', '--source', '0', ranks=ranks)
            self.bad('hole.csv:2: a vertex without a name', 'wcc', 'hole.csv', '--named', ranks=ranks)
            self.bad('--named is for edge lists and tables; in gr', 'wcc', 'g.gr', '--named', ranks=ranks)
            self.bad('give one of them', 'wcc', 'n.csv', '--named', '--names', 'names', ranks=ranks)
            self.bad('--cache keeps no names', 'wcc', 'n.csv', '--named', '--cache', ranks=ranks)
            self.bad('without --named', 'wcc', 'n.csv', '--named', '--out', 'x', '--out-format', 'binary',
                     ranks=ranks)

    def edges(self, *words, **ways):
        return json.loads(self.good('info', *words, '--json', **ways))['edges']

    def test_weights_that_are_no_whole_numbers(self):
        self.write('g.wel', '0 1 0.0015\n1 2 2e-3\n0 2 1\n')
        self.write('g.mtx', '%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 .0015\n2 3 .002\n1 3 1\n')
        self.write('g.csv', 'weight;from;to\n0.0015;0;1\n0.002;1;2\n1.0;0;2\n')
        self.write('g.wgemini', struct.pack('<2If2If2If', 0, 1, .0015, 1, 2, .002, 0, 2, 1))
        self.write('g.graph', '3 3 1\n2 .0015 3 1\n1 .0015 3 .002\n2 .002 1 1\n')
        self.write('whole.wel', '0 1 15\n1 2 20\n')
        self.write('whole.bin', struct.pack('<6I', 0, 1, 15, 1, 2, 20))
        scale = ['--weight-scale', '1e4']
        for name in ('g.wel', 'g.mtx', 'g.csv', 'g.wgemini', 'g.graph'):
            with self.subTest(name=name):
                self.bad('weight is not a whole number of 32 bits: --weight-scale', 'sssp', name,
                         '--source', '0', ranks=2)
                for ranks in (1, 3):
                    self.assertIn(' max_dist=35 at=2 ', self.good('sssp', name, '--source', '0', *scale,
                                                                 '--out', 'r', ranks=ranks))
                self.good('verify', 'sssp', name, 'r', '--source', '0', *scale)
                self.good('convert', name, 'copy.bin', *scale)
                self.assertIn(' max_dist=35 ', self.good('sssp', 'copy.bin', '--source', '0'))
                # What is nearest: 1.5 and 2.
                self.assertIn(' max_dist=4 ', self.good('sssp', name, '--source', '0', '--weight-scale',
                                                        '1000'))
                self.bad('rounds to 0: take more', 'sssp', name, '--source', '0', '--weight-scale', '10')
                self.bad('beyond 32 bits: take less', 'sssp', name, '--source', '0', '--weight-scale',
                         '1e10')
        for name in ('whole.wel', 'whole.bin'):
            self.assertIn(' max_dist=70 ', self.good('sssp', name, '--source', '0', '--weight-scale', '2'))
        # A cache has the weights of its scale.
        for way, far in (([], 35), (['--weight-scale', '2'], 70), ([], 35)):
            self.assertIn(f' max_dist={far} ', self.good('sssp', 'whole.wel', '--source', '0', '--cache',
                                                         *way))
        for way, far in (([], 0), (['--columns', '2,1,3'], 2), ([], 0)):
            self.assertIn(f' max_depth={far} ', self.good('bfs', 'whole.wel', '--source', '2', '--cache', *way))
        for number in ('0', '-1', 'nan'):
            self.bad(f'found "{number}"', 'sssp', 'g.wel', '--source', '0', '--weight-scale', number)
        self.write('negative.graph', '2 1 1\n2 -1\n1 -1\n')
        self.bad('negative.graph:2: negative weight', 'sssp', 'negative.graph', '--source', '0', ranks=2)
        self.write('negative.csv', 'to,weight,from\n1,-1,0\n')
        self.bad('negative.csv:2: negative weight', 'sssp', 'negative.csv', '--source', '0', ranks=2)

    def test_several_files_are_one_graph(self):
        os.mkdir(self.path('parts'))
        self.write('parts/_SUCCESS', '')
        self.write('parts/.hidden', 'x')
        self.write('parts/a.wel', '0 1 5\n')
        self.write('parts/b.gr', 'p sp 3 1\na 2 3 7\n')
        self.write('parts/c.el.gz', gzip.compress(b'0 1 99\n'))
        self.write('parts/d.graph', '2 1\n2\n1\n')
        self.write('parts/e.gemini', struct.pack('<2I', 0, 1))
        for ranks in (1, 3):
            self.sssp('parts/a.wel', '--also', 'parts/b.gr', ranks=ranks)
            self.assertEqual(self.edges('parts', ranks=ranks), 6)
            self.assertEqual(self.edges('parts/', '--cache', ranks=ranks), 6)
        self.assertTrue(os.path.exists(self.path('parts.weft-cache')))
        self.write('a, b.el', '0 1\n')
        self.assertEqual(self.edges('--also', 'parts/b.gr', 'parts/a.wel', '--also', 'a, b.el'), 3)
        self.good('convert', 'parts', 'all.mtx')
        self.assertEqual(self.edges('all.mtx'), 6)
        self.good('convert', 'parts/b.gr', 'two.bin', '--also', 'parts/a.wel')
        self.sssp('two.bin')
        # A cache of other files is replaced.
        self.write('parts/f.el', '1 0\n')
        self.assertEqual(self.edges('parts', '--cache'), 7)
        self.write('parts/g.el', '1 x\n')
        self.bad('parts/g.el:1: expected two vertex ids', 'wcc', 'parts', ranks=2)
        self.write('parts/g.el', '')
        self.write('parts/h.mtx', '%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n')
        self.bad('parts/h.mtx: 1 entries, where its header promises 2', 'wcc', 'parts', ranks=2)
        os.mkdir(self.path('parts/more'))
        self.bad('a folder within one', 'wcc', 'parts', ranks=2)
        os.mkdir(self.path('none'))
        self.bad('a folder without files', 'wcc', 'none', ranks=2)
        self.bad('absent: cannot open it', 'wcc', 'two.bin', '--also', 'absent', ranks=2)

    def test_standard_input(self):
        text = '0 1 5\n1 2 7\n'
        binary = struct.pack('<6I', 0, 1, 5, 1, 2, 7)
        large = ''.join(f'{i} {i + 1}\n' for i in range(100000))
        for ranks in (1, 3):
            for given in (text, text.replace('\n', '\r')):
                self.sssp('-', given=given, ranks=ranks)
            for given, more in ((gzip.compress(text.encode()), []), (lzma.compress(binary), ['--format', 'paper']),
                                (binary, ['--format', 'paper'])):
                done = self.run_it('sssp', '-', '--source', '0', *more, given=given, ranks=ranks)
                self.assertIn(b' max_dist=12 at=2 ', done.stdout, done.stderr)
            self.assertEqual(self.edges('-', given=large, ranks=ranks), 100000)
            self.bad('standard input:50001: expected two', 'wcc', '-', ranks=ranks,
                     given=large.replace('\n50000 ', '\nx '))
            self.bad('holds no edges', 'wcc', '-', given='', ranks=ranks)
            self.bad('--cache is for files', 'wcc', '-', '--cache', given=text, ranks=ranks)
        self.good('convert', '-', 'new.bin', given=text)
        self.sssp('new.bin')
        self.bad('can be read once', 'convert', '-', 'new.mtx', given=text)

    def test_graphalytics(self):
        self.write('g.v', '30\n-4\n7\n9000000000\n')
        self.write('g.e', '30 7 5\n7 9000000000 7\n')
        self.write('g.properties', '# how it is to be run\n')
        self.write('d.v', '0\n1\n2\n3\n')
        self.write('d.e', '0 1 5\n1 2 7\n')
        os.mkdir(self.path('folder'))
        for name in ('g.v', 'g.e', 'g.properties'):
            shutil.copy(self.path(name), self.path('folder'))
        for graph in ('g', 'g.e', 'g.v', 'folder'):
            for ranks in (1, 3):
                out = self.good('sssp', graph, '--source', '30', '--out', 'r', ranks=ranks)
                self.assertIn(' max_dist=12 at=9000000000 ', out)
                with open(self.path('r'), encoding='utf-8') as file:
                    self.assertEqual(file.read(), '30 0\n-4 -1\n7 5\n9000000000 12\n')
                self.assertIn('components=2 ', self.good('wcc', graph, ranks=ranks))
            self.good('verify', 'sssp', graph, 'r', '--source', '30')
        for ranks in (1, 3):
            self.assertIn('components=2 ', self.good('wcc', 'd', ranks=ranks))
            self.sssp('d', '--cache', ranks=ranks)
        self.good('convert', 'g', 'n.bin', '--names', 'names')
        self.assertIn(' at=9000000000 ', self.good('sssp', 'n.bin', '--names', 'names', '--source', '30'))
        self.good('convert', 'd', 'd.mtx')
        self.assertIn('components=2 ', self.good('wcc', 'd.mtx'))
        self.bad('not 0, 1, 2 and so on', 'convert', 'g', 'new.bin')
        self.write('g.e', '30 8\n')
        self.write('d.e', '0 4\n')
        self.write('t.v', '1\n1\n')
        self.write('t.e', '1 1\n')
        for ranks in (1, 3):
            self.bad('not among the 4 of its file of vertices: 8', 'wcc', 'g', ranks=ranks)
            self.bad('not among the 4 of its file of vertices', 'wcc', 'd', ranks=ranks)
            self.bad('t.v:2: vertex 1 stands there twice', 'wcc', 't', ranks=ranks)
            self.bad('--cache keeps no names', 'wcc', 'g', '--cache', ranks=ranks)
            self.bad('give one graph', 'wcc', 'g', '--also', 'd', ranks=ranks)
        self.bad('not among the 4', 'convert', 'd', 'new.bin')

    def test_files_of_other_formats_are_not_misread(self):
        edges = '0 1\n1 2\n'
        metis = '4 4\n2 3\n1 3\n1 2 4\n3\n'
        self.write('sources', '0 # a\r2\r')
        self.write('g.el', edges)
        self.bad('sources:1: a carriage return', 'bfs', 'g.el', '--sources', 'sources')
        binary = struct.pack('<6I', 0, 1, 1, 1, 2, 1)
        for name, content, reason in (
                ('feed.el', '0 1\r' * 100000 + '1 2\n', 'feed.el:100001: a line feed within the line'),
                ('comment.el', edges + '# c\r2 3\n', 'comment.el:3: a carriage return'),
                ('rest.el', '0 1 x\r1 2\n', 'rest.el:1: a carriage return'),
                ('mixed.mtx', '%%MatrixMarket matrix coordinate pattern general\n2 2 1\r1 2\r',
                 'mixed.mtx:2: a carriage return'),
                ('doubt', '3 3\n2 3\n1 3\n1 2\n', '--format metis or --format el'),
                ('short.graph', '5 4\n2 3\n1 3\n1 2 4\n', 'short.graph:5: the file ends after the lines of 3'),
                ('far.graph', '4 4\n2 3\n1 3\n1 2 5\n3\n', 'far.graph:4: expected a neighbour, 1 to 4'),
                ('fewer.graph', '4 5\n2 3\n1 3\n1 2 4\n3\n', 'its header promises 10, two for each edge'),
                ('half.graph', '3 2 1\n2 5\n1 5 3 7\n2\n', 'half.graph:4: the last neighbour has no weight'),
                ('g.sg', b'\0' * 24, "GAPBS's serialized graphs are not read"),
                ('ragged.txt', metis + '3\n', 'ragged.txt:4: 3 numbers, where the first edge has 2'),
                ('wide.bin', (edges + '0 2\n').encode('utf-16'), 'UTF-16'),
                ('wide.el', edges.encode('utf-16'), 'UTF-16'),
                ('g.bin.bz2', b'BZh9', 'is compressed by bzip2'),
                ('bz2.bin', b'BZh91AY&SY\0\0', 'bz2.bin: is compressed by bzip2'),
                ('table.bin', b'PAR1\0\0\0\0', 'is Parquet, which is not read'),
                ('table', b'ARROW1\0\0', "is Arrow's file format, which is not read"),
                ('edges', binary, '--format paper (or gemini-weighted) or --format gemini'),
                ('numbers', struct.pack('<6I', *[1 << 30] * 6), 'vertices up to 1073741824 for 2 edges'),
                ('numbers.bin', struct.pack('<6I', *[1 << 30] * 6), 'vertices up to 1073741824 for 2 edges'),
                ('seven', b'\0' * 7, '7 bytes are no whole number of edges of 12 or 8 bytes'),
                ('g.tar', b'\0' * 24, 'unpack it'),
                ('index.csv', 'index,a,b\n0,1,2\n', 'index.csv:1: which columns are the vertices?'),
                ('fewer.csv', 'id,source,target\n0,1\n', 'fewer.csv:2: 2 columns under 3 names'),
                ('short.csv', 'id,source,target\n0,1,2\n1,2\n', 'short.csv:3: 2 columns, where 3 are needed'),
                ('open.csv', 'source,target\n"0","1"\n"1,"2"\n', 'open.csv:3: a quote without its other one'),
                ('word.csv', 'target;source\n0;1\n0;one\n', 'word.csv:3: expected two vertex ids'),
                ('empty.csv', '0,1\n1,,2\n', 'empty.csv:2: expected two vertex ids'),
                ('ragged.csv', '0,1\n1,2,7\n', 'ragged.csv:2: 3 numbers'),
                ('colon.csv', '0:1\n', 'colon.csv:1: expected two vertex ids'),
                ('bip.txt', '% bip unweighted\n1 1\n', 'bip.txt:1: '),
                ('negative.el', edges + '-1 2\n', 'negative.el:3: expected two vertex ids'),
                ('far.el', edges + '1 5000000000\n', 'far.el:3: vertex id does not fit in 32 bits'),
                ('float.el', '0.0 1.0\n', 'float.el:1: expected two vertex ids'),
                ('binary.el', binary, 'binary.el:1: expected two vertex ids'),
                ('flow.gr', 'p max 3 2\nn 1 s\n', 'flow.gr:1: '),
                ('short.gr', 'p sp 3 2\na 1 2 5\n', 'its header promises 2'),
                ('zero.gr', 'p sp 3 1\na 0 2 5\n', 'zero.gr:2: row or column outside 1 to 3'),
                ('wide.mtx', '%%MatrixMarket matrix coordinate pattern general\n3 4 1\n1 4\n',
                 'wide.mtx:2: rows and columns are the same')):
            self.write(name, content)
            with self.subTest(name=name):
                self.bad(reason, 'wcc', name)
                self.bad(reason, 'sssp', name, '--source', '0', ranks=2)
                self.bad(reason, 'convert', name, 'new.bin')
        for name, content, reason in (
                ('half.wel', '0 1 5\n1 2 0.5\n', 'half.wel:2: weight is not a whole number'),
                ('rated.csv', '0,1,5\n1,2,-7\n', 'rated.csv:2: negative weight'),
                ('words.txt', "0 1 {'weight': 5}\n", 'words.txt:1: no weight'),
                ('real.mtx', '%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 .5\n',
                 'real.mtx:3: weight is not a whole number'),
                ('complex.mtx', '%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 5 1\n',
                 'complex.mtx:1: complex numbers are no weights')):
            self.write(name, content)
            for words in ('sssp', name, '--source', '0'), ('convert', name, 'new.wel'):
                self.bad(reason, *words)
                self.bad('--weights none', *words)
            self.good('sssp', name, '--source', '0', '--weights', 'none')
            self.good('bfs', name, '--source', '0')
        # A vertex may have the number that gzipped files begin with.
        self.write('magic.bin', struct.pack('<3I', 0x00088b1f, 1, 1))
        self.assertIn('"edges": 1', self.good('info', 'magic.bin', '--json'))
        # Text is taken for what --format says.
        self.write('doubt', '3 3\n2 3\n1 3\n1 2\n')
        self.assertIn('components=2 ', self.good('wcc', 'doubt', '--format', 'el'))
        self.assertIn('"edges": 6', self.good('info', 'doubt', '--format', 'metis', '--json'))
        self.bad('doubt: is text, where its format has edges in binary', 'wcc', 'doubt', '--format',
                 'paper')
        self.write('g.gemini', b'\0' * 12)
        self.bad('truncated', 'wcc', 'g.gemini', '--format', 'gemini')
        self.bad('not written', 'convert', 'g.el', 'new.graph')

    def test_an_option_without_effect_is_an_error(self):
        self.write('g.el', '0 1\n1 2\n')
        self.write('h.wel', '0 1 5\n1 2 7\n')
        sssp, pagerank = ['sssp', 'g.el', '--source', '0'], ['pagerank', 'g.el']
        program = ['--mode', 'paper']
        for where, ranks, words in (
                ('--mode paper', 2, sssp + ['--migrate']), ('--mode paper', 2, sssp + ['--block', '8']),
                ('--mode paper', 2, sssp + ['--pairing', 'thread']),
                ('--mode paper', 2, sssp + ['--combine', 'edge']),
                ('--mode paper', 2, sssp + ['--schedule', 'fixed']),
                ('--mode paper', 2, sssp + ['--grain', '8']),
                ('--mode paper', 2, ['wcc', 'g.el', '--mode', 'push', '--grain', '8']),
                ('--mode paper', 2, pagerank + ['--mode', 'push', '--migrate']),
                ('several processes', 1, sssp + program + ['--migrate']),
                ('several processes', 1, sssp + program + ['--block', '8']),
                ('several processes', 1, sssp + program + ['--pairing', 'machine']),
                ('several processes', 1, sssp + program + ['--combine', 'mirror']),
                ('several processes', 1, sssp + ['--shares', '1']),
                ('several processes', 1, sssp + ['--alpha', '3']),
                ('several processes', 1, ['info', 'g.el', '--equal-cut']),
                ('without --shares', 2, sssp + ['--shares', '1,2', '--alpha', '3']),
                ('without --shares', 2, ['info', 'g.el', '--shares', '1,2', '--equal-cut']),
                ('and --equal-cut', 2, sssp + ['--equal-cut', '--alpha', '3']),
                ('with --migrate', 2, sssp + program + ['--migrate-block', '8']),
                ('with --migrate', 2, sssp + program + ['--migrate-threshold', '8']),
                ('with --migrate', 2, sssp + program + ['--migrate-cache', '8']),
                ('without --migrate', 2, sssp + program + ['--migrate', '--schedule', 'fixed']),
                ('with --out', 1, sssp + ['--out-format', 'binary']),
                ('--weights file', 1, sssp + ['--weights', 'none', '--weight-scale', '2']),
                ('weights of the old one', 1, ['convert', 'h.wel', 'new.el', '--weight-scale', '2']),
                ('with --checkpoint', 1, sssp + ['--checkpoint-every', '8']),
                ('weights: in paper', 1, ['convert', 'h.wel', 'new.el', '--weights', 'file']),
                ('weights: in paper', 1, ['convert', 'h.wel', 'new.gemini', '--weights', 'hash']),
                ('with grid', 1, ['generate', 'rmat', 'new.bin', '--width', '8']),
                ('with grid', 1, ['generate', 'rmat', 'new.bin', '--height', '8']),
                ('with rmat', 1, ['generate', 'grid', 'new.bin', '--scale', '8']),
                ('with rmat', 1, ['generate', 'grid', 'new.bin', '--edge-factor', '8']),
                ('with rmat', 1, ['generate', 'grid', 'new.bin', '--seed', '8']),
                ('with rmat', 1, ['generate', 'grid', 'new.bin', '--permute']),
                ('--threads', 1, ['verify', 'wcc', 'g.el', 'r', '--threads', '2'])):
            with self.subTest(words=words):
                self.bad(where, *words, ranks=ranks)
        for words in (['bfs', 'g.el', '--source', '0', '--schedule', 'steal', '--grain', '1'],
                      pagerank + ['--mode', 'push', '--grain', '1', '--combine', 'edge', '--block', '1']):
            self.good(*words, ranks=2)

    def test_a_file_may_follow_options_of_several_values(self):
        self.write('g.el', '0 1\n1 2\n')
        for words in (['--source', '0', 'g.el'], ['g.el', '--source', '0'],
                      ['--source', '0', '--shares', '2,1', 'g.el']):
            self.assertIn('source=0 ', self.good('sssp', *words, ranks=2))
        for words in (['--source', '0,1', 'g.el'], ['--source', '0', '--source', '1', 'g.el']):
            self.assertRegex(self.good('bfs', *words), 'source=0 .*\nbfs source=1 ')

    def test_a_source_without_edges_out(self):
        self.write('g.el', '0 1\n1 2\n')
        for algorithm in ('bfs', 'sssp'):
            for mode in ('paper', 'push', 'auto'):
                for ranks in (1, 2):
                    out = self.good(algorithm, 'g.el', '--source', '0,2,1', '--mode', mode, '--out',
                                    'r', ranks=ranks)
                    self.assertEqual(re.findall(r'source=(\d) reached=(\d)', out),
                                     [('0', '3'), ('2', '1'), ('1', '2')])
                    self.good('verify', algorithm, 'g.el', 'r.2', '--source', '2')

    def test_fewer_vertices_than_processes(self):
        self.write('g.el', '0 1\n')
        for ranks, threads in ((4, 1), (3, 2)):
            for algorithm, options in {**OPTIONS, **ONE_WAY}.items():
                for ways in (['--mode', 'paper'], ['--mode', 'paper', '--migrate'],
                             ['--mode', 'push'], ['--mode', 'auto'], ['--undirected'], ['--cache'],
                             ['--cache'], ['--equal-cut'], ['--shares', ','.join('1' * ranks)]):
                    if algorithm in ONE_WAY and '--mode' in ways:
                        continue
                    with self.subTest(ranks=ranks, algorithm=algorithm, ways=ways):
                        checks = [way for way in ways if way == '--undirected']
                        self.good(algorithm, 'g.el', *options, *ways, '--threads', threads, '--out',
                                  'r', ranks=ranks)
                        self.good('verify', algorithm, 'g.el', 'r', *options, *checks)
                        saves = ['--checkpoint', 'c', '--checkpoint-every', '0']
                        if '--undirected' not in ways or algorithm == 'sssp':
                            continue
                        done = self.run_it(algorithm, 'g.el', *options, *ways, *saves, '--out', '.', ranks=ranks)
                        self.assertEqual(done.returncode, 2)
                        self.good(algorithm, 'g.el', *options, *ways, *saves, '--out', 'r', ranks=ranks)
                        self.good('verify', algorithm, 'g.el', 'r', *options, *checks)
            self.assertEqual(json.loads(self.good('info', 'g.el', '--json', ranks=ranks))['cut'],
                             [0, 1, 2, 2, 2][:ranks + 1])

    def test_one_message_for_a_job(self):
        self.write('junk.el', 'junk\n')
        for words in (['wcc', 'junk.el'], ['wcc', '--unknown'], ['bfs', 'junk.el']):
            done = self.run_it(*words, ranks=4)
            self.assertEqual(done.returncode, 2)
            # The launcher reports the one process that gives the job its exit status.
            own = [line for line in done.stderr.splitlines() if line.startswith('weft-graph: ')]
            others = [line for line in done.stderr.splitlines() if line not in own]
            self.assertEqual(len(own), 1, done.stderr)
            self.assertLessEqual(len(others), 1, done.stderr)

    @unittest.skipIf(ADDRESS, 'the address sanitizer maps far more itself')
    def test_too_little_memory(self):
        self.write('far.el', '0 4294967294\n')
        limit = ('sh', '-c', 'ulimit -v 6000000; exec "$@"', 'sh')
        self.bad('--named numbers those that have', 'wcc', 'far.el', prefix=limit)
        self.assertIn('components=1 ', self.good('wcc', 'far.el', '--named', prefix=limit))

        self.write('g.el', '0 1\n1 2\n')
        limit = ('sh', '-c', 'ulimit -v 400000; exec "$@"', 'sh')
        for ranks in (1, 2):
            self.bad('cannot start threads', 'wcc', 'g.el', '--threads', '60', prefix=limit,
                     ranks=ranks)

    def test_a_name_may_be_any_bytes(self):
        self.write('\udcff.el', '0 1\n1 2\n')
        for command in ('info', 'wcc'):
            self.assertIn('"edges": 2', self.good(command, '\udcff.el', '--json'))

    def test_results_that_cannot_be_printed(self):
        self.write('g.el', '0 1\n1 2\n')
        for command in ('info', 'wcc'):
            with open('/dev/full', 'wb') as full:
                done = subprocess.run([GRAPH, command, self.path('g.el')], stdout=full, text=True,
                                      stderr=subprocess.PIPE, timeout=DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn('cannot print the result: No space left', done.stderr)

    def ranks_of(self, launcher):
        """Process ids of weft-graph below the launcher."""
        parents, found = {}, []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
                    head, _, tail = file.read().rpartition(')')
            except OSError:
                continue
            parents[int(pid)] = int(tail.split()[1])
            if head.endswith('(weft-graph'):
                found.append(int(pid))

        def below(pid):
            while pid in parents:
                if pid == launcher:
                    return True
                pid = parents[pid]
            return False
        return sorted(pid for pid in found if below(pid))

    def test_a_process_is_killed(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '14')
        migrate = ['--mode', 'paper', '--migrate', '--migrate-threshold', '0', '--shares', '9,1,1']
        for killed, ways in ((1, []), (0, migrate), (2, migrate + ['--migrate-cache', '100'])):
            with self.subTest(killed=killed, ways=ways):
                self.kill_between_steps(killed, ways)

    def test_a_killed_run_goes_on_from_its_checkpoint(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '12')
        self.kill_between_steps(0, ['--checkpoint', 'c', '--checkpoint-every', '0'], {'c'})
        with open(self.path('c'), 'rb') as file:
            step = struct.unpack_from('<I', file.read(), 16)[0]
        self.assertGreater(step, 0)
        right = self.good('pagerank', 'g.bin', '--iterations', str(step + 2)).partition(' steps=')[0]
        self.assertTrue(same(right, self.good('pagerank', 'g.bin', '--iterations', str(step + 2),
                                              '--checkpoint', 'c', ranks=2)))

    def test_a_process_is_killed_at_any_moment(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '14')
        self.good('convert', 'g.bin', 'g.wel')
        for number in range(6):
            with self.subTest(number=number):
                job = subprocess.Popen([WEFTRUN, '-n', '3', '--timeout', '60', GRAPH, 'sssp',
                                        'g.wel', '--source', '0', '--mode', 'paper', '--migrate',
                                        '--out', 'result', '--cache', '--checkpoint', 'c',
                                        '--checkpoint-every', '0'],
                                       cwd=self.folder.name, stderr=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)
                try:
                    ranks = []
                    while len(ranks) < 3 and job.poll() is None:
                        ranks = self.ranks_of(job.pid)
                    # Whatever they do by now: starting, loading, computing, writing, or leaving.
                    time.sleep(0.03 * number)
                    if len(ranks) == 3:
                        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                            os.kill(ranks[number % 3], signal.SIGKILL)
                    self.assertNotEqual(job.wait(60), 124)
                finally:
                    job.kill()
                    job.wait()
                self.assertEqual(self.ranks_of(job.pid), [])
                if os.path.exists(self.path('result')):
                    self.good('verify', 'sssp', 'g.wel', 'result', '--source', '0')
                    os.remove(self.path('result'))
                if os.path.exists(self.path('c')):
                    self.good('sssp', 'g.wel', '--source', '0', '--checkpoint', 'c', '--cache')
                # What replaces a file has another name for the instant before the rename.
                names = {name for name in os.listdir(self.folder.name) if '.part-' not in name}
                self.assertLessEqual(names, {'g.bin', 'g.wel', 'g.wel.weft-cache', 'c'})

    def kill_between_steps(self, killed, ways, left=()):
        job = subprocess.Popen([WEFTRUN, '-n', '3', '--timeout', '60', GRAPH, 'pagerank', 'g.bin',
                                '--iterations', '100000000', '--out', 'result', *ways],
                               cwd=self.folder.name, text=True, stderr=subprocess.PIPE)
        try:
            # A step is told as it begins; before the third, two have ended and were saved.
            for line in job.stderr:
                step = re.search(r'step (\d+)', line)
                if step and int(step[1]) >= 3:
                    break
            ranks = self.ranks_of(job.pid)
            self.assertEqual(len(ranks), 3)
            os.kill(ranks[killed], signal.SIGKILL)
            start = time.monotonic()
            text = job.stderr.read()
            self.assertNotEqual(job.wait(60), 0)
            self.assertLess(time.monotonic() - start, 60)
            self.assertIn(str(ranks[killed]), text)
            self.assertEqual(set(os.listdir(self.folder.name)), {'g.bin', *left})
            self.assertEqual(self.ranks_of(job.pid), [])
        finally:
            job.kill()
            job.wait()
            job.stderr.close()


if __name__ == '__main__':
    GRAPH, WEFTRUN, EXAMPLES, GRAPHS, MORE = (os.path.abspath(name) for name in sys.argv[1:6])
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
