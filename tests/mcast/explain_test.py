#!/usr/bin/env python3
"""weft-mcast explain: every member's time is accounted for, and every block has its lines.

explain_test.py WEFT_MCAST WEFTRUN"""
import os
import subprocess
import sys

mcast, weftrun = map(os.path.abspath, sys.argv[1:3])


def run(*words, status=0):
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == status, f'{words}: status {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout if status == 0 else done.stderr


def explain(members, blocks, algorithm, *words, launch=()):
    """The blocks that the shown member receives and sends, in order of time."""
    lines = run(*launch, mcast, 'explain', '--bytes', str(blocks * 10_000 - 1), '--block-bytes', '10000',
                '--algorithm', algorithm, *words).splitlines()
    assert lines[0].startswith(f'{blocks * 10_000 - 1} bytes in blocks of 10000 by {algorithm} to '
                               f'{members - 1} members'), lines[0]
    rows = [[int(word) for word in line.split()] for line in lines[2:2 + members]]
    for member, row in enumerate(rows):
        assert row[0] == member and len(row) == 10, row
        # Each is rounded.
        assert row[9] > 0 and abs(sum(row[1:9]) - row[9]) <= 6, row
    shown = int(lines[2 + members].split(',')[0])
    if '--member' not in words:
        assert shown > 0 and rows[shown][9] == max(row[9] for row in rows[1:]), rows
    events = [line.split() for line in lines[2 + members + 4:]]
    times = [int(event[0]) for event in events]
    assert times == sorted(times) and times[-1] <= rows[shown][9], (times, rows[shown])
    received = [int(event[2]) for event in events if event[1] == 'receives']
    sent = [int(event[2]) for event in events if event[1] == 'sends']
    return received, sent


for algorithm in ('pipeline', 'chain', 'tree', 'hybrid'):
    received, sent = explain(5, 40, algorithm, '--members', '5')
    assert sorted(received) == list(range(40)), received
received, sent = explain(3, 12, 'chain', '--members', '3', '--member', '1')
assert received == sent == list(range(12)), (received, sent)
received, sent = explain(3, 12, 'sequential', '--member', '0', launch=(weftrun, '-n', '3'))
assert received == [] and sorted(sent) == sorted(2 * list(range(12))), (received, sent)

# Wrong use.
assert '--members' in run(mcast, 'explain', '--members', '1', status=2)
assert 'weftrun' in run(mcast, 'explain', status=2)
assert '--member 3' in run(mcast, 'explain', '--members', '3', '--member', '3', status=2)
assert 'magic' in run(mcast, 'explain', '--members', '3', '--algorithm', 'magic', status=2)
assert '1 GiB' in run(mcast, 'explain', '--members', '2', '--block-bytes', str(1 << 31), status=2)
