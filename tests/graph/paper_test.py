#!/usr/bin/env python3
"""weft-graph paper: what is said of times, and the page of a small run.

  paper_test.py WEFT_GRAPH PAPER

PAPER is the folder graph/paper.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

GRAPH = PAPER = None
DEADLINE_S = 120


class Times(unittest.TestCase):
    def test_runs_take_turns_and_none_is_always_first(self):
        order = []
        runs = {name: lambda number, name=name: order.append(name) or number for name in 'abc'}
        self.assertEqual(samples.in_turn(runs, 3), {name: [0, 1, 2] for name in 'abc'})
        self.assertEqual(''.join(order), 'abcbcacab')

    def test_a_difference_is_one_that_the_rounds_agree_on(self):
        base = [1.0, 1.1, 0.9, 1.0, 1.2]
        self.assertEqual(samples.verdict([2 * one for one in base], base), '2.00 times')
        self.assertEqual(samples.verdict([one / 2 for one in base], base), '0.50 times')
        self.assertEqual(samples.verdict([1.1, 1.2, 1.0, 1.1, 1.1], base), 'no difference')
        self.assertEqual(samples.verdict([1.01 * one for one in base], base), 'no difference')
        self.assertEqual(samples.verdict(base[:4], base[:4]), 'too few rounds')
        # Where times are anything, how many times as much is no figure.
        self.assertEqual(samples.verdict([9, 2, 30, 4, 5], base), 'longer')
        self.assertEqual(samples.verdict(base, [9, 2, 30, 4, 5]), 'shorter')
        # One of eight rounds may be apart.
        self.assertEqual(samples.verdict([2] * 7 + [0.9], [1] * 8), 'longer')
        self.assertEqual(samples.verdict([1.5] * 7 + [0.9], [1] * 8), '1.50 times')
        self.assertEqual(samples.verdict([None, *base], [1, *base]), 'no difference')

    def test_a_figure_is_shown_with_its_spread_or_not_at_all(self):
        self.assertEqual(samples.shown([0.001, 0.002, 0.0015]), '1.5 (1.0 to 2.0)')
        self.assertEqual(samples.shown([0.001, 0.0021, 0.0015]), '1.0 to 2.1')
        self.assertEqual(samples.shown([0.001, None, 0.002]), '-')
        self.assertEqual(samples.shown([]), '-')


class Look(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weft-graph-')
        self.addCleanup(folder.cleanup)
        self.page = page.Page(folder.name, 'a < b', 'this machine')
        self.file = os.path.join(folder.name, 'index.html')

    def text(self):
        with open(self.file, encoding='utf-8') as file:
            return file.read()

    def test_it_is_that_of_the_other_pages(self):
        self.page.table('T', ['a', 'b'], [['1', '2']])
        self.assertIn(page.theme.STYLE, self.text())
        self.assertIn('<title>a &lt; b</title>', self.text())
        for outside in ('src="http', 'href="http', '<script', '@import'):
            self.assertNotIn(outside, self.text())

    def test_a_dash_is_explained_where_there_is_one(self):
        self.page.table('T', ['a', 'b'], [['1', '2']])
        self.assertNotIn('A dash: ', self.text())
        self.page.table('U', ['a', 'b'], [['1', samples.shown([0.001])]])
        self.assertIn('A dash: no figure, as it was not measured or has fewer than three rounds.', self.text())

    def test_few_rounds_are_no_medians(self):
        self.assertEqual(samples.rounds_in_words(1), '1 round, too few for a figure.')
        self.assertIn('Medians of 5 rounds', samples.rounds_in_words(5))

    def test_values_can_be_read_in_figures(self):
        self.page.figure('F', {'one': [(1, 2, 1.5, 2.5), (2, 3, 3, 3)], 'none': []}, 'processes', 'seconds')
        self.page.figure('G', {'one': [(64, 2), (4096, 3)]}, 'bytes', 'us', log=True)
        self.page.bars('B', [('BASE', 1.25, 1, 2)], 'seconds')
        for found in ('one: 2 seconds', '1 processes, 1.5 to 2.5', '>4 KiB<', '1.25 (1 to 2)'):
            self.assertIn(found, self.text())


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weft-graph-')
        self.addCleanup(self.folder.cleanup)

    def paper(self, *words):
        return subprocess.run([GRAPH, 'paper', '--quick', '--scale', '8', '--rounds', '1', '--out',
                               'page', *words], cwd=self.folder.name, text=True, capture_output=True,
                              timeout=DEADLINE_S, check=False)

    def test_table_4_says_what_base_had_and_compares_sums(self):
        done = self.paper('--only', 'table4')
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.folder.name, 'page', 'results.json'), encoding='utf-8') as file:
            page = json.load(file)
        table = page['Table 4: what each part brings']
        for algorithm in ('sssp', 'pagerank'):
            self.assertEqual(len({row[-1] for row in table['rows'] if row[0] == algorithm}), 1)
        # One round is no figure.
        self.assertEqual({row[2] for row in table['rows']}, {'-'})
        self.assertIn("the paper's cut gives the first process", table['note'])
        if shutil.which('mpicxx.openmpi'):
            settings = page['Settings of those compared']['rows']
            self.assertEqual([row[:2] for row in settings],
                             [['BASE', 'table 4, sssp'], ['BASE', 'table 4, pagerank']])
            for row in settings:
                self.assertRegex(row[2], 'spins: [01], yields: [01]')

    def test_what_is_left_out_is_said_on_the_terminal(self):
        done = self.paper('--only', 'table1,figure15', '--build', 'nowhere')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('Figure 15 is left out: nowhere is not the folder of a build', done.stderr)

    def test_an_option_without_effect_is_an_error(self):
        for words in (['--only', 'table1', '--shapes', '1x1'], ['--counts', '1'], ['--build', '.'],
                      ['--gemini-preload', 'x'], ['--only', 'table4', '--gapbs', 'x']):
            done = self.paper(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(' has no effect here: it has one ', done.stderr)


if __name__ == '__main__':
    GRAPH, PAPER = (os.path.abspath(name) for name in sys.argv[1:3])
    sys.path.insert(0, PAPER)
    sys.dont_write_bytecode = True
    import page
    import samples
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
