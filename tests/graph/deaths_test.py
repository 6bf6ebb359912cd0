#!/usr/bin/env python3
"""States that weft-graph saves, and processes that are killed.

  deaths_test.py WEFT_GRAPH WEFTRUN
"""
import contextlib
import os
import re
import signal
import struct
import subprocess
import time

import command


class Deaths(command.Command):
    def test_checkpoints(self):
        self.good('generate', 'grid', 'grid.bin', '--width', '40', '--height', '5')
        self.good('generate', 'rmat', 'rmat.bin', '--scale', '10')
        folders = ('taken', 'taken.3')  # a result's name, of one search and of the first of several
        for algorithm, graph, options, modes in (
                ('bfs', 'grid.bin', ['--source', '3'], command.MODES),
                ('bfs', 'grid.bin', ['--source', '3,5,4'], ['push', 'auto']),
                ('sssp', 'grid.bin', ['--source', '3'], command.MODES),
                ('sssp', 'grid.bin', ['--source', '3,5,4'], command.MODES),
                ('pagerank', 'rmat.bin', [], command.MODES),
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
                        for folder in folders:
                            os.mkdir(self.path(folder))
                        done = self.run_it(algorithm, graph, *options, *words, '--checkpoint', 'c', '--out', 'taken',
                                           '--checkpoint-every', '0', ranks=2)
                        self.assertEqual(done.returncode, 2)
                        for folder in folders:
                            os.rmdir(self.path(folder))
                        words = [] if mode is None else ['--mode', mode]
                        done = self.run_it(algorithm, graph, *options, *words, '--checkpoint', 'c', '--out', 'taken',
                                           ranks=ranks)
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertEqual(done.stderr.count('weft-graph: goes on from c of '), 1)
                        for one, other in zip(right.splitlines(), done.stdout.splitlines(), strict=True):
                            one = one.partition(' steps=')[0]
                            self.assertTrue(command.same(one, other), f'expected {one}\ngot {other}')
                        self.assertFalse(os.path.exists(self.path('c')))
                        for name in os.listdir(self.folder.name):
                            if name.startswith('taken'):
                                os.remove(self.path(name))
        os.mkfifo(self.path('pipe'))
        self.bad('not a checkpoint', 'pagerank', 'rmat.bin', '--checkpoint', 'pipe', ranks=3)
        self.bad('not a checkpoint', 'pagerank', 'rmat.bin', '--checkpoint', 'grid.bin', ranks=3)
        self.bad('leave out --repeat', 'pagerank', 'rmat.bin', '--checkpoint', 'c', '--repeat', '2')

    def ranks_of(self, launcher):
        """Process ids of weft-graph below the launcher."""
        return sorted(pid for pid, name in command.children_of(launcher) if name == 'weft-graph')

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
        self.assertTrue(command.same(right, self.good('pagerank', 'g.bin', '--iterations', str(step + 2),
                                              '--checkpoint', 'c', ranks=2)))

    def test_a_process_is_killed_at_any_moment(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '14')
        self.good('convert', 'g.bin', 'g.wel')
        for number in range(6):
            with self.subTest(number=number):
                job = subprocess.Popen([command.WEFTRUN, '-n', '3', '--timeout', '60', command.GRAPH, 'sssp',
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
        job = subprocess.Popen([command.WEFTRUN, '-n', '3', '--timeout', '60', command.GRAPH, 'pagerank', 'g.bin',
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
    command.main()
