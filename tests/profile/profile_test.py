#!/usr/bin/env python3
"""weft-profile and weftrun --profile on a program whose calls are known.

  profile_test.py WEFT_PROFILE WEFTRUN PROGRAM LINKED PAIRED

LINKED is the same program with the profiling library linked in, not loaded. Where it can't be
loaded (a sanitizer wants to come first) only that one runs: the test is told so by LINKED_ONLY.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

PROFILE = WEFTRUN = PROGRAM = LINKED = PAIRED = None
DEADLINE_S = 120


def run(command, expected=0, **env):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S,
                          env={**os.environ, **env})
    if done.returncode != expected:
        raise AssertionError(f'{command}: {done.returncode}\n{done.stdout}\n{done.stderr}')
    return done


class Profiled(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, 'p')

    def told(self, command, size, **env):
        done = run(command, **env)
        self.assertIn('as expected', done.stdout)
        self.assertIn(f' {size} process', done.stderr)
        with open(self.out + '.json', encoding='utf-8') as file:
            told = json.load(file)
        xml.dom.minidom.parse(self.out + '.svg')
        self.assertEqual(sorted(os.listdir(self.folder.name)), ['p.json', 'p.svg'])
        return done.stderr, told

    def check(self, stderr, told, size):
        calls = {(one['function'], one['communicator']): one for one in told['calls']}
        world = 'MPI_COMM_WORLD'
        reverse = f'reverse of {size}'

        def numbers(function, communicator):
            one = calls[function, communicator]
            return one['calls'], one['bytes']
        self.assertEqual(numbers('MPI_Sendrecv', world), (3 * size, 300 * size))
        self.assertEqual(numbers('MPI_Send', world), (size, 0))  # to MPI_PROC_NULL
        self.assertEqual(numbers('MPI_Send', ''), (size, 0))     # failed
        self.assertEqual(numbers('MPI_Allreduce', reverse), (2 * size, 20 * size))
        self.assertEqual(numbers('MPI_Barrier', world), (size, 0))
        self.assertEqual(numbers('MPI_Startall', ''), (2 * size, 0))
        self.assertEqual(numbers('MPI_Comm_dup', world), (100 * size, 0))
        self.assertEqual(numbers('MPI_Barrier', f'copy 0 of {size}'), (size, 0))
        self.assertNotIn(('MPI_Barrier', f'copy 99 of {size}'), calls)
        copies = sum(one['calls'] for (function, name), one in calls.items()
                     if function == 'MPI_Barrier' and name != world)
        self.assertEqual(copies, 100 * size)
        self.assertIn(('MPI_Barrier', 'others'), calls)
        for one in calls.values():
            self.assertGreaterEqual(one['longest_us'] * 1e-6, one['seconds'] / one['calls'] * 0.99)
        self.assertEqual(told['processes'], size)
        for all_s, mpi_s in zip(told['seconds'], told['seconds_in_mpi']):
            self.assertGreater(all_s, mpi_s)
        wanted = {}
        for rank in range(size):
            for to, messages, length in (((rank + 1) % size, 3, 300), ((rank - 1) % size, 2, 40)):
                before = wanted.get((rank, to), (0, 0))
                wanted[rank, to] = before[0] + messages, before[1] + length
        self.assertEqual({(one['from'], one['to']): (one['messages'], one['bytes'])
                          for one in told['messages']}, wanted)
        # Each process has both ends of its own messages, and all other ends are told to it.
        self.assertEqual(told['pairing']['paired'], 10 * size)
        self.assertEqual(told['pairing']['unpaired'], 0)
        self.assertEqual(told['pairing']['left_out'], 0)
        taken = {}
        for one in told['algorithms']:
            taken[one['collective']] = taken.get(one['collective'], 0) + one['calls']
            self.assertRegex(stderr, rf"(?m)^  {one['collective']}: .*{one['calls']} by {one['algorithm']}\b")
        if size > 1:
            self.assertGreaterEqual(taken['allreduce'], 2 * size)
            # Without those of MPI_Pcontrol(0).
            self.assertGreaterEqual(taken['barrier'], 101 * size)
            self.assertLess(taken['barrier'], 151 * size)
            joined = [one for one in told['collectives'] if one['function'] == 'MPI_Barrier']
            self.assertEqual(len(joined), 1)  # one for the same members, whatever the communicator
            self.assertEqual([member['calls'] for member in joined[0]['members']], [101] * size)
            self.assertIn(joined[0]['last'], range(size))
        else:
            self.assertEqual((taken, told['collectives']), ({}, []))
        # Which calls took longest, and so are in the table, is the machine's.
        self.assertGreater(len(re.findall(r'^  MPI_\w+ ', stderr, re.M)), 20)
        self.assertRegex(stderr, r'and \d+ more, which --out has')

    def test_linked(self):
        for size in (1, 3):
            with self.subTest(size=size):
                self.check(*self.told([WEFTRUN, '-n', str(size), LINKED], size,
                                      WEFT_PROFILE_OUT=self.out), size)

    @unittest.skipIf(os.environ.get('LINKED_ONLY'), 'a sanitizer wants to be loaded first')
    def test_loaded(self):
        for size in (1, 2, 5):
            with self.subTest(size=size):
                self.check(*self.told(
                    [WEFTRUN, '-n', str(size), PROFILE, '--out', self.out, PROGRAM], size), size)

    @unittest.skipIf(os.environ.get('LINKED_ONLY'), 'a sanitizer wants to be loaded first')
    def test_weftrun(self):
        self.check(*self.told([WEFTRUN, '-n', '3', '--profile-out', self.out, PROGRAM], 3), 3)
        done = run([WEFTRUN, '-n', '2', '--profile', '--stats', PROGRAM])
        self.assertRegex(done.stderr, r'(?m)^  MPI_\w+ ')
        self.assertEqual(len(re.findall(r'^weft: rank \d of 2', done.stderr, re.M)), 2)

    def test_trace(self):
        path = os.path.join(self.folder.name, 'run.json')
        run([WEFTRUN, '-n', '2', '--trace', path, PROGRAM])
        for rank in range(2):
            with open(path.replace('.json', f'.{rank}.json'), encoding='utf-8') as file:
                events = json.load(file)
            names = [event['name'] for event in events]
            self.assertEqual(names.count('MPI_Sendrecv'), 3)
            self.assertEqual(names.count('MPI_Comm_dup'), 101)
            self.assertTrue(all(event['dur'] >= 0 for event in events if event['ph'] == 'X'))
        self.assertEqual(sorted(os.listdir(self.folder.name)), ['run.0.json', 'run.1.json'])

    def test_waits(self):
        """Rank 0 waits for rank 1 to send, and rank 1 for rank 0 to receive, half a second each."""
        for attempt in range(5):  # on a machine that lets a rank sleep as long, nobody waits
            done = run([WEFTRUN, '-n', '3', LINKED, 'late'], WEFT_PROFILE_OUT=self.out)
            with open(self.out + '.json', encoding='utf-8') as file:
                told = json.load(file)
            # The messages of all kinds of receives: 8 to the right, and 3 of ranks 0 and 1.
            self.assertEqual(told['pairing']['paired'], 2 * (8 * 3 + 3), told['pairing'])
            self.assertEqual(told['pairing']['unpaired'], 0, told['pairing'])
            found = {(one['rank'], one['for'], one['reason']): one for one in told['waits']}
            sender = found.get((0, 1, 'late sender'), {}).get('seconds', 0)
            receiver = found.get((1, 0, 'late receiver'), {}).get('seconds', 0)
            if sender > 0.01 and receiver > 0.01:
                break
        self.assertGreater(sender, 0.01, (attempt, told))
        self.assertGreater(receiver, 0.01, (attempt, told))
        for one in told['waits']:
            self.assertGreaterEqual(one['blocked_seconds'] + 1e-9, one['seconds'])
        self.assertRegex(done.stderr, r'(?m)^  .* for rank 1 \(late sender, \d+ calls?\)')
        self.assertRegex(done.stderr, r'(?m)^  .* for rank 0 \(late receiver, \d+ calls?\)')
        with open(self.out + '.svg', encoding='utf-8') as file:
            self.assertIn('rank that waited', file.read())

    def paired(self, case, size):
        """Returns what the file says of that case of paired.c, and the text."""
        done = run([WEFTRUN, '-n', str(size), PAIRED, case], WEFT_PROFILE_OUT=self.out)
        self.assertEqual(done.stdout, '')
        with open(self.out + '.json', encoding='utf-8') as file:
            told = json.load(file)
        return told, told['pairing']['paired'], told['pairing']['unpaired'], done.stderr

    def test_pairs(self):
        for size in (1, 3):
            with self.subTest(size=size):
                self.assertEqual(self.paired('fail', size)[1:3], (2 * 10 * 4 * size, 0))
                self.assertEqual(self.paired('thread', size)[1:3], (2 * 50 * (1 + 2 + 3 + 4) * size, 0))
        self.assertEqual(self.paired('session', 3)[1:3], (0, 0))
        told, num_paired, num_unpaired, _ = self.paired('cross', 3)
        self.assertEqual((num_paired, num_unpaired), (4, 1))
        calls = {(one['function'], one['last'] if one['function'] == 'MPI_Bcast' else None):
                 [member['calls'] for member in one['members']] for one in told['collectives']}
        # A root is waited for; a rank from which data are gathered is not known to be.
        self.assertEqual(calls, {('MPI_Barrier', None): [5] * 3, ('MPI_Bcast', 0): [3] * 3,
                                 ('MPI_Bcast', 1): [3] * 3})
        told, num_paired, num_unpaired, text = self.paired('overflow', 1)
        self.assertEqual((num_paired, num_unpaired, told['pairing']['left_out']), (2 << 17, 0, 1000))
        self.assertIn('without 1000 sends and receives', text)

    def test_death(self):
        """Without all processes the others tell of themselves alone; nothing hangs."""
        done = subprocess.run([WEFTRUN, '-n', '3', '--on-death', 'continue', LINKED, 'leave'],
                              capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stderr.count('rank 1 (pid'), 3, done.stderr)  # theirs, and weftrun's
        self.assertEqual(done.stderr.count('only its own calls follow'), 2, done.stderr)
        self.assertRegex(done.stderr, r'to [0-9.]+ s \(rank 0\)')
        self.assertRegex(done.stderr, r'to [0-9.]+ s \(rank 2\)')

    @unittest.skipIf(os.environ.get('LINKED_ONLY'), 'a sanitizer wants to be loaded first')
    def test_errors(self):
        self.assertIn('which program?', run([PROFILE], expected=2).stderr)
        self.assertIn('cannot run', run([PROFILE, '/nonexistent/x'], expected=127).stderr)
        self.assertIn('cannot run', run([PROFILE, '/etc'], expected=126).stderr)
        # A place that cannot be written to is known before the program runs.
        done = run([PROFILE, '--out', '/nonexistent/p', PROGRAM], expected=2)
        self.assertRegex(done.stderr, 'weft-profile: --out /nonexistent/p: cannot write in /nonexistent: No such')
        done = run([WEFTRUN, '-n', '2', '--profile-out', '/nonexistent/p', PROGRAM], expected=2)
        self.assertRegex(done.stderr, 'weftrun: --profile-out /nonexistent/p: cannot write in /nonexistent: No such')
        self.assertEqual(done.stdout, '')
        # What is no MPI program runs as ever.
        self.assertEqual(run([PROFILE, 'echo', '--out', 'x']).stdout, '--out x\n')


if __name__ == '__main__':
    PROFILE, WEFTRUN, PROGRAM, LINKED, PAIRED = sys.argv[1:6]
    unittest.main(argv=sys.argv[:1], verbosity=2)
