#!/usr/bin/env python3
"""weft-mcroute as a user runs it: that its commands compose, and what it says to bad input.

  cli_test.py WEFT_MCROUTE

Whatever is wrong with the input, the exit status is 2, standard error names the reason (with file
and line where it is in a file), and no file is written, not even in part.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

MCROUTE = None
DEADLINE_S = 120


class Cli(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weft-cli-')
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)
        return name

    def read(self, name):
        with open(self.path(name), encoding='utf-8') as file:
            return file.read()

    def run_it(self, command):
        return subprocess.run([MCROUTE, *command.split()], cwd=self.folder.name, text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False)

    def good(self, command, into=None):
        done = self.run_it(command)
        self.assertEqual(done.returncode, 0, f'{command}: {done.stderr}')
        if into:
            self.write(into, done.stdout)
        return done.stdout

    def bad(self, command, *reasons):
        before = sorted(os.listdir(self.folder.name))
        done = self.run_it(command)
        for reason in reasons:
            self.assertIn(reason, done.stderr, command)
        self.assertEqual(done.returncode, 2, f'{command}: {done.stderr}')
        self.assertEqual(sorted(os.listdir(self.folder.name)), before, command)
        self.assertNotIn('terminate called', done.stderr)

    def can_install(self):
        return 'built without' not in self.run_it('install --topology net --tables t').stderr

    def small(self):
        """A small fabric, groups and tables."""
        self.good('topo torus 4 4 2 2', into='net')
        self.good('groups random 30x5 --topology net', into='groups')
        self.good('route --topology net --groups groups --colors 8 --tables tables')

    def test_commands_compose(self):
        # As the documentation has it.
        script = '''set -e
            weft-mcroute topo fat-tree --ports 40 > ft.net
            weft-mcroute groups grid 40x20x20 --topology ft.net > g.txt
            weft-mcroute route --topology ft.net --groups g.txt --algorithm mr4lms --colors 128 \\
              --json r.json --tables t.mcfdbs
            weft-mcroute verify --topology ft.net --groups g.txt --tables t.mcfdbs'''
        path = os.path.dirname(MCROUTE) + ':' + os.environ['PATH']
        done = subprocess.run(['sh', '-c', script], cwd=self.folder.name, text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False,
                              env={**os.environ, 'PATH': path})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('2000 groups, every member gets exactly one copy', done.stdout)
        report = json.loads(self.read('r.json'))
        self.assertEqual(report['groups'], 2000)
        self.assertEqual(len(report['per_group']), 2000)
        self.assertLessEqual(report['colors'], 128)
        self.assertEqual(sorted(os.listdir(self.folder.name)),
                         ['ft.net', 'g.txt', 'r.json', 't.mcfdbs'])

    def test_every_algorithm_and_form(self):
        self.small()
        for algorithm in 'mr4lms', 'opensm-minhop', 'opensm-sssp', 'paper-sssp':
            self.good(f'route --topology net --groups groups --algorithm {algorithm} --json j '
                      '--tables t --dump-fts d')
            self.assertIn('30 groups', self.good('verify --topology net --groups groups t'))
            self.good('verify --topology net --groups groups --tables d')
            json.loads(self.read('j'))
        one_copy = self.good('verify --topology net --groups groups --tables d --colors 30')
        self.assertIn('exactly one copy', one_copy)

    def test_groups_come_and_go(self):
        self.small()
        self.write('trace', ''.join(f'create {g}\n' for g in range(30)) +
                   'delete 3\ndelete 4\ncreate 3\n# done\n')
        said = self.good('route --topology net --groups groups --colors 8 --trace trace --tables t')
        self.assertEqual(said.count('entries rewritten'), 33)
        self.assertIn('groups       29', said)
        self.bad('verify --topology net --groups groups t', 'group 4: ')
        lines = self.read('groups').splitlines(True)
        self.write('alive', ''.join(line for line in lines if not line.startswith('4 ')))
        self.good('verify --topology net --groups alive t')

    def test_members_come_and_go(self):
        self.small()
        lines = self.read('groups').splitlines(True)
        self.write('few', ''.join(lines[:3]) + 'alone ' + lines[0].split()[1] + '\n')
        said = self.good('route --topology net --groups few')
        self.assertIn('one member   1, which need no entry', said)
        self.assertIn('groups       3', said)
        first, last = lines[0].split()[1], lines[0].split()[-1]
        there = lines[1].split()[1:]
        new = next(word for word in lines[2].split()[1:] if word not in there)
        self.write('trace', f'create alone\njoin alone {last}\nleave alone {first}\n'
                   f'create {lines[1].split()[0]}\njoin {lines[1].split()[0]} {new}\n')
        said = self.good('route --topology net --groups few --trace trace --tables t')
        self.assertEqual(said.count('entries rewritten'), 5)
        self.write('after', lines[1].rstrip() + f' {new}\nalone {last}\n')
        self.good('verify --topology net --groups after t')

    def test_what_has_not_changed_stays(self):
        self.small()
        self.good('route --topology net --groups groups --tables t')
        said = self.good('route --topology net --groups groups --previous t --tables u')
        self.assertIn('kept         30 groups, 0 entries rewritten', said)
        self.assertEqual(self.read('t'), self.read('u'))
        lines = self.read('groups').splitlines(True)
        new = next(word for word in lines[1].split()[1:] if word not in lines[0].split())
        lines[0] = lines[0].rstrip() + f' {new}\n'
        self.write('more', ''.join(lines))
        said = self.good('route --topology net --groups more --previous t --tables u')
        self.assertRegex(said, 'kept         29 groups, [1-9][0-9]* entries rewritten')
        self.good('verify --topology net --groups more u')
        self.bad('route --topology net --groups more --previous nothing', 'nothing: cannot be read')
        self.bad('route --topology net --groups more --previous t --algorithm paper-sssp', 'mr4lms')

    def test_bad_topologies(self):
        self.small()
        net = self.read('net')
        cable = '[1]\t"H-0"[1]\n'
        self.assertIn(cable, net)
        for text, reason in (
                (net[:len(net) // 2], 'bad:'), (net[:-30], 'bad:'),
                (net.replace(cable, '', 1), 'the far end S-0[1] says otherwise'),
                (net.replace(cable, '[1]\t"H-1"[1]\n', 1), 'bad:3: the far end H-1[1] says other'),
                (net.replace(cable, '[9]\t"H-0"[1]\n', 1), 'bad:3: port 9 of S-0, which has 8'),
                (net.replace(cable, '[1]\t"H-0"[2]\n', 1), 'bad:3: port 2 of H-0, which has 1'),
                (net.replace(cable, '[1]\t"Q-0"[1]\n', 1), 'bad:3: unknown node Q-0'),
                (net.replace('switchguid=0x200100', 'switchguid=0x200000'), 'duplicate GUID'),
                ('', 'bad:0: no node in the file')):
            self.write('bad', text)
            self.bad('groups random 2x2 --topology bad', reason)
            self.bad('route --topology bad --groups groups --tables t --json j', reason)
            self.bad('verify --topology bad --groups groups --tables tables', reason)
            self.bad('install --topology bad --tables tables', *([reason] if self.can_install()
                                                                 else ['built without libibmad']))
        self.bad('groups random 2x2 --topology nothing', 'nothing: cannot be read')
        self.bad('groups random 2x2 --topology .', '.: cannot be read')

    def test_bad_groups(self):
        self.small()
        for text, reason in (
                ('0 H-0 H-1\n1 H-0 H-99\n', 'bad:2: unknown member H-99'),
                ('0 H-0 H-1 H-0\n', 'bad:1: member H-0 is there twice'),
                ('0\n', 'bad:1: group 0 has no members'),
                ('0 H-0 H-1\n\n0 H-1 H-2\n', 'bad:3: group 0 again'),
                (self.read('groups')[:-5], 'bad:30: cut off')):
            self.write('bad', text)
            self.bad('route --topology net --groups bad --tables t --json j --dump-fts d', reason)
            self.bad('verify --topology net --groups bad --tables tables', reason)
        self.bad('route --topology net --groups nothing --tables t', 'nothing: cannot be read')
        # Two fabrics in one file: members that cannot reach each other.
        other = self.read('net').replace('0x2', '0x7').replace('(2', '(7').replace('-', '-x')
        self.write('two', self.read('net') + other)
        self.write('bad', '0 H-0 H-1\n1 H-2 H-x5\n')
        for algorithm in 'mr4lms', 'opensm-minhop', 'opensm-sssp', 'paper-sssp':
            self.bad(f'route --topology two --groups bad --algorithm {algorithm} --tables t',
                     'bad:2: member H-x5 cannot be reached')

    def test_bad_sizes_and_options(self):
        self.small()
        route = 'route --topology net --groups groups --tables t '
        for colors in '0', '-1', '16384', 'x', '1x', '99999999999999999999':
            self.bad(route + '--colors ' + colors, 'colors')
        self.bad(route + '--algorithm best', 'algorithm')
        self.bad(route + '--refine 0', 'refine')
        self.bad(route + '--nonsense', 'nonsense')
        self.bad('route --topology net', '--groups')
        self.bad('', 'a command is missing')
        for grid in '0x4', '4', '4xx4', 'axb', '1000000x1000000', '-1x4':
            self.bad(f'groups grid {grid} --topology net')
        self.bad('groups grid 40x40 --topology net', 'the fabric 64')
        self.bad('groups grid 4x4 --per-host 0 --topology net', 'per host')
        self.bad('groups random 4x1 --topology net', '2 members')
        self.bad('groups random 4x65 --topology net', 'hosts')
        for kind in ('fat-tree', 'fat-tree 3', 'fat-tree 0', 'fat-tree 300', 'torus 1 2 3',
                     'torus 0 1 1 1', 'dragonfly 200 200 200', 'random 1 2', 'moebius 3',
                     'torus 4294967296 1 1 1'):
            self.bad('topo ' + kind)

    def test_bad_traces(self):
        self.small()
        for text, reason in (
                ('create 0\ncreate 1\ndel', 'bad:3: cut off'),
                ('create 0\ncrea', 'bad:2: cut off'), ('create 99\n', 'bad:1: unknown group 99'),
                ('delete 0\n', 'bad:1: group 0 is not there'),
                ('create 0\ncreate 0\n', 'bad:2: group 0 is there already'),
                ('destroy 0\n', 'bad:1: expected create, delete, join or leave'),
                ('create 0\njoin 0 H-99999\n', 'bad:2: unknown member H-99999'),
                ('leave 0 H-0\n', 'bad:1: group 0 is not there')):
            self.write('bad', text)
            self.bad('route --topology net --groups groups --trace bad --tables t --json j', reason)
        self.bad('route --topology net --groups groups --trace nothing', 'nothing: cannot be read')

    def test_bad_tables(self):
        self.small()
        tables = self.read('tables')
        lines = tables.splitlines(True)
        for text, reason in (
                (tables[:-4], 'the last line is cut off'), ('', 'no entry reaches its members'),
                (''.join(lines[:len(lines) // 2]), 'group'),
                (tables.replace('Switch 0x', 'Switch 0y'), 'bad:2: expected MLID'),
                (tables.replace('Switch 0x0000000000200000', 'Switch 0x0000000000200001'),
                 'the fabric has no switch 0x200001'),
                (tables.replace(' 0x001 ', ' 0x009 '), 'no port 9'),
                (tables.replace(' 0x001 ', ''), 'group')):
            self.write('bad', text)
            self.bad('verify --topology net --groups groups --tables bad', reason)
        self.bad('verify --topology net --groups groups --tables nothing', 'cannot be read')
        self.bad('verify --topology net --groups groups --tables tables --colors 2', 'entries of 2')

    def test_outputs_all_or_none(self):
        self.small()
        os.mkdir(self.path('folder'))
        route = 'route --topology net --groups groups '
        self.bad(route + '--json j --tables no/where', 'no/where: cannot be written')
        self.bad(route + '--json folder --tables t', 'folder: is a directory')
        self.bad(route + '--tables t --dump-fts folder', 'folder: is a directory')
        self.write('t', 'as it was')
        self.bad(route + '--tables t --json folder', 'folder: is a directory')
        self.assertEqual(self.read('t'), 'as it was')
        self.good(route + '--tables t --json /dev/null')
        self.assertNotEqual(self.read('t'), 'as it was')

    def test_install_without_a_fabric(self):
        self.small()
        self.bad('install --topology net --tables tables --device none9',
                 'no InfiniBand' if self.can_install() else 'built without libibmad')
        self.bad('install --topology net', '--tables')

    def test_help(self):
        self.assertIn('install', self.good('--help'))
        for command in 'topo', 'groups', 'route', 'verify', 'install':
            self.assertIn('--', self.good(command + ' --help'))


if __name__ == '__main__':
    MCROUTE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
