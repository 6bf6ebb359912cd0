#!/usr/bin/env python3
"""What weft-graph reads, and what it says to bad input: the exit status is 2, one process says so in one
line, and nothing is written.

  inputs_test.py WEFT_GRAPH WEFTRUN
"""
import gzip
import json
import lzma
import os
import shutil
import struct
import subprocess
import unittest

import command


class Inputs(command.Command):
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
        subprocess.run(['zstd', '-q', self.path('g.el')], check=True, timeout=command.DEADLINE_S)
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
                self.bad('weight is not a whole number of 32 bits: --weights real', 'sssp', name,
                         '--source', '0', ranks=2)
                real = ['--weights', 'real', '--source', '0']
                for ranks in (1, 3):
                    for more in ([], ['--mode', 'paper'], ['--cache']):
                        said = self.good('sssp', name, *real, '--out', 'r', *more, ranks=ranks)
                        self.assertRegex(said, r' max_dist=0\.0035\d* at=2 ')
                        self.good('verify', 'sssp', name, 'r', *real)
                self.bad('vertex 1: 0.0015 where it is 0.001500000', 'verify', 'sssp', name,
                         self.write('wrong', '0 0\n1 0.0015\n2 0.0035\n'), *real)
                self.good('sssp', name, *real, '--out', 'b', '--out-format', 'binary')
                self.good('verify', 'sssp', name, 'b', *real, '--out-format', 'binary')
                for copy in ('copy.wgemini', 'copy.wel', 'copy.mtx', 'copy.gr'):
                    self.good('convert', name, copy, '--weights', 'real')
                    self.good('verify', 'sssp', copy, 'r', *real)
                self.bad('--format gemini-weighted', 'convert', name, 'copy.bin', '--weights', 'real')
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
            said = self.good('sssp', name, '--source', '1', '--weights', 'real', '--out', 'r', '--json')
            self.assertEqual((20.0, 1), (json.loads(said)['runs'][0]['max_dist'], json.loads(said)['runs'][0]['reached'] - 1))
            with open(self.path('r')) as file:
                self.assertEqual('0 -1\n1 0\n2 20\n', file.read())
            self.assertIn(' max_dist=70 ', self.good('sssp', name, '--source', '0', '--weight-scale', '2'))
        # A cache has the weights of its scale.
        for way, far in (([], 35), (['--weight-scale', '2'], 70), ([], 35)):
            self.assertIn(f' max_dist={far} ', self.good('sssp', 'whole.wel', '--source', '0', '--cache',
                                                         *way))
        for way, far in (([], 0), (['--columns', '2,1,3'], 2), ([], 0)):
            self.assertIn(f' max_depth={far} ', self.good('bfs', 'whole.wel', '--source', '2', '--cache', *way))
        for number in ('0', '-1', 'nan'):
            self.bad(f'found "{number}"', 'sssp', 'g.wel', '--source', '0', '--weight-scale', number)
        for weight in ('1e39', '1e-46', 'inf', 'nan', '-0.1', 'x'):
            self.write('wrong.wel', f'0 1 {weight}\n')
            self.bad('wrong.wel:1: ', 'sssp', 'wrong.wel', '--source', '0', '--weights', 'real', ranks=2)
        self.write('late.csv', 'ann,bob\nbob,carl,0.5\n')
        self.bad('late.csv:2: more than two columns', 'sssp', 'late.csv', '--named', '--source', 'ann', ranks=2)
        self.good('sssp', 'late.csv', '--named', '--source', 'ann', '--weights', 'none')
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


if __name__ == '__main__':
    command.main()
