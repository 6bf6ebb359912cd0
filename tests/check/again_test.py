#!/usr/bin/env python3
"""What ./check makes of multi-process tests that fail beside others. Argument: the source folder."""
import contextlib
import io
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.argv[1], 'tests'))
import check  # noqa: E402

# Stands for tests/mpi/run: each case ends as its name says, on the first run and when it runs again.
RUNNER = '''
import json, os, re, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
patterns = [b for a, b in zip(sys.argv[2:], sys.argv[3:]) if a == '--filter']
names = [name for name in sys.argv[1].split(',') if not patterns or any(re.search(p, name) for p in patterns)]
again = any(pattern.startswith('^') for pattern in patterns)
records = [{'name': name, 'outcome': 'failed' if name.startswith('bad') or name.startswith('slow') and not again
            else 'skipped' if name.startswith('late') and again else 'failed' if name.startswith('late')
            else 'passed', 'why': 'its reason'} for name in names]
json.dump(records, open(options['--json'], 'w'))
'''


def run(names, name_of=lambda name: name):
    tally = check.Tally()
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
