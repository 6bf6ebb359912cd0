#!/usr/bin/env python3
"""Runs of weft-graph whose processes are killed: they end with the result of an undisturbed one.

  restart_test.py WEFT_GRAPH WEFTRUN

SEED sets other moments of death (it is printed), ROUNDS how many runs each algorithm gets.
"""
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import command

GRAPH = WEFTRUN = None
DEADLINE_S = 120
SEED = int(os.environ.get('SEED', random.randrange(1 << 30)))
ROUNDS = int(os.environ.get('ROUNDS', '1'))
RANKS = 3

# Each takes so many steps that it is not over before it is killed.
RUNS = {
    'bfs': ('grid', ['bfs', '--source', '0'], []),
    'bfs in mode paper': ('grid', ['bfs', '--source', '0'], ['--mode', 'paper']),
    'sssp': ('grid', ['sssp', '--source', '7'], []),
    'pagerank': ('rmat', ['pagerank', '--iterations', '60'], []),
    'wcc': ('rmat', ['wcc'], []),
    'wcc in mode paper': ('grid', ['wcc'], ['--mode', 'paper']),
    'cdlp': ('rmat', ['cdlp', '--iterations', '60'], []),
    'lcc': ('rmat', ['lcc'], []),
    'triangles': ('rmat', ['triangles'], []),
    'kcore': ('rmat', ['kcore'], []),
    'betweenness': ('rmat', ['betweenness', '--source', ','.join(map(str, range(0, 40)))], []),
}


class Restart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.random = random.Random(SEED)
        cls.graphs = tempfile.TemporaryDirectory(prefix='weft-restart-')
        for name, words in (('rmat', ['rmat', '--scale', '9']),
                            ('grid', ['grid', '--width', '60', '--height', '20']),
                            ('other', ['rmat', '--scale', '9', '--seed', '2'])):
            subprocess.run([GRAPH, 'generate', words[0], f'{cls.graphs.name}/{name}.bin', *words[1:]],
                           check=True, timeout=DEADLINE_S)

    @classmethod
    def tearDownClass(cls):
        cls.graphs.cleanup()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weft-restart-')
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def graph(self, name):
        return f'{self.graphs.name}/{name}.bin'

    def command(self, graph, words, *more, restarts=5, ranks=RANKS):
        restart = ['--restart', str(restarts)] if restarts else []
        return [WEFTRUN, '-n', str(ranks), *restart, '--timeout', str(DEADLINE_S), GRAPH, words[0], self.graph(graph),
                *words[1:], '--checkpoint', 'c', '--checkpoint-every', '0', *more]

    def run_it(self, *command, status=0):
        done = subprocess.run(command, cwd=self.folder.name, text=True, capture_output=True, check=False,
                              timeout=DEADLINE_S + 10)
        self.assertEqual(done.returncode, status, f'{command}: {done.stderr}')
        return done

    def verify(self, graph, words, result):
        self.run_it(GRAPH, 'verify', words[0], self.graph(graph), result, *words[1:])

    def start(self, command):
        log = open(self.path('log'), 'a+', encoding='utf-8')  # pylint: disable=consider-using-with
        self.addCleanup(log.close)
        job = subprocess.Popen(command, cwd=self.folder.name, stdout=log, stderr=log)
        self.addCleanup(lambda: (job.kill(), job.wait()))
        return job

    def log(self):
        with open(self.path('log'), encoding='utf-8') as file:
            return file.read()

    def wait_for(self, job, is_there):
        """False if the job ends before."""
        end = time.monotonic() + DEADLINE_S
        while not is_there():
            if job.poll() is not None:
                return False
            self.assertLess(time.monotonic(), end, self.log())
            time.sleep(0.001)
        return True

    def ranks(self, job):
        return sorted(pid for pid, name in command.children_of(job.pid) if name == 'weft-graph')

    def kill_one(self, job):
        """Rank 0, which writes, as often as another."""
        pids = self.ranks(job)
        if not pids:
            return
        try:
            os.kill(pids[self.random.choice([0, 0, *range(len(pids))])], signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended meanwhile

    def check_end(self, job, graph, words):
        self.assertEqual(job.wait(DEADLINE_S + 10), 0, self.log())
        self.verify(graph, words, 'result')
        left = {name for name in os.listdir(self.folder.name) if '.part-' not in name}
        self.assertEqual(left, {'log', 'result'}, 'the checkpoint goes with the end')
        os.remove(self.path('result'))

    def test_any_process_is_killed_at_any_time(self):
        num_restarts = num_gone_on = 0
        for _ in range(ROUNDS):
            for name, (graph, words, ways) in RUNS.items():
                with self.subTest(name=name, seed=SEED):
                    job = self.start(self.command(graph, words, *ways, '--out', 'result'))
                    for _ in range(self.random.randrange(1, 4)):
                        # As soon as there is a state, or at any other moment.
                        if self.random.random() < 0.6 and not self.wait_for(
                                job, lambda: os.path.exists(self.path('c'))):
                            break
                        time.sleep(self.random.random() ** 2 * 0.15)
                        self.kill_one(job)
                    self.check_end(job, graph, words)
                    num_restarts += self.log().count('starting the job again')
                    num_gone_on += self.log().count('weft-graph: goes on from')
                    os.remove(self.path('log'))
        self.assertGreater(num_restarts, 0)
        self.assertGreater(num_gone_on, 0)

    def test_weftrun_is_killed_and_started_again_by_hand(self):
        words = ['pagerank', '--iterations', '400']
        for ranks in (3, 2, 4):
            job = self.start(self.command('rmat', words, '--out', 'result', restarts=0, ranks=ranks))
            if self.wait_for(job, lambda: os.path.exists(self.path('c'))):
                time.sleep(self.random.random() * 0.1)
                job.kill()
            job.wait()
            self.wait_for_end(job.pid)
        # By one process without weftrun.
        done = self.run_it(GRAPH, 'pagerank', self.graph('rmat'), *words[1:], '--out', 'result', '--checkpoint', 'c')
        self.assertIn('weft-graph: goes on from c of ', done.stderr)
        self.assertIn(' iterations=400 ', done.stdout)
        self.verify('rmat', words, 'result')
        self.assertFalse(os.path.exists(self.path('c')))

    def wait_for_end(self, launcher):
        end = time.monotonic() + DEADLINE_S
        while any(name == 'weft-graph' for _, name in command.children_of(launcher)):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_several_sources(self):
        words = ['sssp', '--source', '0,7,600,33']
        right = self.run_it(GRAPH, 'sssp', self.graph('grid'), *words[1:]).stdout
        job = self.start(self.command('grid', words, '--out', 'result'))
        # After the first has ended.
        if self.wait_for(job, lambda: os.path.exists(self.path('result.0')) and
                         os.path.exists(self.path('c'))):
            time.sleep(self.random.random() * 0.05)
            self.kill_one(job)
        self.assertEqual(job.wait(DEADLINE_S + 10), 0, self.log())
        found = [line.partition(' steps=')[0] for line in self.log().splitlines() if line.startswith('sssp ')]
        self.assertEqual(found[-4:], [line.partition(' steps=')[0] for line in right.splitlines()])
        for source in (0, 7, 600, 33):
            self.verify('grid', ['sssp', '--source', str(source)], f'result.{source}')

    def save(self, graph, words):
        """Leaves the last state, as the result cannot be written over a folder."""
        self.run_it(*self.command(graph, words, '--out', '.'), status=2)
        self.assertTrue(os.path.exists(self.path('c')))

    def refused(self, reasons, *command):
        with open(self.path('c'), 'rb') as file:
            before = file.read()
        done = self.run_it(*command, status=2)
        lines = [line for line in done.stderr.splitlines() if line.startswith('weft-graph: ')]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertNotIn('again (restart', done.stderr)
        for reason in reasons:
            self.assertIn(reason, lines[0])
        with open(self.path('c'), 'rb') as file:
            self.assertEqual(file.read(), before)

    def test_a_state_of_something_else_is_refused_and_stays(self):
        self.save('rmat', ['pagerank', '--tolerance', '0.5'])
        for words, reason in ((['pagerank'], 'is "pagerank"'),
                              (['pagerank', '--tolerance', '0.25'], 'is "pagerank --tolerance 0.25"'),
                              (['cdlp'], 'is "cdlp"')):
            self.refused(['c: is of the run "pagerank --tolerance 0.5"', reason], *self.command('rmat', words))
        words = ['pagerank', '--tolerance', '0.5']
        self.refused(['c: is of a graph of '], *self.command('grid', words))
        self.refused(['c: is of a graph '], *self.command('other', words))
        self.refused(['and --iterations is 1:'], *self.command('rmat', [*words, '--iterations', '1']))
        with open(self.path('c'), 'rb') as file:
            whole = file.read()
        for name, damaged in (('size', whole[:-1]), ('size', whole[:100]), ('checkpoint', whole[:40]),
                              ('checkpoint', b''), ('checkpoint', whole[:20] + b'?' + whole[21:]),
                              ('damaged', whole[:70] + b'?' + whole[71:]),
                              ('damaged', whole[:-99] + bytes([whole[-99] ^ 1]) + whole[-98:])):
            with open(self.path('c'), 'wb') as file:
                file.write(damaged)
            self.refused([name, 'remove this one'], *self.command('rmat', words))
        with open(self.path('c'), 'wb') as file:
            file.write(whole)
        done = self.run_it(*self.command('rmat', words, '--out', 'result'))
        self.assertIn('weft-graph: goes on from c of ', done.stderr)
        self.verify('rmat', words, 'result')

    def test_results_of_ended_searches_stay_where_they_are(self):
        words = ['sssp', '--source', '0,7']
        os.mkdir(self.path('result.7'))  # the second cannot be written
        self.run_it(*self.command('grid', words, '--out', 'result'), status=2)
        self.verify('grid', ['sssp', '--source', '0'], 'result.0')
        for more in ([], ['--out', 'other'], ['--out', 'result', '--out-format', 'binary']):
            self.refused(['c: is of the run "sssp --source 0,7 --out result"'], *self.command('grid', words, *more))
        os.rmdir(self.path('result.7'))
        done = self.run_it(*self.command('grid', words, '--out', 'result'))
        self.assertIn('weft-graph: goes on from c of ', done.stderr)
        self.verify('grid', ['sssp', '--source', '7'], 'result.7')

    def test_states_are_saved_by_time(self):
        words = [self.graph('rmat'), '--checkpoint', 'c', '--checkpoint-every', '1']
        job = self.start([WEFTRUN, '-n', str(RANKS), '--timeout', str(DEADLINE_S), GRAPH, 'pagerank', *words,
                          '--iterations', '100000000'])
        self.assertTrue(self.wait_for(job, lambda: os.path.exists(self.path('c'))), self.log())
        self.kill_one(job)
        self.assertNotEqual(job.wait(DEADLINE_S + 10), 0, self.log())
        self.assertNotIn('again (restart', self.log())
        with open(self.path('c'), 'rb') as file:
            step = struct.unpack_from('<I', file.read(), 16)[0]
        self.assertGreater(step, 1)
        iterations = ['--iterations', str(step + 2)]
        done = self.run_it(WEFTRUN, '-n', '2', GRAPH, 'pagerank', *words, *iterations, '--out', 'result')
        self.assertIn(f', after step {step}; ', done.stderr)
        self.verify('rmat', ['pagerank', *iterations], 'result')

    def test_a_run_that_ended_well_leaves_no_state(self):
        words = ['pagerank', '--iterations', '5']
        for _ in range(2):
            done = self.run_it(*self.command('rmat', words))
            self.assertNotIn('goes on', done.stderr)
            self.assertEqual(os.listdir(self.folder.name), [])
        # In a folder each algorithm has a file of its own.
        os.mkdir(self.path('states'))
        for algorithm in ('kcore', 'cdlp'):
            self.run_it(GRAPH, algorithm, self.graph('rmat'), '--checkpoint', 'states', '--checkpoint-every', '0',
                        '--out', '.', status=2)
        self.assertEqual(sorted(os.listdir(self.path('states'))), ['cdlp.checkpoint', 'kcore.checkpoint'])
        done = self.run_it(GRAPH, 'cdlp', self.graph('rmat'), '--checkpoint', 'states')
        self.assertIn('goes on from states/cdlp.checkpoint of ', done.stderr)
        self.assertEqual(os.listdir(self.path('states')), ['kcore.checkpoint'])


if __name__ == '__main__':
    GRAPH, WEFTRUN = (os.path.abspath(name) for name in sys.argv[1:3])
    print(f'SEED={SEED}', flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
