"""What ./check does once the machine has what it needs; ./check --help describes it."""
import argparse
import contextlib
import glob
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, 'tests', 'softroce'), os.path.join(ROOT, 'tests', 'mpi')]
import one  # noqa: E402
import phase as softroce  # noqa: E402
import process  # noqa: E402
from one import introspect, jobs  # noqa: E402
from progress import Progress  # noqa: E402
PHASES = ['format', 'release', 'softroce', 'address', 'thread', 'fuzz']
# Most of what a compiler does here is reading headers, so several sources go into one file: a third
# of the time.
TOGETHER = ['-Dunity=on', '-Dunity_size=12']
# Enough optimization for the tests to be quick, little enough for g++ to be.
SANITIZED = [*TOGETHER, '-Doptimization=g', '-Ddebug=false', '-Db_ndebug=false']
# Null pointers and objects that are gone are found by the address sanitizer; looking for them in
# every access once more takes a fifth of the compiler's time.
LEFT_TO_ADDRESS = '-fno-sanitize=null,vptr'
# What is undefined ends the process in any case (UBSAN_OPTIONS): code that is not to go on after it
# is a third smaller, and compiled in an eighth less time.
ENDS = '-fno-sanitize-recover=undefined'
# The minutes in which phases are worth beginning on a slow machine, and those after which nothing
# begins and builds and unit tests that run are ended (what begins in a machine or is a multi-process
# test ends by its own limits): what is left out is named. ./check has 90, installing included.
LEAST_MINUTES = {'softroce': 10, 'address': 20, 'thread': 10, 'fuzz': 7}
MOST_MINUTES = 80
OUT_OF_TIME = f'no time: {MOST_MINUTES} minutes are the limit'
SKIP_STATUS = 77
FUZZ_COMPILERS = {'CC': 'clang-14', 'CXX': 'clang++-14'}
SANITIZER_ENV = {
    'address': {
        'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=0:exitcode=66:detect_stack_use_after_return=0',
        'LSAN_OPTIONS': f'suppressions={ROOT}/tests/leaks.suppressed:print_suppressions=0',
        'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1:exitcode=67',
    },
    'thread': {
        'TSAN_OPTIONS': f'suppressions={ROOT}/tests/threads.suppressed:halt_on_error=0:exitcode=66',
    },
}


class Tally:
    def __init__(self, is_limited=False):
        self.start = time.monotonic()
        self.end = self.start + MOST_MINUTES * 60 if is_limited else math.inf
        self.passed = 0
        self.failed = []
        self.skipped = []
        self.unsteady = []

    def add(self, phase, name, outcome, why=None):
        if outcome == 'passed':
            self.passed += 1
        else:
            entry = f'{phase}: {name}' + (f' ({why})' if why else '')
            (self.failed if outcome == 'failed' else self.skipped).append(entry)

    def add_unsteady(self, phase, name, why):
        """It failed beside others, and passed by itself."""
        self.passed += 1
        self.unsteady.append(f'{phase}: {name} ({why})')

    def seconds(self):
        return int(time.monotonic() - self.start)

    def seconds_left(self):
        return max(0, self.end - time.monotonic())

    def add_out_of_time(self, phase, names):
        first = sorted(names)[0]
        more = f' and {len(names) - 1} more' if len(names) > 1 else ''
        self.skipped.append(f'{phase}: {first}{more} ({OUT_OF_TIME}: ./check --only {phase})')

    def at(self, text):
        seconds = self.seconds()
        print(f'[{seconds // 60}:{seconds % 60:02d}] {text}', flush=True)

    def finish(self):
        for entry in self.skipped:
            print(f'skipped {entry}')
        for entry in self.unsteady:
            print(f'UNSTEADY {entry}: failed once, passed by itself')
        for entry in self.failed:
            print(f'FAILED {entry}')
        line = f'{self.passed} passed, {len(self.failed)} failed'
        print(line + (f', {len(self.skipped)} skipped' if self.skipped else ''))
        return 1 if self.failed else 0


# What fails beside other tests on a machine that others share is run once more by itself, and named
# in the end; of so many failures the machine is not the reason.
MOST_AGAIN = 5


def worth_another_run(failed):
    return 0 < len(failed) <= MOST_AGAIN


def quiet(command, log, env=None, most_s=math.inf):
    """Runs a step whose output matters only when it fails, but for how far it is, as in ninja's
    [3/7] and meson test's 3/7; ends it after so many seconds. True if it succeeded."""
    progress = Progress()
    with open(log, 'ab') as file:
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=env) as step, contextlib.ExitStack() as timers:
            if most_s < math.inf:
                timer = threading.Timer(most_s, step.terminate)
                timer.start()
                timers.callback(timer.cancel)
            for line in step.stdout:
                file.write(line)
                file.flush()
                where = re.match(rb' *\[?(\d+/\d+)\]? +(\S+(?: \S+)*)', line)
                if where:
                    what = where[2].decode(errors='replace')[-60:]
                    progress.at(f'[{where[1].decode()}] {what}')
    progress.clear()
    return step.returncode == 0


def why_skipped(record):
    """The reasons that a test program gave, one for each part that it left out."""
    text = (record.get('stdout') or '') + '\n' + (record.get('stderr') or '')
    found = re.findall(r'^\s*(?:\S+: )?skipped: (.+)', text, re.MULTILINE)
    if not found and record['result'] == 'SKIP':
        found = text.strip().splitlines()[-1:] or ['the test program gives no reason']
    return list(dict.fromkeys(found))


def last_lines(log, count=60):
    with open(log, encoding='utf-8', errors='replace') as file:
        return ''.join(file.readlines()[-count:])


def check_tree(tally):
    """What holds for the files themselves: a folder includes only what stands below it, and what the
    documentation names exists."""
    for script in ('layers', 'names-in-docs'):
        done = subprocess.run([os.path.join(ROOT, 'scripts', script)], capture_output=True, text=True,
                              check=False)
        wrong = (done.stdout + done.stderr).strip()
        tally.add('format', f'scripts/{script}', 'failed' if done.returncode or wrong else 'passed', wrong[:2000])


def check_format(tally):
    tool = 'clang-format'
    try:
        subprocess.run([tool, '--version'], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        tally.add('format', 'clang-format', 'skipped', 'clang-format is not installed')
        return
    files = [os.path.relpath(os.path.join(folder, name), ROOT)
             for top in ('libcomm', 'coll', 'graph', 'mcast', 'objstore', 'tools', 'tests', 'examples')
             for folder, _, names in os.walk(os.path.join(ROOT, top)) for name in names
             if name.endswith(('.c', '.h', '.cpp', '.hpp'))]
    # A table of one row a line is laid out by hand.
    files = [name for name in files
             if os.path.exists(os.path.join(ROOT, name)) and not name.endswith('_table.hpp')]
    done = subprocess.run([tool, '--dry-run', '-Werror', '--ferror-limit=3', *files], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    wrong = sorted(set(re.findall(r'^(\S+?):\d+:\d+: error: code should be', done.stderr,
                                  re.MULTILINE)))
    for name in wrong:
        tally.add('format', name, 'failed', f'clang-format -i {name}')
    if done.returncode and not wrong:
        tally.add('format', 'clang-format', 'failed', done.stderr.strip()[:500])
    if not done.returncode:
        tally.add('format', f'{len(files)} files', 'passed')


def folder_of(phase):
    return os.path.join(ROOT, f'build-check-{phase}')


def setup_command(phase, folder):
    options = ['-Dtests=enabled']
    if phase == 'fuzz':
        options += [*TOGETHER, '-Dfuzz=true', '-Doptimization=0', '-Ddebug=false',
                    '-Dcpp_args=-g1', '-Db_ndebug=false', '-Db_sanitize=address,undefined',
                    '-Db_lundef=false']
    else:
        options += ['--prefix', os.path.join(folder, 'stage'), '-Dwerror=true']
    if phase == 'address':
        options += ['-Db_sanitize=address,undefined', *SANITIZED,
                    f'-Dcpp_args=-g1 {LEFT_TO_ADDRESS} {ENDS}']
    elif phase == 'thread':
        # It does not follow fences (-Wtsan warns of that): they order atomics only here, on which
        # there are no races to find.
        options += ['-Db_sanitize=thread', *SANITIZED, '-Dcpp_args=-g1 -Wno-tsan']
    elif phase == 'release':
        options += [*TOGETHER, '-Dbuildtype=release']
    new = not os.path.exists(os.path.join(folder, 'build.ninja'))
    if new:  # what an interrupted setup left
        shutil.rmtree(os.path.join(folder, 'meson-private'), ignore_errors=True)
    return ['meson', 'setup', folder, ROOT, *options] + ([] if new else ['--reconfigure'])


def chosen_tests(phase, folder, options):
    """The unit tests that this phase runs, as meson describes them."""
    tests = introspect('--tests', folder)
    if options.filter:
        tests = [test for test in tests if re.search(options.filter, test['name'])]
    suites = [test['suite'][0].split(':')[-1] for test in tests]
    if phase == 'address':
        left_out = ['model'] if options.only or options.filter else ['model', 'wide']
        return [test for test, suite in zip(tests, suites) if suite not in left_out]
    if phase == 'release' and not options.filter:
        # Inputs of fuzzers find what the address sanitizer looks for.
        return [test for test, suite in zip(tests, suites) if suite != 'replay']
    if phase == 'thread':
        return [test for test, suite in zip(tests, suites) if suite == 'threads'] or tests
    return tests


def targets(phase, folder, options):
    """What this phase needs of the build: what its tests run and what is installed, where warnings
    are looked for all that is built unasked (which the inputs of fuzzers are not)."""
    if phase == 'fuzz':
        return ['fuzz']
    needed = {target for test in chosen_tests(phase, folder, options) for target in test['depends']}
    # The multi-process tests of threads use the MPI library and weftrun alone.
    installed = os.path.join(ROOT, '(libcomm|tools/weftrun)' if phase == 'thread' else '')
    return [os.path.relpath(name, folder) for target in introspect('--targets', folder)
            if target['id'] in needed or (phase == 'release' and target['build_by_default']) or
            (target['installed'] and re.match(installed, target['defined_in']))
            for name in target['filename']]


def build_commands(phase, folder, options):
    """Each is to be made when those before it have run."""
    yield setup_command(phase, folder)
    yield ['ninja', '-C', folder, '-j', jobs(), *targets(phase, folder, options)]
    if phase != 'fuzz':
        yield ['meson', 'install', '-C', folder, '--no-rebuild', '--quiet',
               *(['--tags', 'runtime,devel'] if phase == 'thread' else [])]


def build_env(phase):
    return {**os.environ, **(FUZZ_COMPILERS if phase == 'fuzz' else {})}


def build(tally, phase, folder, options):
    """Configures, builds and installs into the folder's own stage. True if that worked."""
    os.makedirs(folder, exist_ok=True)
    log = os.path.join(folder, 'check.log')
    open(log, 'wb').close()
    tally.at(f'{phase}: building in {os.path.relpath(folder, ROOT)}')
    for step in build_commands(phase, folder, options):
        if not quiet(step, log, build_env(phase), tally.seconds_left()):
            if not tally.seconds_left():
                tally.add_out_of_time(phase, ['build'])
                return False
            print(last_lines(log))
            tally.add(phase, 'build', 'failed', f'{" ".join(step[:2])}: all of it is in {log}')
            return False
    tally.add(phase, 'build', 'passed')
    return True


def meson_records(phase, folder, names, together, log, slow, most_s):
    """Runs these tests, so many at a time; what meson tells of each that ended in so many seconds."""
    results = os.path.join(folder, 'meson-logs', 'testlog.json')
    if os.path.exists(results):
        os.remove(results)
    env = {**os.environ, **SANITIZER_ENV.get('address' if phase == 'fuzz' else phase, {})}
    quiet(['meson', 'test', '-C', folder, '--no-rebuild', '--print-errorlogs', '--num-processes',
           str(together), '--timeout-multiplier', slow, *names], log, env, most_s)
    if not os.path.exists(results):
        return {}
    with open(results, encoding='utf-8') as file:
        records = [json.loads(line) for line in file]
    return {record['name'].split(' / ')[-1]: record for record in records
            if record['result'] != 'INTERRUPT'}


def run_meson_tests(tally, phase, folder, names, log, slow):
    # More at a time than there are cores, as many of them wait; those with a priority, which take
    # longest, begin first. Fuzzers compute, for seconds that are counted.
    together = int(jobs()) + 1 if phase == 'fuzz' else 2 * int(jobs())
    records = meson_records(phase, folder, names, together, log, slow, tally.seconds_left())
    failed = {name: record['result'].lower() for name, record in records.items()
              if record['result'] not in ('OK', 'EXPECTEDFAIL', 'SKIP')}
    for name, why in failed.items():
        print(f'FAILED {phase}: {name}: {why}')
        print((records[name].get('stdout') or '')[-4000:])
        print((records[name].get('stderr') or '')[-4000:])
    if worth_another_run(failed):
        tally.at(f'{phase}: by themselves: {" ".join(failed)}')
        records.update(meson_records(phase, folder, list(failed), 1, log, slow, tally.seconds_left()))
    late = [] if tally.seconds_left() else [name for name in names if name not in records]
    if late:
        tally.add_out_of_time(phase, late)
    for name in names:
        if name in late:
            continue
        record = records.get(name)
        if record is None:
            tally.add(phase, name, 'failed', f'did not run: see {log}')
        elif record['result'] in ('OK', 'EXPECTEDFAIL'):
            if name in failed:
                tally.add_unsteady(phase, name, failed[name])
            else:
                tally.add(phase, name, 'passed')
            for why in why_skipped(record):
                tally.add(phase, f'part of {name}', 'skipped', why)
        elif record['result'] == 'SKIP' and name not in failed:
            tally.add(phase, name, 'skipped', '; '.join(why_skipped(record)))
        else:
            tally.add(phase, name, 'failed', failed.get(name, record['result'].lower()))


def fuzz(tally, folder, options):
    """Builds the targets of tests/fuzz as fuzzers and runs each for some seconds."""
    with open(os.path.join(ROOT, 'tests/fuzz/meson.build'), encoding='utf-8') as file:
        names = ['fuzz/' + name for name in re.findall(r"'(\w+)': \w+_dep", file.read())]
    if options.filter:
        names = [name for name in names if re.search(options.filter, name)]
    if not names:
        return
    missing = [tool for tool in FUZZ_COMPILERS.values() if shutil.which(tool) is None]
    runtime = '/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a'
    if not missing and not glob.glob(runtime):
        missing = ['libclang-rt-14-dev']
    if missing:
        for name in names:
            tally.add('fuzz', name, 'skipped', f'{missing[0]} is not installed')
        return
    if build(tally, 'fuzz', folder, options):
        run_meson_tests(tally, 'fuzz', folder, names, os.path.join(folder, 'check.log'), '1')


def unit_tests(tally, phase, folder, options):
    names = [test['name'] for test in chosen_tests(phase, folder, options)]
    if not names:
        return
    tally.at(f'{phase}: {len(names)} unit test programs')
    slow = {'release': '1', 'address': '4', 'thread': '8'}[phase]
    run_meson_tests(tally, phase, folder, names, os.path.join(folder, 'check.log'), slow)


def run_cases(tally, phase, title, name_of, command, filters, report, **how):
    """Runs tests/mpi/run and adds its records under the names that name_of() gives them (None: it is
    not one of these). Returns the exit status of the runner."""
    def records_of(cases, *more):
        if os.path.exists(report):
            os.remove(report)
        arguments = [word for pattern in cases for word in ('--filter', pattern)]
        if tally.seconds_left() < math.inf:
            more += '--time-left', str(tally.seconds_left())
        done = subprocess.run([*command, '--json', report, *arguments, *more], check=False, **how)
        if not os.path.exists(report):
            return None, done.returncode
        with open(report, encoding='utf-8') as file:
            found = {record['name']: record for record in json.load(file)}
        return {name: record for name, record in found.items() if name_of(name)}, done.returncode

    if not tally.seconds_left():
        tally.add_out_of_time(phase, [title])
        return 0
    records, status = records_of(filters)
    if records is None:
        if status != SKIP_STATUS:
            tally.add(phase, title, 'failed', 'the runner itself failed')
        return status
    failed = {name: record['why'] for name, record in records.items()
              if record['outcome'] == 'failed'}
    if worth_another_run(failed):
        tally.at(f'{phase}: by themselves: {" ".join(failed)}')
        again, _ = records_of([f'^{re.escape(name)}$' for name in failed], '--jobs', '1')
        records.update({name: record for name, record in (again or {}).items()
                        if record['outcome'] != 'late'})
    late = [name_of(name) for name, record in records.items() if record['outcome'] == 'late']
    if late:
        tally.add_out_of_time(phase, late)
    for name, record in records.items():
        if record['outcome'] == 'late':
            continue
        if name in failed and record['outcome'] == 'passed':
            tally.add_unsteady(phase, name_of(name), failed[name])
        elif name in failed:
            tally.add(phase, name_of(name), 'failed', failed[name])
        else:
            tally.add(phase, name_of(name), record['outcome'], record['why'])
    return status


# What does as another case does, with more bytes or rounds.
LONG_CASES = r'^(p2p_types_large|storm_long)-'
# What is the same whoever runs it, once other cases have shown that this user's processes start, reach
# each other's memory, end and tell why they stand still.
NOT_AS_USER = (r'^(hang_(?!ring-)|p2p_(types|probe|sendrecv|testing)|storm_(?!path|pmix|limits|copies)|'
               r'coll_|reduce_|fuzz_|waits|dims|neighbor|graphs|cart|bottom|'
               r'survive_(revoke|waits|ft|shrunken)_)')


def mpi_tests(tally, phase, folder, options):
    stage = os.path.join(folder, 'stage')
    if not os.path.exists(os.path.join(stage, 'bin', 'weftcc')):
        tally.add(phase, 'multi-process tests', 'failed', 'bin/weftcc was not installed')
        return
    # One more at a time than there are cores, as many wait.
    command = [os.path.join(ROOT, 'tests/mpi/run'), '--prefix', stage, '--build',
               os.path.join(folder, 'mpi-tests'), '--jobs', str(int(jobs()) + 1)]
    if phase == 'release':
        command += ['--budget', '900']
        if options.quick:
            command += ['--np', '1,2,4']
    elif phase == 'address':
        command += ['--np', '3', '--every-test', '--slow', '6', '--budget', '900',
                    '--cflags', '-Og -g1 -fsanitize=address,undefined']
        if not options.only and not options.filter:
            command += ['--without', LONG_CASES]
    else:
        command += ['--tag', 'threads', '--slow', '15', '--budget', '600',
                    '--cflags', '-Og -g1 -fsanitize=thread']
    for name, value in SANITIZER_ENV.get(phase, {}).items():
        command += ['--env', f'{name}={value}']
    tally.at(f'{phase}: multi-process tests')
    run_cases(tally, phase, 'multi-process tests', lambda name: name, command,
              [options.filter] if options.filter else [],
              os.path.join(folder, 'mpi-tests.json'), cwd=ROOT)


# What does not need memory shared between processes, as no process has any there; nor measures the
# memory of a process, to which connections and libfabric add theirs.
NETWORK_CASES = (r'^(p2p_|coll_|fuzz_|window-|window_epochs-|err_windows|flood_(?!small)|storm|types|'
             r'death_(recv|any|barrier)|survive_(ft|revoke|loop|shrunken_inter)|handles|err_truncate)')
# A few of them: the layers above are the same.
OFI_CASES = r'^(p2p_(order|probe|types)-|coll_ops-|coll_random-|storm-|window-|death_(recv|barrier)-|survive_ft)'
# What differs when some ranks share memory and others do not.
HOSTS_CASES = (r'^(comm|coll_ops|coll_random|fuzz_coll|death_coll_\w+|inter|neighbor|p2p_order|p2p_probe|'
               r'storm|storm_threads|types|window|window_epochs|fuzz_windows|'
               r'survive_(loop|shrunken_(use|inter)))-')


def mpi_elsewhere(tally, folder, options, name, cases, arguments, around=()):
    """Programs of the multi-process tests run in another way, of which `name` tells."""
    command = [*around, os.path.join(ROOT, 'tests/mpi/run'), '--prefix',
               os.path.join(folder, 'stage'), '--build', os.path.join(folder, 'mpi-tests'),
               '--jobs', jobs(), '--slow', '4', '--budget', '600', *arguments,
               # Not the time this is about, and machines that run tests are busy.
               '--env', 'WEFT_PEER_TIMEOUT_MS=20000']
    tally.at(f'release: multi-process tests, {name}')
    title = f'multi-process tests, {name}'
    status = run_cases(tally, 'release', title,
                       lambda case: f'{name} {case}' if re.search(cases, case) else None, command,
                       [options.filter or cases],
                       os.path.join(folder, f'mpi-tests-{name}.json'), cwd=ROOT)
    if status == SKIP_STATUS:
        tally.add('release', title, 'skipped', 'no network namespaces here')


def mpi_over_networks(tally, folder, options):
    """The same programs on one host whose processes may only use the tcp fabric, or ofi, and on two."""
    if options.quick:
        return
    mpi_elsewhere(tally, folder, options, 'tcp', NETWORK_CASES,
                  ['--np', '2,3', '--env', 'WEFT_FABRIC=tcp', '--env', 'WEFT_INTERFACE=lo',
                   # Which have run over it.
                   *([] if options.filter else ['--without', '_tcp-'])])
    mpi_elsewhere(tally, folder, options, 'hosts', HOSTS_CASES, ['--np', '4,5', '--hosts', 'h1,h2'],
                  [os.path.join(ROOT, 'tests/netns/run'), '--'])
    info = subprocess.run([os.path.join(folder, 'stage', 'bin', 'weft-info'), '--fabrics'],
                          capture_output=True, text=True, check=False).stdout
    if '  ofi: ' not in info or 'no provider' in info:
        tally.add('release', 'multi-process tests over ofi', 'skipped', 'libfabric is not here')
        return
    mpi_elsewhere(tally, folder, options, 'ofi', OFI_CASES,
                  ['--np', '3', '--env', 'WEFT_FABRIC=ofi', '--env', 'WEFT_INTERFACE=lo'])


def installed_commands(tally, folder, options):
    """Each command says what it does, from where it is installed, with no path of ours set."""
    if options.filter and not re.search(options.filter, 'installed'):
        return
    tally.at('release: installed commands')
    place = os.path.join(folder, 'stage', 'bin')
    env = {name: value for name, value in os.environ.items() if name != 'LD_LIBRARY_PATH'}
    for name in sorted(os.listdir(place)):
        done = subprocess.run([os.path.join(place, name), '--help'], capture_output=True, text=True,
                              env=env, check=False, timeout=120)
        good = done.returncode == 0 and len(done.stdout.splitlines()) > 2
        tally.add('release', f'{name} --help, installed', 'passed' if good else 'failed',
                  '' if good else (done.stderr or done.stdout)[-300:])


# Of the unit tests, those whose processes reach each other's memory.
USER_TESTS = ['exchange/job', 'exchange/faults', 'exchange/guest']


def as_user(tally, folder, options):
    """The multi-process tests once more as a user who is not root, if root runs all this."""
    if options.quick or os.geteuid() != 0:
        return
    name = 'tests as an ordinary user'
    user = ['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups', '--no-new-privs']
    with tempfile.TemporaryDirectory(prefix='weft-user') as place:
        # Its copy of the programs: the runner writes there.
        shutil.copytree(os.path.join(folder, 'mpi-tests'), os.path.join(place, 'mpi-tests'))
        for path, _, files in os.walk(place):
            for entry in [path] + [os.path.join(path, file) for file in files]:
                shutil.chown(entry, 'nobody', 'nogroup')
        weftrun = os.path.join(folder, 'stage', 'bin', 'weftrun')
        if subprocess.run([*user, weftrun, '--version'], cwd=place, check=False,
                          capture_output=True).returncode:
            tally.add('release', name, 'skipped', f'nobody cannot reach {weftrun}')
            return
        tally.at('release: ' + name)
        env = {**os.environ, 'HOME': place, 'TMPDIR': place}
        for test in introspect('--tests', folder):
            if test['name'] not in USER_TESTS or not re.search(options.filter or '', test['name']):
                continue
            try:
                done = subprocess.run([*user, *test['cmd']], cwd=place, env={**env, **test['env']},
                                      timeout=test['timeout'], check=False, capture_output=True,
                                      text=True, errors='replace')
                why = None if done.returncode == 0 else (done.stdout + done.stderr)[-4000:]
            except subprocess.TimeoutExpired:
                why = 'timeout'
            if why:
                print(f'FAILED release: user {test["name"]}: {why}')
            tally.add('release', 'user ' + test['name'], 'failed' if why else 'passed')
        run_cases(tally, 'release', name, lambda case: 'user ' + case,
                  [*user, os.path.join(ROOT, 'tests/mpi/run'), '--prefix',
                   os.path.join(folder, 'stage'), '--build', os.path.join(place, 'mpi-tests'),
                   '--jobs', str(int(jobs()) + 1), '--np', '3', '--every-test', '--budget', '400',
                   *([] if options.only or options.filter else ['--without', NOT_AS_USER])],
                  [options.filter] if options.filter else [], os.path.join(place, 'report.json'),
                  cwd=place, env=env)


def abi(tally, folder, options):
    names = ['abi constants', 'abi functions', 'abi exports']
    if options.filter and not any(re.search(options.filter, name) for name in names):
        return
    report = os.path.join(folder, 'abi.json')
    if os.path.exists(report):
        os.remove(report)
    subprocess.run([os.path.join(ROOT, 'tests/mpi/abi/check'), '--prefix',
                    os.path.join(folder, 'stage'), '--json', report], cwd=ROOT, check=False)
    if not os.path.exists(report):
        tally.add('release', 'abi', 'failed', 'tests/mpi/abi/check itself failed')
        return
    with open(report, encoding='utf-8') as file:
        for record in json.load(file):
            tally.add('release', record['name'], record['outcome'], record['why'])


def end(number, _):
    """Told to end: so does all that was started, each part with the time to tidy up."""
    process.become_subreaper()  # only now: it would be left with all their zombies
    for pid in process.descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    process.wait_for_descendants(process.GRACE_S)
    process.end_descendants()
    print(f'check: ended by {signal.Signals(number).name}', file=sys.stderr, flush=True)
    os._exit(128 + number)


def main():
    parser = argparse.ArgumentParser(prog='./check', add_help=False)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--filter')
    parser.add_argument('--only', action='extend', nargs='+', choices=PHASES)
    parser.add_argument('--list', action='store_true')
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    if options.names and (options.filter or options.only or options.quick or options.list):
        parser.error('names of tests, files or folders stand alone')
    if options.list:
        return one.print_list()
    if options.names:
        return one.run(options.names)
    phases = options.only or (['format', 'release'] if options.quick else PHASES)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    tally = Tally(is_limited=not options.only and not options.filter)
    for number, phase in enumerate(phases, 1):
        if tally.seconds_left() < LEAST_MINUTES.get(phase, 0) * 60:
            tally.add_out_of_time(phase, ['all of it'])
            continue
        tally.at(f'phase {number} of {len(phases)}: {phase}')
        if phase == 'format':
            if not options.filter:
                check_tree(tally)
                check_format(tally)
            continue
        folder = folder_of(phase)
        if phase == 'softroce':
            folder = folder_of('release')
            if 'release' in phases or build(tally, 'release', folder, options):
                # All of it takes 20 minutes, as the machines are emulated.
                softroce.run(tally, folder, options, few=options.quick or not options.only)
        elif phase == 'fuzz':
            fuzz(tally, folder, options)
        elif build(tally, phase, folder, options):
            unit_tests(tally, phase, folder, options)
            if phase == 'release':
                abi(tally, folder, options)
                installed_commands(tally, folder, options)
            mpi_tests(tally, phase, folder, options)
            if phase == 'release':
                mpi_over_networks(tally, folder, options)
                as_user(tally, folder, options)
    tally.at('done')
    return tally.finish()


if __name__ == '__main__':
    sys.exit(main())
