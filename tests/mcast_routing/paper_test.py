#!/usr/bin/env python3
"""weft-mcroute paper at small scale: every run and figure is there, and the numbers hold together.

Also the JSON of one routing, and that deleting and creating groups rewrites only tables of theirs.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

MCROUTE = sys.argv.pop(1)


class Paper(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def run_ok(self, *arguments):
        done = subprocess.run([MCROUTE, *arguments], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def path(self, name):
        return os.path.join(self.dir, name)

    def save(self, name, text):
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)
        return self.path(name)

    @unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot is not installed')
    def test_quick(self):
        self.run_ok('paper', '--quick', '--out', self.dir)
        with open(self.path('results.json'), encoding='utf-8') as file:
            runs = json.load(file)['runs']
        sizes = [runs.pop(f'scaling-{ports}') for ports in (6, 8, 10)]
        self.assertEqual([size['random']['unlimited']['groups'] for size in sizes], [27, 64, 125])
        self.assertEqual(len(runs), 6)
        for fabric, patterns in runs.items():
            for pattern, run in patterns.items():
                with self.subTest(fabric=fabric, pattern=pattern):
                    ours = run['unlimited']
                    self.assertEqual(ours['trees'], ours['groups'])
                    self.assertLess(ours['colors'], ours['groups'])
                    self.assertLessEqual(ours['max_efi'], run['opensm-minhop']['max_efi'])
                    self.assertLessEqual(ours['max_efi'], run['opensm-sssp']['max_efi'])
                    limited = run['recommended']
                    self.assertEqual(sum(limited['groups_of_color']), ours['groups'])
                    self.assertLessEqual(limited['colors'], 16)
        for name in ([f'figure{n}' for n in range(6, 13)] + [f'heat-{f}' for f in runs] +
                     ['scaling']):
            xml.dom.minidom.parse(self.path(name + '.svg'))
        with open(self.path('index.html'), encoding='utf-8') as file:
            page = file.read()
        self.assertIn('figure12.svg', page)
        # A second call has nothing to run, and the other scale is refused.
        self.run_ok('paper', '--quick', '--out', self.dir)
        done = subprocess.run([MCROUTE, 'paper', '--out', self.dir], capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2)

    @unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot is not installed')
    def test_only_part(self):
        self.run_ok('paper', '--quick', '--only', 'scaling', '--out', self.dir)
        self.assertIn('scaling.svg', os.listdir(self.dir))
        self.assertNotIn('figure6.svg', os.listdir(self.dir))
        self.run_ok('paper', '--quick', '--only', 'paper-torus', '--runs', 'minhop', '--out', self.dir)
        self.assertIn('figure7.svg', os.listdir(self.dir))

    def test_json_per_group(self):
        net = self.save('t.net', self.run_ok('topo', 'torus', '4', '4', '2', '2'))
        groups = self.save('t.groups', self.run_ok('groups', 'grid', '8x8', '--topology', net))
        self.run_ok('route', '--topology', net, '--groups', groups, '--json', self.path('r.json'))
        with open(self.path('r.json'), encoding='utf-8') as file:
            result = json.load(file)
        each = result['per_group']
        self.assertEqual(len(each), result['groups'])
        self.assertEqual(max(g['efi'] for g in each), result['max_efi'])
        self.assertEqual(max(g['height'] for g in each), result['max_height'])
        self.assertEqual(len({g['color'] for g in each}), result['colors'])
        self.assertLessEqual(sum(g['ms'] for g in each) / 1e3, result['seconds'])
        # 8 hosts in a row along x hang on 4 switches: no tree over them is higher than 2.
        self.assertEqual(min(g['height'] for g in each), 2)

    def test_trace_rewrites_little(self):
        net = self.save('f.net', self.run_ok('topo', 'fat-tree', '4'))
        groups = self.save('f.groups', 'a H-0 H-1\nb H-2 H-3\nc H-0 H-15\n')
        trace = self.save('f.trace', 'create a\ncreate b\ncreate c\ndelete a\ndelete c\ncreate a\n')
        out = self.run_ok('route', '--topology', net, '--groups', groups, '--trace', trace, '--json',
                          self.path('r.json'))
        said = [line for line in out.splitlines() if 'rewritten' in line]
        # One leaf each for a and b; c goes over five switches; both leaves of a and b share entry 0.
        self.assertEqual(said, ['create a: 1 entries rewritten', 'create b: 1 entries rewritten',
                                'create c: 5 entries rewritten', 'delete a: 1 entries rewritten',
                                'delete c: 5 entries rewritten', 'create a: 1 entries rewritten'])
        with open(self.path('r.json'), encoding='utf-8') as file:
            result = json.load(file)
        self.assertEqual((result['trees'], result['colors']), (2, 1))


if __name__ == '__main__':
    unittest.main()
