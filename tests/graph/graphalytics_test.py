#!/usr/bin/env python3
"""examples/graph/graphalytics over the example graphs of Graphalytics: every output is right, and a wrong one is found.

  graphalytics_test.py DRIVER WEFT_GRAPH WEFTRUN
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

DRIVER = WEFT_GRAPH = WEFTRUN = None
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'graphalytics')
ALGORITHMS = ('bfs', 'cdlp', 'lcc', 'pr', 'sssp', 'wcc')
DEADLINE_S = 600


class Graphalytics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weft-graphalytics-test-')
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, 'data')
        shutil.copytree(EXAMPLES, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding='utf-8') as file:
            return file.read()

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)

    def replace(self, name, old, new):
        text = self.read(name)
        self.assertEqual(text.count(old), 1, name)
        self.write(name, text.replace(old, new))

    def run_it(self, status, *words, folder=None):
        done = subprocess.run([DRIVER, folder or self.folder, '--weft-graph', WEFT_GRAPH, '--weftrun', WEFTRUN,
                               '--timeout', '60', *words], text=True, capture_output=True, timeout=DEADLINE_S,
                              check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr + done.stdout  # which may tell of long runs first

    def test_all_outputs_are_right(self):
        said = self.run_it(0, '--processes', '1,2,3,5', '--threads', '1,2')
        self.assertTrue(said.endswith(f'\n{2 * 6 * 8} right\n'), said)
        for mode in ('paper', 'push'):
            said = self.run_it(0, '--processes', '2', '--threads', '2', '--mode', mode, '--algorithms',
                               'bfs,pr,sssp,wcc')
            self.assertTrue(said.endswith('\n8 right\n'), said)

    def test_what_is_wrong_is_found(self):
        for algorithm, old, new, found in (
                ('bfs', '\n4 2\n', '\n4 3\n', 'vertex 4: 2 where 3 is right'),
                ('bfs', '\n2 9223372036854775807\n', '\n2 7\n', 'vertex 2: 9223372036854775807 where 7 is right'),
                ('cdlp', '\n7 2\n', '\n7 4\n', 'vertex 7: 2 where 4 is right'),
                ('lcc', '\n3 1.500000000000000e-01\n', '\n3 0.15002\n', 'vertex 3: 0.15 where 0.15002 is right'),
                ('lcc', '\n10 0.000000000000000e+00\n', '\n10 1e-9\n', 'vertex 10: 0.0 where 1e-09 is right'),
                ('pr', '\n8 1.135740277777778e-01\n', '\n8 1.1359e-01\n', 'where 0.11359 is right'),
                ('sssp', '\n4 8.300000000000001e-01\n', '\n4 0.8302\n', ' where 0.8302 is right'),
                ('sssp', '\n2 Infinity\n', '\n2 1e300\n', 'vertex 2: inf where 1e+300 is right'),
                ('sssp', '\n3 5.000000000000000e-01\n', '\n3 Infinity\n', 'vertex 3: 0.5 where inf is right'),
                ('wcc', '\n8 1\n', '\n8 2\n', 'vertex 8: in component 1 with vertex 1, where 2 and 1 are right'),
                ('bfs', '\n9 9223372036854775807\n', '\n', '10 vertices where 9 are right'),
                ('bfs', '\n9 9223372036854775807\n', '\n9 9223372036854775807\n11 3\n',
                 'vertex 11: 3 is right, and the result has none')):
            with self.subTest(algorithm=algorithm, new=new):
                name = f'example-directed-{algorithm.upper()}'
                before = self.read(name)
                self.replace(name, old, new)
                said = self.run_it(1, '--processes', '2', '--algorithms', algorithm)
                self.assertIn('WRONG: ', said)
                self.assertIn(found, said)
                self.assertTrue(said.endswith('\n1 right, 1 wrong\n'), said)
                self.write(name, before)

    def test_components_may_have_any_names(self):
        self.replace('example-directed.v', '10\n', '10\n11\n12\n')
        edges = self.read('example-directed.e')
        self.write('example-directed.e', edges + '11 12 1.5\n')
        right = self.read('example-directed-WCC')
        words = ('--graphs', 'example-directed', '--algorithms', 'wcc')
        self.write('example-directed-WCC', right.replace(' 1\n', ' 70\n') + '11 1\n12 1\n')
        self.assertIn('\n1 right\n', self.run_it(0, *words))
        self.write('example-directed-WCC', right + '11 1\n12 1\n')
        self.assertIn('vertex 11: in component 11 and vertex 1 in 1, where 1 of both is right', self.run_it(1, *words))

    def test_differences_within_the_specification_are_none(self):
        self.replace('example-directed-PR', '\n8 1.135740277777778e-01\n', '\n8 1.13584e-01\n')
        self.replace('example-directed-SSSP', '\n4 8.300000000000001e-01\n', '\n4 0.83008\n')
        self.run_it(0, '--graphs', 'example-directed')

    def test_weights_of_any_size(self):
        words = ('--graphs', 'example-directed', '--algorithms', 'sssp')
        edges = self.read('example-directed.e')
        third = [f'{line.split()[0]} {line.split()[1]} {float(line.split()[2]) / 3!r}\n' for line in edges.splitlines()]
        self.write('example-directed.e', ''.join(third))
        right = [line.split() for line in self.read('example-directed-SSSP').splitlines()]
        self.write('example-directed-SSSP',
                   ''.join(f'{vertex} {float(value) / 3!r}\n' for vertex, value in right))
        self.run_it(0, *words)
        # Beyond what floats can be.
        self.replace('example-directed.e', third[0], '1 3 1e39\n')
        self.assertIn('weight beyond a float', self.run_it(1, '--graphs', 'example-directed'))
        self.replace('example-directed.e', '1 3 1e39\n', '1 3\n')
        self.assertIn('cannot be converted: ', self.run_it(1, *words))

    def test_a_clone_of_the_repository(self):
        graphs = 'graphalytics-validation/src/main/resources/validation-graphs/'
        for word, short in (('directed', 'dir'), ('undirected', 'undir')):
            example = f'example-{word}'
            properties = self.read(example + '.properties')
            for algorithm in ALGORITHMS:
                shutil.copy(self.path(f'{example}-{algorithm.upper()}'), self.path('result'))
                self.write(f'{graphs}{algorithm}/{short}-output', self.read('result'))
                name = f'test-{algorithm}-{word}'
                self.write(f'config-template/graphs/{name}.properties',
                           properties.replace(example, name).replace('bfs, cdlp, lcc, pr, sssp, wcc', algorithm))
                if algorithm == 'sssp':
                    for end in '.v', '.e':
                        self.write(f'{graphs}sssp/{short}-input{end}', self.read(example + end))
                    continue
                neighbors = {vertex: [] for vertex in self.read(example + '.v').split()}
                for line in self.read(example + '.e').splitlines():
                    source, destination, _ = line.split()
                    neighbors[source].append(destination)
                    if word == 'undirected':
                        neighbors[destination].append(source)
                self.write(f'{graphs}{algorithm}/{short}-input',
                           ''.join(' '.join([vertex, *others]) + '\n' for vertex, others in neighbors.items()))
            self.write(f'config-template/graphs/{example}.properties', properties)
            for name in os.listdir(EXAMPLES):
                if name.startswith(example) and not name.endswith('.properties'):
                    self.write(f'{graphs}example/{name}', self.read(name))
                    os.remove(self.path(name))
        said = self.run_it(0)
        self.assertTrue(said.endswith('\n24 right\n'), said)

    def test_wrong_use(self):
        for found, *words in (('none of bfs', '--algorithms', 'bfs,triangles'),
                              ('has no other.properties', '--graphs', 'other'),
                              ('invalid', '--processes', '0'), ('invalid', '--threads', 'two'),
                              ('above 0', '--repeat', '0'), ('no such folder', '--work', '/absent')):
            self.assertIn(found, self.run_it(2, *words))
        self.assertIn('no such folder', self.run_it(2, folder='/absent'))
        self.assertIn('no data set', self.run_it(2, folder=os.path.dirname(self.folder)))
        self.replace('example-directed.properties', 'cdlp.max-iterations', 'cdlp.other')
        self.assertIn('has no graph.example-directed.cdlp.max-iterations', self.run_it(2))
        os.remove(self.path('example-undirected.v'))
        self.assertIn('example-undirected.v: there is no such file', self.run_it(2))
        done = subprocess.run([DRIVER, self.folder, '--weft-graph', '/absent'], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('/absent: cannot be executed', done.stderr)

    def test_a_run_that_fails_is_told(self):
        self.replace('example-directed.properties', 'bfs.source-vertex = 1', 'bfs.source-vertex = 99')
        said = self.run_it(1, '--graphs', 'example-directed', '--algorithms', 'bfs,wcc')
        self.assertIn('FAILED: status 2: weft-graph: source 99: no vertex has this name', said)
        self.assertTrue(said.endswith('\n1 right, 1 failed\n'), said)
        os.remove(self.path('example-directed-WCC'))
        self.assertIn('no reference', self.run_it(0, '--algorithms', 'wcc'))


if __name__ == '__main__':
    DRIVER, WEFT_GRAPH, WEFTRUN = (os.path.abspath(name) for name in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
