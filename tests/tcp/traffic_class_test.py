#!/usr/bin/env python3
"""WEFT_TRAFFIC_CLASS, within tests/netns/run --hosts 2: by packets between two Nodes.

  traffic_class_test.py TESTS WEFT_PERF
"""
import os
import subprocess
import sys

TESTS, PERF = sys.argv[1:]
ON = os.path.join(TESTS, 'netns', 'on')
PORT = 7500  # where they meet, which is no link


def classes(setting):
    environment = {**os.environ, 'WEFT_FABRIC': 'tcp', **setting}
    with subprocess.Popen([ON, 'h1', PERF, '--listen', f'10.88.0.1:{PORT}'], env=environment,
                          stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        client = [ON, 'h2', PERF, f'10.88.0.1:{PORT}', '--test', 'put_lat,send_lat', '--bytes', '8', '--seconds', '0.1']
        done = subprocess.run([os.path.join(TESTS, 'support', 'traffic_classes'), 'v1', 'tcp', str(PORT), '--', *client],
                              env=environment, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        server.terminate()
    found = done.stdout.splitlines()[-1].split()
    assert found[:2] == ['traffic', 'classes:'] and len(found) > 2, done.stdout
    return {word.split(':')[0] for word in found[2:]}


assert classes({}) == {'0'}
assert classes({'WEFT_TRAFFIC_CLASS': '104'}) == {'104'}  # of both directions
refused = subprocess.run([PERF, '--listen', f'127.0.0.1:{PORT}'], capture_output=True, text=True, timeout=60, check=False,
                         env={**os.environ, 'WEFT_FABRIC': 'tcp', 'WEFT_TRAFFIC_CLASS': '256'})
assert refused.returncode != 0 and 'WEFT_TRAFFIC_CLASS=256: 0 to 255 can be' in refused.stderr, refused
print('as expected')
