#!/usr/bin/env python3
"""Which tests ./check NAME runs. Arguments: the source folder and the build folder."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
source, build = sys.argv[1:]
sys.path.insert(0, os.path.join(source, 'tests'))
import one  # noqa: E402

os.chdir(source)
names = one.Names(one.introspect('--tests', build), one.introspect('--targets', build), one.read_cases())

assert names.find('tagged/losses') == {'tagged/losses'}
assert 'tagged/losses' in names.find('tagged')
assert names.find('tests/tagged/losses_test.cpp') == {'tagged/losses'}
assert 'tagged/losses' in names.find('libcomm/tagged/losses.cpp')
assert 'peer/reliable_link' in names.find('libcomm/peer/reliable_link.cpp')
assert names.find('graph/cli') == {'graph/cli'} == names.find('tests/graph/cli_test.py')
assert 'mpi:p2p_order-3' in names.find('p2p_order') == names.find('tests/mpi/programs/p2p_order.c')
assert names.find('mpi:p2p_order-3') == {'mpi:p2p_order-3'}
assert all(name.startswith('objstore/') for name in names.find('objstore'))
if 'docs/site' in names.tests:  # not under the sanitizers
    assert names.find('docs/use/tutorial/2-queue.md') == {'docs/site', 'docs/tasks', 'docs/tutorial',
                                                          'docs/vertex-programs'}
assert names.find('examples/osu/report') == {'compare'}
assert names.find('tools/weft_page/chart.py') == {'compare', 'graph/paper'}
assert not names.find('no such thing')

# Every file of the product belongs to some test.
listing = subprocess.run(['git', 'ls-files', 'libcomm', 'coll', 'graph', 'mcast', 'objstore', 'tools'],
                         capture_output=True, text=True, check=False)
files = [name for name in listing.stdout.split() if name.endswith(('.cpp', '.hpp', '.c', '.h'))]
untested = [name for name in files if not names.find(name)]
assert not untested, untested
print(f'{len(files)} files')
