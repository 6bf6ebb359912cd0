#!/usr/bin/env python3
"""Graphs that stay in a cache file, or whose edges do not stay in memory.

  cache_test.py WEFT_GRAPH WEFTRUN
"""
import gzip
import json
import os
import struct
import unittest
import zlib

import command


class Cache(command.Command):
    def test_cache(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '10')
        cache = 'g.bin.weft-cache'
        for algorithm, options in {**command.OPTIONS, 'sssp': ['--source', '0']}.items():
            for more in ([], ['--undirected']):
                right = self.good(algorithm, 'g.bin', *options, *more, ranks=2).partition(' steps=')[0]
                for ranks in (2, 3):
                    out = self.good(algorithm, 'g.bin', *options, *more, '--cache', ranks=ranks)
                    self.assertTrue(command.same(right, out), f'expected {right}\ngot {out}')
        self.good('sssp', 'g.bin', '--source', '0', '--cache')
        with open(self.path(cache), 'rb') as file:
            whole = file.read()
        # What is of another file, or not whole, is made again.
        self.assertTrue(command.same(self.good('sssp', 'g.bin', '--source', '0').partition(' steps=')[0],
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
        self.assertTrue(command.same(right, self.good('wcc', 'g.bin', '--cache', ranks=2)))
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
        self.assertTrue(command.same(right, self.good('wcc', 'g.bin', '--cache', ranks=2)))
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
        sssp = ['--source', '0', '--weights']
        runs = [*command.OPTIONS.items(), *command.ONE_WAY.items(), ('sssp', [*sssp, 'none']), ('sssp', [*sssp, 'real'])]
        for algorithm, options in runs:
            for more in ([], ['--undirected'], ['--mode', 'paper']):
                if '--mode' in more and algorithm in command.ONE_WAY:
                    continue
                right = self.good(algorithm, 'g.bin', *options, *more).partition(' steps=')[0]
                if os.path.exists(self.path(cache)):
                    os.remove(self.path(cache))
                for ranks, threads in ((3, 1), (1, 2)):  # the file is made, and used again
                    with self.subTest(algorithm=algorithm, options=options, more=more, ranks=ranks):
                        out = self.good(algorithm, 'g.bin', *options, *more, '--stream', '--threads', threads,
                                        ranks=ranks)
                        self.assertTrue(command.same(right, out), f'expected {right}\ngot {out}')
        # Any file that weft-graph reads can be streamed, and the cache is the one of --cache.
        right = self.good('wcc', 'g.bin').partition(' steps=')[0]
        for name in ('g.el', 'z.el.gz'):
            self.assertTrue(command.same(right, self.good('wcc', name, '--stream', ranks=2)))
        done = self.run_it('wcc', 'g.bin', '--stream')
        self.assertIn('is written first', done.stderr)
        self.assertIn('of memory, of ', done.stderr)
        os.utime(self.path('g.bin'))
        self.good('wcc', 'g.bin', '--cache')
        done = self.run_it('wcc', 'g.bin', '--stream')
        self.assertTrue(command.same(right, done.stdout))
        self.assertNotIn('is written first', done.stderr)
        # What the cache says is checked before it is used.
        with open(self.path(cache), 'r+b') as file:
            file.seek(64 + 4 * 2048)
            file.write(struct.pack('<I', 1 << 20))
        done = self.run_it('wcc', 'g.bin', '--stream', ranks=2)
        self.assertEqual(done.returncode, 2)
        self.assertIn('damaged behind byte 64', done.stderr)
        os.remove(self.path(cache))
        self.good('sssp', 'g.bin', '--source', '0', '--stream')
        with open(self.path(cache), 'r+b') as file:
            file.seek(-64, os.SEEK_END)  # a weight in the last block
            file.write(b'weft')
        done = self.run_it('sssp', 'g.bin', '--source', '0', '--stream', ranks=2)
        self.assertEqual(done.returncode, 2)
        self.assertIn('damaged behind byte ', done.stderr)
        self.bad('--stream has no effect here', 'bfs', 'g.bin', '--source', '0', '--stream', '--mode',
                 'paper', '--migrate', ranks=2)

    @unittest.skipIf(command.ADDRESS, 'the sanitizer keeps memory that was given back')
    def test_a_process_does_not_hold_the_edges_as_they_were_read(self):
        self.good('generate', 'rmat', 'g.bin', '--scale', '18')
        small = json.loads(self.good('bfs', self.write('s.el', '0 1\n'), '--source', '0', '--json'))
        large = json.loads(self.good('bfs', 'g.bin', '--source', '0', '--json'))
        taken = large['peak_resident_bytes'] - small['peak_resident_bytes']
        # 4 bytes an edge, out and in, and some 40 a vertex; as they were read edges have 8 bytes more.
        self.assertLess(taken, 1.25 * (8 * large['edges'] + 40 * large['vertices']))


if __name__ == '__main__':
    command.main()
