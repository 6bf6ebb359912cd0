#!/usr/bin/env python3
"""weft-graph as a user runs it: known results on real graphs, and what it says of wrong use.

  cli_test.py WEFT_GRAPH WEFTRUN EXAMPLES GRAPHS MORE_GRAPHS

EXAMPLES has the programs of examples/graph; GRAPHS has soc-Epinions1.el.gz; MORE_GRAPHS may have others,
with expected.tsv.
"""
import json
import os
import re
import struct
import subprocess
import unittest

import command

EPINIONS = {
    'bfs': 'reached=47676 sum_dist=170249 max_depth=9 reached_arcs=467468',
    'sssp': 'reached=47676 sum_dist=7459720 max_dist=919 at=71365',
    'wcc': 'components=11 largest=75877 singletons=9 sum_min_labels=432153',
    'pagerank': 'sum=54509.8871 top10=18:247.315655,737:171.960297,118:115.792262,1719:113.343195,'
                '136:108.384705,790:107.347719,143:106.729049,40:99.6538761,1619:83.8138089,'
                '725:81.6953728',
}


class Cli(command.Command):
    def check_graph(self, path, expected, ranks, threads, modes, env=None):
        for algorithm, right in expected.items():
            for mode in modes:
                with self.subTest(path=path, algorithm=algorithm, ranks=ranks, threads=threads,
                                  mode=mode):
                    out = self.good(algorithm, path, *command.OPTIONS[algorithm], '--threads', threads,
                                    '--mode', mode, ranks=ranks, env=env)
                    self.assertTrue(command.same(right, out), f'expected {right}\ngot {out}')

    def test_known_results(self):
        path = os.path.join(command.GRAPHS, 'soc-Epinions1.el.gz')
        ways = ((1, 1), (1, 4), (2, 2), (3, 1), (4, 3), (8, 1))
        if command.ADDRESS:  # each takes a minute there
            ways = ((1, 4), (3, 1))
        for ranks, threads in ways:
            self.check_graph(path, EPINIONS, ranks, threads, command.MODES)

    def test_known_results_over_tcp(self):
        self.check_graph(os.path.join(command.GRAPHS, 'soc-Epinions1.el.gz'), EPINIONS, 3, 2, command.MODES,
                         env={'WEFT_FABRIC': 'tcp', 'WEFT_INTERFACE': 'lo'})

    @unittest.skipIf(command.ADDRESS, 'no other memory than by the known results')
    def test_more_known_results(self):
        table = os.path.join(command.MORE, 'expected.tsv')
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
            if os.path.exists(os.path.join(command.GRAPHS, graph + '.el.gz')):
                continue  # one of the known results
            for ranks, threads in ((1, 2), (2, 1), (4, 2)):
                self.check_graph(os.path.join(command.MORE, graph + '.el.gz'), results, ranks, threads, command.MODES)

    def test_results_are_verified(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '12')
        for algorithm, options in {**command.ONE_WAY, **command.OPTIONS, 'sssp': ['--source', '0']}.items():
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
        for algorithm, options in (*command.ONE_WAY.items(), ('betweenness', ['--source', '3,9', '--unscaled'])):
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
                        self.assertAlmostEqual(command.fields(said)['sum'][0], 1, delta=1e-8)
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
            self.assertTrue(command.same(said.partition(' steps=')[0], resumed), f'{said}{resumed}')
        single = ['--normalized', '--iterations', '12', '--single']
        said = self.good('pagerank', 'g.bin', *single, '--out', 'r', '--out-format', 'binary', ranks=2)
        self.assertAlmostEqual(command.fields(said)['sum'][0], 1, delta=1e-5)
        self.good('verify', 'pagerank', 'g.bin', 'r', *single, '--out-format', 'binary')
        self.bad(' where it is ', 'verify', 'pagerank', 'g.bin', 'r', *single[:-1], '--out-format', 'binary')
        self.bad('--single', 'pagerank', 'g.bin', *single, '--mode', 'push')
        self.run_it('pagerank', 'g.bin', *single, '--checkpoint', 'c', '--checkpoint-every', '0', '--out', '.')
        self.bad('is of the run "pagerank', 'pagerank', 'g.bin', *single[:-1], '--checkpoint', 'c')
        resumed = self.good('pagerank', 'g.bin', *single, '--checkpoint', 'c')
        self.assertTrue(command.same(said.partition(' steps=')[0], resumed), f'{said}{resumed}')
        self.bad('source 128 does not exist', 'pagerank', 'g.bin', '--source', '128', ranks=2)
        for damping in ('1.1', '-1', 'nan'):
            self.bad('--damping', 'pagerank', 'g.bin', '--damping', damping)

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
                    self.assertTrue(command.same(right, out), f'expected {right}\ngot {out}')
        self.bad('one number above 0 for each of the 2', 'wcc', 'g.bin', '--shares', '1', ranks=2)
        self.bad('one number above 0 for each of the 2', 'wcc', 'g.bin', '--shares', '1,0', ranks=2)

    def test_examples(self):
        path = os.path.join(command.GRAPHS, 'soc-Epinions1.el.gz')
        for program, arguments, right in (
                ('graph_sssp', ['0'], 'sum of distances 170249\n'),
                ('graph_pagerank', [], 'sum of ranks 54509.9\n'),
                ('graph_pagerank_delta', [], 'sum of ranks 54388.0\n'),
                ('graph_k_core', [], 'largest core number 91, of 422 vertices; sum of core numbers 522580\n')):
            found = set()
            for ranks in (1, 3):
                done = subprocess.run([command.WEFTRUN, '-n', str(ranks), '--timeout', str(command.DEADLINE_S),
                                       os.path.join(command.EXAMPLES, program), path, *arguments], text=True,
                                      capture_output=True, timeout=command.DEADLINE_S + 10, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                # How many steps PageRank-Delta takes may depend on last bits.
                found.add(done.stdout.splitlines(keepends=True)[0])
            self.assertEqual(len(found), 1)
            self.assertIn(right, found.pop())
            for words in ([], ['absent.el', *arguments]):
                done = subprocess.run([command.WEFTRUN, '-n', '3', '--timeout', str(command.DEADLINE_S),
                                       os.path.join(command.EXAMPLES, program), *words], text=True,
                                      capture_output=True, timeout=command.DEADLINE_S + 10, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr.count(program + ': '), 1, done.stderr)

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
        all_ways = (['--mode', 'paper', '--migrate'], ['--undirected'], ['--mode', 'paper'], ['--mode', 'push'],
                    ['--mode', 'auto'], ['--cache'], ['--cache'], ['--equal-cut'], ['--shares', '1,1,1,1'])
        for ranks, threads, some_ways in ((4, 1, all_ways), (3, 2, all_ways[:2])):
            for algorithm, options in {**command.OPTIONS, **command.ONE_WAY}.items():
                for ways in some_ways:
                    if algorithm in command.ONE_WAY and '--mode' in ways:
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

    @unittest.skipIf(command.ADDRESS, 'the address sanitizer maps far more itself')
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
        for word in ('info', 'wcc'):
            self.assertIn('"edges": 2', self.good(word, '\udcff.el', '--json'))

    def test_results_that_cannot_be_printed(self):
        self.write('g.el', '0 1\n1 2\n')
        for word in ('info', 'wcc'):
            with open('/dev/full', 'wb') as full:
                done = subprocess.run([command.GRAPH, word, self.path('g.el')], stdout=full, text=True,
                                      stderr=subprocess.PIPE, timeout=command.DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn('cannot print the result: No space left', done.stderr)


if __name__ == '__main__':
    command.main()
