#!/usr/bin/env python3
"""weft-perf as a user runs it, over each fabric of one host: perf_test.py WEFT_PERF FABRIC..."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

PERF, FABRICS = None, []
DEADLINE_S = 120
TESTS = ['get_lat', 'put_lat', 'cas', 'fetch_add', 'send_lat', 'get_bw', 'put_bw', 'send_bw', 'batch']
TWO_SIDED = {'put_lat', 'send_lat', 'send_bw'}


@contextlib.contextmanager
def server(address, **env):
    process = subprocess.Popen([PERF, '--listen', address], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **env})
    try:
        process.stdout.readline()  # it listens
        yield
        process.terminate()
        if process.wait(DEADLINE_S) != 0:
            raise AssertionError(f'the server ended with {process.returncode}')
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def client(*arguments, **env):
    return subprocess.run([PERF, *arguments], capture_output=True, text=True, check=False,
                          timeout=DEADLINE_S, env={**os.environ, **env})


class Perf(unittest.TestCase):
    def test_all(self):
        for fabric in FABRICS:
            with self.subTest(fabric=fabric), tempfile.TemporaryDirectory() as folder:
                env = {'WEFT_FABRIC': fabric, 'WEFT_INTERFACE': 'lo',
                       'WEFT_PEER_TIMEOUT_MS': '60000'}
                address = f'unix:{folder}/s'
                out = os.path.join(folder, 'out.json')
                with server(address, **env):
                    for threads in (1, 3):
                        done = client(address, '--threads', str(threads), '--bytes', '8:512',
                                      '--depth', '5', '--seconds', '0.01', '--json', out, **env)
                        self.assertEqual(done.returncode, 0, done.stderr)
                        with open(out, encoding='utf-8') as file:
                            results = json.load(file)
                        wanted = [(test, size) for test in TESTS
                                  for size in ([8] if test in ('cas', 'fetch_add') else [8, 64, 512])]
                        self.assertEqual([(one['test'], one['bytes']) for one in results], wanted)
                        for one in results:
                            self.assertEqual(one['fabric'], fabric)
                            self.assertEqual(one['threads'],
                                             1 if one['test'] in TWO_SIDED else threads)
                            self.assertGreaterEqual(one['count'], 5)
                            self.assertGreater(one['p10_us'], 0)
                            self.assertLessEqual(one['p10_us'], one['us'])
                            self.assertLessEqual(one['us'], one['p90_us'])
                            self.assertLessEqual(one['p90_us'], one['p99_us'])
                            self.assertEqual(one['is_steady'], one['p90_us'] <= 2 * one['p10_us'])
                            self.assertGreater(one['us'], 0)
                            self.assertAlmostEqual(
                                one['mb_s'] * one['us'], one['bytes'] * one['threads'], places=3)
                        unsteady = [one for one in results if not one['is_steady']]
                        self.assertEqual(done.stdout.count(' unsteady'), len(unsteady))
                        self.assertEqual('mean little' in done.stderr, bool(unsteady))

    def test_errors(self):
        for arguments, words in (([], 'ADDRESS'), (['unix:/nonexistent/s'], '/nonexistent/s'),
                                 (['x', '--threads', '0'], 'threads'),
                                 (['x', '--listen', 'y'], 'ADDRESS')):
            done = client(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr + done.stdout)
        with tempfile.TemporaryDirectory() as folder, server(f'unix:{folder}/s'):
            done = client(f'unix:{folder}/s', '--threads', '64', '--bytes', '8:2M')
            self.assertEqual(done.returncode, 1)
            self.assertIn('1048576', done.stderr)
            done = client(f'unix:{folder}/s', '--secret', 'another')
            self.assertEqual(done.returncode, 1)


if __name__ == '__main__':
    PERF, FABRICS = sys.argv[1], sys.argv[2:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
