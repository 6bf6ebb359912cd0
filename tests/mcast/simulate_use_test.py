#!/usr/bin/env python3
"""weft-mcast simulate: wrong arguments are all that is told of; right ones give a line each.

simulate_use_test.py WEFT_MCAST"""
import os
import subprocess
import sys

mcast = os.path.abspath(sys.argv[1])


def run(*words):
    return subprocess.run((mcast, 'simulate', *words), capture_output=True, text=True, timeout=100)


for words, told in (
        (('--algorithms', 'pipeline,magic'), 'unknown algorithm magic; known: native pipeline'),
        (('--members', '8,4', '--slow-member', '5'), '--slow-member 5 is not below the 4 members'),
        (('--bytes', '2000000', '--block-bytes', '1'), 'more than 1000000 blocks')):
    done = run(*words)
    assert done.returncode == 2, (words, done)
    assert done.stdout == '', done.stdout
    assert done.stderr.startswith(f'weft-mcast: {told}'), done.stderr

done = run('--algorithms', 'native,chain', '--members', '3,4', '--bytes', '1000000')
assert done.returncode == 0 and done.stderr == '', done
lines = [line.split() for line in done.stdout.splitlines()]
assert [line[:2] for line in lines] == [['algorithm', 'members'], ['native', '3'], ['chain', '3'],
                                        ['native', '4'], ['chain', '4']], lines
