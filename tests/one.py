"""./check NAME...: builds and runs just the tests that belong to a test's name, a source file or a
folder; ./check --list prints the names. The loop of somebody who changes one file: its build folder
is build-check-one, optimized little, so that a changed file is compiled in seconds."""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, 'tests', 'mpi'))
import cases  # noqa: E402

FOLDER = os.path.join(ROOT, 'build-check-one')
SETUP = ['-Dtests=enabled', '-Dunity=on', '-Dunity_size=12', '-Doptimization=1', '-Ddebug=false',
         '-Db_ndebug=false', '-Dwerror=true', '--prefix', os.path.join(FOLDER, 'stage')]
# The tests of a folder whose name does not say it, the longest path first.
FOLDERS = [('libcomm/launcher', ['job/']), ('libcomm/include', ['base/public_headers']),
           ('libcomm/multicast', ['mcast/', 'coll/multicast']),
           ('libcomm/mpi', ['mpi/', 'mpi:']), ('coll/offload', ['offload/']),
           ('coll/switch', ['offload/']), ('coll', ['coll/']), ('mcast/routing', ['mcast_routing/']),
           ('mcast', ['mcast/']), ('graph', ['graph/']), ('objstore', ['objstore/']),
           ('tools/cli', ['tools/']), ('tools/weftrun', ['job/']), ('tools/weft-store', ['objstore/']),
           ('tools/weft-graph', ['graph/cli', 'graph/inputs', 'graph/cache', 'graph/deaths']), ('tools/weft-copy', ['mcast/copy']),
           ('tools/weft-mcroute', ['mcast_routing/']), ('tools/weft-profile', ['profile']),
           ('tools/weft-check', ['mpi:check_']),
           ('tools/weft-perf', ['node/perf']), ('tools/weft_page', ['compare', 'graph/paper']), ('tools', ['tools/commands']),
           ('examples/osu', ['compare']), ('examples/graph', ['graph/']), ('docs', ['docs/'])]
MPI = 'mpi:'  # before the name of a multi-process test


def jobs():
    return str(max(1, len(os.sched_getaffinity(0))))


def introspect(what, folder=FOLDER):
    listing = subprocess.run(['meson', 'introspect', what, folder], capture_output=True, text=True, check=False)
    return json.loads(listing.stdout or '[]')  # of a folder that is not configured


def tests_named_in(path):
    """The files that a header's line "// Tests: a.cpp, b.cpp" names."""
    try:
        with open(path, encoding='utf-8') as file:
            text = file.read(4096)
    except OSError:
        return []
    found = re.search(r'^// Tests: (.*(?:\n// .*)*)', text, re.MULTILINE)
    return re.findall(r'tests/[\w/]+\.(?:cpp|py|sh|c)', found[1]) if found else []


class Names:
    """Which tests belong to a name."""

    def __init__(self, tests, targets, mpi):
        self.tests = {test['name']: test for test in tests}
        self.mpi = mpi
        self.sources = {}  # a test's source or script: the tests' names
        sources_of = {target['id']: [source for group in target['target_sources']
                                     for source in group.get('sources', [])] for target in targets}
        for test in tests:
            files = [source for target in test['depends'] for source in sources_of.get(target, [])]
            for file in {os.path.realpath(path) for path in files + test['cmd'] if os.path.isabs(path)}:
                self.sources.setdefault(os.path.relpath(file, ROOT), set()).add(test['name'])

    def with_prefix(self, prefix):
        if prefix.startswith(MPI):
            return {name for name in self.mpi if name.startswith(prefix)}
        return {name for name in self.tests if name.startswith(prefix)}

    def of_source(self, path):
        if path.startswith('tests/mpi/programs/'):
            program = os.path.splitext(os.path.basename(path))[0]
            return {name for name, case in self.mpi.items() if case.program == program}
        # Test programs and scripts, and what unity builds name otherwise.
        found = {name for name in self.sources.get(path, ()) if path.startswith('tests/')}
        stem = re.sub(r'(_test)?\.\w+$', '', path)
        if path.startswith('tests/') and stem[len('tests/'):] in self.tests:
            found.add(stem[len('tests/'):])
        if path.startswith('tests/'):
            return found or self.with_prefix(os.path.dirname(path)[len('tests/'):] + '/')
        base = os.path.splitext(path)[0]
        for header in (path, base + '.hpp'):
            for test in tests_named_in(os.path.join(ROOT, header)):
                found |= self.of_source(test)
        return found or self.of_folder(os.path.dirname(path))

    def of_folder(self, path):
        if path.startswith('tests'):
            return self.with_prefix(path[len('tests/'):] + '/')
        for folder, prefixes in FOLDERS:
            if path == folder or path.startswith(folder + '/'):
                return set().union(*(self.with_prefix(prefix) for prefix in prefixes))
        return self.with_prefix(path.split('/')[1] + '/' if '/' in path else path + '/')

    def find(self, name):
        if name in self.tests or name in self.mpi:
            return {name}
        path = os.path.relpath(os.path.abspath(name), ROOT)
        if os.path.isfile(os.path.join(ROOT, path)):
            return self.of_source(path)
        if os.path.isdir(os.path.join(ROOT, path)):
            return self.of_folder(path)
        word = name[len(MPI):] if name.startswith(MPI) else name
        programs = {case for case, item in self.mpi.items() if word in (item.program, item.test)}
        return programs or self.with_prefix(name.rstrip('/') + '/')


def read_cases():
    """The multi-process tests by name, as "mpi:p2p_order-3"."""
    found = {}
    for case in cases.read(os.path.join(ROOT, 'tests', 'mpi', 'list.txt')):
        found[MPI + case.name] = case
    return found


def set_up():
    if os.path.exists(os.path.join(FOLDER, 'build.ninja')):
        return True
    print('configuring build-check-one; the first build takes minutes', flush=True)
    done = subprocess.run(['meson', 'setup', FOLDER, ROOT, *SETUP], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-2000:] + done.stderr)
    return done.returncode == 0


def build(targets):
    done = subprocess.run(['ninja', '-C', FOLDER, '--quiet', *targets], check=False)
    return done.returncode == 0


def run(names):
    """The exit status."""
    if not set_up() or subprocess.run(['ninja', '-C', FOLDER, '--quiet', 'build.ninja'], check=False).returncode:
        return 1
    targets = introspect('--targets')
    known = Names(introspect('--tests'), targets, read_cases())
    chosen = set()
    for name in names:
        found = known.find(name)
        if not found:
            print(f'check: no test belongs to {name}: a test (./check --list), a source file or a folder',
                  file=sys.stderr)
            return 2
        chosen |= found
    unit = sorted(name for name in chosen if not name.startswith(MPI))
    mpi = sorted({known.mpi[name].test for name in chosen if name.startswith(MPI)})
    files = {target['id']: target['filename'] for target in targets}
    needed = {os.path.relpath(file, FOLDER) for name in unit for target in known.tests[name]['depends']
              for file in files.get(target, [])}
    print(f'{len(unit)} tests, {len(mpi)} multi-process tests', flush=True)
    if not build([] if mpi else sorted(needed)):
        return 1
    status = 0
    if unit:
        # All of them are built; the last lines are meson's, with the output of those that fail.
        status |= subprocess.run(['meson', 'test', '-C', FOLDER, '--no-rebuild', '--print-errorlogs',
                                  *unit], check=False).returncode
    if mpi:
        subprocess.run(['meson', 'install', '-C', FOLDER, '--no-rebuild', '--only-changed', '--quiet'], check=True)
        tests = '|'.join(re.escape(test) for test in mpi)
        status |= subprocess.run([os.path.join(ROOT, 'tests', 'mpi', 'run'), '--prefix', os.path.join(FOLDER, 'stage'),
                                  '--build', os.path.join(FOLDER, 'mpi-tests'), '--filter', f'^({tests})-', '--np', '3',
                                  '--every-test', '--jobs', jobs()], check=False).returncode
    return 1 if status else 0


def print_list():
    """The exit status."""
    if not set_up():
        return 1
    for name in sorted(test['name'] for test in introspect('--tests')):
        print(name)
    for test in sorted({case.test for case in read_cases().values()}):
        print(MPI + test)
    return 0
