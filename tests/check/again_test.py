#!/usr/bin/env python3
"""What ./check makes of tests that fail beside others, and of those that its time does not suffice
for. Argument: the source folder."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.argv[1], 'tests'))
import check  # noqa: E402

# Stands for tests/mpi/run: each case ends as its name says, on the first run and when it runs again.
RUNNER = '''
import json, os, re, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
patterns = [b for a, b in zip(sys.argv[2:], sys.argv[3:]) if a == '--filter']
if '--time-left' in options:
    assert 0 < float(options['--time-left']) < 60
names = [name for name in sys.argv[1].split(',') if not patterns or any(re.search(p, name) for p in patterns)]
again = any(pattern.startswith('^') for pattern in patterns)
records = [{'name': name, 'outcome': 'failed' if name.startswith('bad') or name.startswith('slow') and not again
            else 'late' if name.startswith('latefail') and again else 'skipped' if name.startswith('late') and again else 'failed' if name.startswith('late')
            else 'late' if name.startswith('unstarted') else 'passed', 'why': 'its reason'} for name in names]
json.dump(records, open(options['--json'], 'w'))
'''


def run(names, name_of=lambda name: name, tally=None):
    tally = tally or check.Tally()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        runner = os.path.join(folder, 'runner.py')
        with open(runner, 'w', encoding='utf-8') as file:
            file.write(RUNNER)
        check.run_cases(tally, 'release', 'all', name_of, [sys.executable, runner, ','.join(names)], [],
                        os.path.join(folder, 'report.json'))
    return tally


tally = run(['good-1', 'slow-2', 'bad-3', 'late-4'])
assert tally.passed == 2 and not tally.skipped
assert tally.failed == ['release: bad-3 (its reason)', 'release: late-4 (its reason)'], tally.failed
assert tally.unsteady == ['release: slow-2 (its reason)'], tally.unsteady
# So many failures are not the machine's.
tally = run([f'slow-{number}' for number in range(check.MOST_AGAIN + 1)])
assert len(tally.failed) == check.MOST_AGAIN + 1 and not tally.unsteady
# Cases that are not asked for are neither counted nor run again.
tally = run(['good-1', 'bad-2'], lambda name: name if name.startswith('good') else None)
assert tally.passed == 1 and not tally.failed


# What does not begin in time is named, and has not failed.
def limited(seconds):
    limited_tally = check.Tally(is_limited=True)
    limited_tally.end = limited_tally.start + seconds
    return limited_tally


tally = run(['good-1', 'unstarted-3', 'unstarted-2'], tally=limited(59))
assert tally.passed == 1 and not tally.failed
assert tally.skipped == [f'release: unstarted-2 and 1 more ({check.OUT_OF_TIME}: ./check --only release)']
# A failure stays one if no time is left to run it again.
tally = run(['latefail-1'], tally=limited(59))
assert tally.failed == ['release: latefail-1 (its reason)'] and not tally.skipped, tally.failed
tally = run(['bad-1'], tally=limited(0))
assert not tally.passed and not tally.failed and 'all' in tally.skipped[0]

# A test that runs when the time ends is ended.
with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
    with open(os.path.join(place, 'meson.build'), 'w', encoding='utf-8') as source:
        source.write("project('p')\n"
                     "test('quick', find_program('true'), priority: 1)\n"
                     "test('wrong', find_program('false'), priority: 1)\n"
                     "test('long', find_program('sleep'), args: '1000', timeout: 2000)\n")
    build = os.path.join(place, 'build')
    subprocess.run(['meson', 'setup', build, place], check=True, capture_output=True)
    tally = limited(30)
    check.run_meson_tests(tally, 'address', build, ['quick', 'wrong', 'long'], os.path.join(place, 'log'), '1')
    assert time.monotonic() - tally.start < 100
assert tally.passed == 1 and [entry.split(' (')[0] for entry in tally.failed] == ['address: wrong'], tally.failed
assert tally.skipped == [f'address: long ({check.OUT_OF_TIME}: ./check --only address)'], tally.skipped
