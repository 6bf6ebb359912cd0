"""A simulated fabric (ibsim) with or without a subnet manager (OpenSM), for tests.

Each fabric is a set of processes of its own in a temporary folder: several can run side by side,
and nothing is left behind.
"""
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ENV = {**os.environ, 'PATH': os.environ.get('PATH', '') + ':/usr/sbin:/sbin',
       # The programs under ibsim-run get its library before the sanitizer's.
       'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'}
DEADLINE_S = 90


class Failure(Exception):
    pass


def missing(*tools):
    """The first of the tools that is not installed, or None."""
    for tool in tools:
        if shutil.which(tool, path=ENV['PATH']) is None:
            return tool
    return None


def until(condition, what, process=None):
    """Waits until condition() is true and returns what it gave."""
    end = time.monotonic() + DEADLINE_S
    while True:
        result = condition()
        if result:
            return result
        if process is not None and process.poll() is not None:
            raise Failure(f'{what}: {process.args[0]} ended with status {process.returncode}')
        if time.monotonic() > end:
            raise Failure(f'{what}: not within {DEADLINE_S} s')
        time.sleep(0.02)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def end_on_sigterm(*_):
    sys.exit(143)  # through every __exit__


class Fabric:
    """with Fabric(net) as fabric: ... ibsim simulates the net file's fabric meanwhile."""

    def __init__(self, net, max_entries=1024):
        self.net, self.max_entries = os.path.abspath(net), max_entries
        self.processes = []

    def __enter__(self):
        signal.signal(signal.SIGTERM, end_on_sigterm)
        self.folder = tempfile.mkdtemp(prefix='weft-ibsim-')
        self.env = {**ENV, 'IBSIM_SOCKNAME': 'weft-' + os.path.basename(self.folder),
                    'OSM_TMP_DIR': self.folder, 'OSM_CACHE_DIR': self.folder}
        try:
            with open(self.net, encoding='utf-8') as file:
                sizes = [int(ports) for ports in
                         re.findall(r'^(?:Switch|Ca|Hca|Rt)\s+(\d+)', file.read(), re.M)]
            ports = sum(sizes) + len(sizes)
            self.ibsim = self.start(
                ['ibsim', '-s', '-N', str(len(sizes) + 8), '-S', str(len(sizes) + 8), '-P',
                 str(ports + 64), '-L', '49152', '-M', str(self.max_entries), self.net],
                'ibsim.log', stdin=subprocess.PIPE)
            until(lambda: 'MaxMcastCap' in self.read('ibsim.log'), 'start of ibsim', self.ibsim)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):  # a client before ibsim
            process.kill()
            process.wait()
            if process.stdin:
                process.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.path(name), encoding='utf-8', errors='replace') as file:
                return file.read()
        except FileNotFoundError:
            return ''

    def start(self, command, log, **more):
        with open(self.path(log), 'wb') as out:
            process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=out,
                                       stderr=subprocess.STDOUT, preexec_fn=die_with_parent, **more)
        self.processes.append(process)
        return process

    def tell(self, command):
        """Gives ibsim a console command, such as: Unlink "S-1"[3]"""
        before = len(self.read('ibsim.log'))
        self.ibsim.stdin.write((command + '\n').encode())
        self.ibsim.stdin.flush()
        until(lambda: len(self.read('ibsim.log')) > before, command, self.ibsim)

    def run(self, *command, **more):
        """Runs a program in the fabric; the finished process with its output as text."""
        try:
            return subprocess.run(['ibsim-run', *command], cwd=self.folder, env=self.env, text=True,
                                  capture_output=True, timeout=DEADLINE_S, check=False, **more)
        except subprocess.TimeoutExpired:
            raise Failure(f'{" ".join(command)}: not within {DEADLINE_S} s') from None

    def start_opensm(self, engine, *options):
        # Without a sweep it never tries again, so -t has it wait even on a machine that is busy.
        # A partition without "ipoib" makes no group besides those that ports join.
        with open(self.path('partitions'), 'w', encoding='utf-8') as file:
            file.write('Default=0x7fff : ALL=full ;\n')
        process = self.start(
            ['ibsim-run', 'opensm', '-R', engine, '-s', '0', '-D', '0x43', '-d2', '-f',
             self.path('opensm.log'), '-P', self.path('partitions'), '-t', '20000', *options],
            'opensm.out')
        until(lambda: 'SUBNET UP' in self.read('opensm.log'), 'start of OpenSM', process)
        # It turns to another engine without failing; -d2 has every line in the log at once.
        if f'{engine} tables configured' not in self.read('opensm.log'):
            raise Failure(f'OpenSM did not route with {engine}')

    def dump_fts(self):
        done = self.run('dump_fts', '-M')
        if done.returncode:
            raise Failure(f'dump_fts -M: {done.stderr}')
        return done.stdout


def read_dump(text):
    """dump_fts -M as {switch GUID: {MLID: ports}}, switches without entries left out."""
    tables, rows = {}, {}
    for line in text.splitlines():
        if line.startswith('Multicast mlids'):
            rows = tables.setdefault(int(re.search(r' guid (0x[0-9a-f]+) \(', line)[1], 16), {})
        elif line.startswith('0x'):
            rows[int(line[:6], 16)] = [(i - 12) // 2 for i, mark in enumerate(line) if
                                       i >= 12 and mark == 'x']
    return {guid: rows for guid, rows in tables.items() if rows}


def read_mcfdbs(text):
    """opensm.mcfdbs in the same form; a line that is still being written is left out."""
    tables, rows = {}, {}
    for line in text[:text.rfind('\n') + 1].splitlines():
        if line.startswith('Switch'):
            rows = tables.setdefault(int(line.split()[1], 16), {})
        elif line.startswith('0x'):
            mlid, _, ports = line.partition(':')
            rows[int(mlid, 16)] = sorted(int(port, 16) for port in ports.split())
    return {guid: rows for guid, rows in tables.items() if rows}


def differences(ours, theirs, limit=5):
    """The first entries in which two tables differ, as lines."""
    lines = []
    for guid in sorted(set(ours) | set(theirs)):
        mine, other = ours.get(guid, {}), theirs.get(guid, {})
        for mlid in sorted(set(mine) | set(other)):
            if mine.get(mlid) != other.get(mlid):
                lines.append(f'  switch {guid:#x} entry {mlid:#x}: {mine.get(mlid)} here, '
                             f'{other.get(mlid)} there')
    return lines[:limit] + ([f'  ... {len(lines)} in all'] if len(lines) > limit else [])
