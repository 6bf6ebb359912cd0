"""Runs one command with a deadline and ends everything it started.

The runner is a child subreaper, so a process whose parent died becomes the runner's own child and
is found again. One command runs at a time: every descendant of the runner belongs to it.
"""
import ctypes
import os
import signal
import subprocess
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 2.0  # what orphans may take to leave after their launcher ended
KEEP_BYTES = 2000000  # of each output stream; the rest is cut out of the middle


def become_subreaper():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _parents():
    """pid -> parent pid of every live process (zombies left out)."""
    parents = {}
    for name in os.listdir('/proc'):
        if not name.isdigit():
            continue
        try:
            with open(f'/proc/{name}/stat', 'rb') as stat:
                fields = stat.read().rpartition(b')')[2].split()
        except OSError:
            continue
        if fields[0] not in (b'Z', b'X'):
            parents[int(name)] = int(fields[1])
    return parents


def descendants(of=None):
    of = of or os.getpid()
    children = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found, todo = [], [of]
    while todo:
        for pid in children.get(todo.pop(), []):
            found.append(pid)
            todo.append(pid)
    return found


def reap():
    """Collects whatever has ended; never blocks."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def describe(pid):
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return f"{pid} {file.read().replace(bytes(1), b' ').decode(errors='replace').strip()}"
    except OSError:
        return str(pid)


def end_descendants():
    """Kills until none is left. A stopped or forking tree needs several rounds."""
    for _ in range(200):
        pids = descendants()
        if not pids:
            break
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        reap()
        time.sleep(0.01)
    reap()


def wait_for_descendants(seconds):
    """Waits until nothing is left, at most this long; returns what is."""
    deadline = time.monotonic() + seconds
    while True:
        reap()
        left = descendants()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.005)


class Result:
    def __init__(self):
        self.status = None  # exit status as a shell gives it; None when the deadline passed
        self.out = ''
        self.err = ''
        self.seconds = 0.0
        self.left = []  # descriptions of processes that outlived the command


def _text(file):
    file.seek(0)
    data = file.read()
    if len(data) > KEEP_BYTES:
        half = KEEP_BYTES // 2
        cut = f'\n[... {len(data) - KEEP_BYTES} bytes left out ...]\n'.encode()
        data = data[:half] + cut + data[-half:]
    return data.decode(errors='replace')


def run(command, deadline_s, env=None, cwd=None):
    result = Result()
    start = time.monotonic()
    with tempfile.TemporaryFile(dir=cwd) as out, tempfile.TemporaryFile(dir=cwd) as err:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                 cwd=cwd, start_new_session=True)
        try:
            status = child.wait(deadline_s)
            result.status = 128 - status if status < 0 else status
            result.seconds = time.monotonic() - start
            result.left = [describe(pid) for pid in wait_for_descendants(GRACE_S)]
        except subprocess.TimeoutExpired:
            result.seconds = time.monotonic() - start
        finally:
            end_descendants()
            child.poll()
        result.out, result.err = _text(out), _text(err)
    return result
