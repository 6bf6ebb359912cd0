"""Builds the benchmark programs and runs them with a time limit that always holds."""

import contextlib
import os
import signal
import subprocess
import sys
import time

SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Failed(Exception):
    """A build or a run did not succeed; the text says what happened and ends with its output."""


def build(library, source, folder):
    """Compiles `source` of this folder with the library's wrapper unless that is done already."""
    target = os.path.join(folder, library.name, os.path.splitext(source)[0])
    inputs = [os.path.join(SOURCES, name) for name in (source, "osu.c", "osu.h", "bw.c")]
    newest = max(os.path.getmtime(path) for path in inputs + [library.compiler])
    # The name of the library is the user's: it may now stand for other wrappers than last time.
    stamp = target + ".with"
    is_same = _read(stamp) == library.compiler
    if is_same and os.path.exists(target) and os.path.getmtime(target) > newest:
        return target
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.exists(stamp):
        os.unlink(stamp)  # a build that is interrupted must not pass for done
    command = [library.compiler, "-O2", "-w", "-pthread", inputs[0], inputs[1], "-o", target]
    run(command, library.environment(), 120, "building %s with %s" % (source, library.name))
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(library.compiler)
    return target


def run(command, environment, limit_s, what):
    """Runs a command and returns its standard output, or raises Failed. Nothing outlives it."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        output, errors = _stop(process)
        raise Failed(_explain("%s did not end within %d s" % (what, limit_s), command, output,
                              errors)) from None
    except BaseException:
        _stop(process)
        raise
    if process.returncode != 0:
        end = ("status %d" % process.returncode if process.returncode > 0
               else "signal %d" % -process.returncode)
        raise Failed(_explain("%s ended with %s" % (what, end), command, output, errors))
    return output.decode(errors="replace")


# Ends when its parent has, which may be before it has begun.
SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000):
        pass
"""


@contextlib.contextmanager
def spinning(number):
    """So many processes compute meanwhile, as on a machine that others use. They end with this one."""
    spinners = []
    try:
        for _ in range(number):
            spinners.append(subprocess.Popen([sys.executable, "-I", "-c", SPIN, str(os.getpid())],
                                            stdin=subprocess.DEVNULL))
        yield spinners
    finally:
        for process in spinners:
            process.kill()
            process.wait()


def _stop(process):
    """Asks the launcher to end its job; what is still there after 3 s is killed."""
    family = _descendants(process.pid)
    process.terminate()
    try:
        result = process.communicate(timeout=3)
    except subprocess.TimeoutExpired:
        result = None
    for pid, started in family:
        if _start_time(pid) == started:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    if result is None:
        process.kill()
        result = process.communicate()
    return result


def _descendants(root):
    """The processes below `root` with their start times, which distinguish reused numbers."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append((child, _start_time(child)))
            waiting.append(child)
    return found


def _start_time(pid):
    fields = _stat_fields(pid)
    return fields[19] if fields else None


def _stat_fields(pid):
    """The fields of /proc/PID/stat from the state on: the name before it may contain blanks."""
    text = _read("/proc/%d/stat" % pid)
    return text.rpartition(")")[2].split() if text else None


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _explain(summary, command, output, errors):
    text = (output + errors).decode(errors="replace").strip().splitlines()
    lines = [summary, "  command: " + " ".join(command)]
    lines += ["  | " + line for line in text[-12:]] or ["  (no output)"]
    return "\n".join(lines)


class Progress:
    """One line on stderr about what runs now; on a terminal it is overwritten in place."""

    def __init__(self, stream, num_steps):
        self.stream = stream
        self.num_steps = num_steps
        self.done = 0
        self.started = time.monotonic()
        self.on_terminal = stream.isatty()

    def step(self, what):
        elapsed = time.monotonic() - self.started
        left = ""
        if self.done >= 3:
            left = ", about %d s left" % (elapsed / self.done * (self.num_steps - self.done) + 1)
        text = "[%d/%d] %s%s" % (self.done + 1, self.num_steps, what, left)
        if self.on_terminal:
            self.stream.write("\r\033[K" + text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()
        self.done += 1

    def clear(self):
        if self.on_terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()
