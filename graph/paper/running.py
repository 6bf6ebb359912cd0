"""Starting weft-graph and the programs it is compared with, and reading what they print."""
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time


class Failed(Exception):
    """A program that did not do what it was started for, in one line."""


def run(command, timeout, env=None, watch=None):
    """Its output. `watch` is called with the running process, in a thread of its own."""
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, **(env or {})}) as process:
            watcher = None
            if watch:
                watcher = threading.Thread(target=watch, args=(process,))
                watcher.start()
            try:
                out, errors = process.communicate(timeout=timeout)
            except BaseException as error:  # also when this program is ended by a signal
                process.terminate()
                try:
                    process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Failed(f'{" ".join(command)}: not done after {timeout} s') from None
                raise
            finally:
                if watcher:
                    watcher.join()
    except OSError as error:
        raise Failed(f'{command[0]}: {error}') from None
    if process.returncode != 0:
        lines = [line for line in errors.splitlines() if ' step ' not in line and '%' not in line]
        raise Failed(f'{" ".join(command)}: exit status {process.returncode}: '
                     f'{lines[0] if lines else ""}')
    return out


class Weft:
    def __init__(self, program, timeout):
        self.program, self.timeout = program, timeout
        folder = os.path.dirname(program)
        beside = [os.path.join(folder, 'weftrun'),
                  os.path.join(folder, '..', 'weftrun', 'weftrun')]
        self.weftrun = next((path for path in beside if os.path.exists(path)),
                            shutil.which('weftrun'))
        if self.weftrun is None:
            raise Failed('weftrun is neither beside weft-graph nor in PATH')

    def command(self, arguments, processes=1):
        launcher = [self.weftrun, '-n', str(processes)] if processes > 1 else []
        return launcher + [self.program] + [str(word) for word in arguments]

    def text(self, *arguments, processes=1):
        return run(self.command(arguments, processes), self.timeout)

    def json(self, *arguments, processes=1, watch=None):
        return json.loads(run(self.command([*arguments, '--json'], processes), self.timeout,
                              watch=watch))

    def seconds(self, *arguments, processes=1):
        """Of all sources of one run together."""
        return sum(one['seconds'] for one in self.json(*arguments, processes=processes)['runs'])


MPIRUN_AS_ROOT = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
# Settings of Open MPI's waiting. With more threads than cores spinning is slow; for some programs
# yielding is.
WAITING = {'spins': '0', 'yields': '1'}


def open_mpi(processes, setting, words):
    return ['mpirun.openmpi', '--oversubscribe', '--bind-to', 'none', '--mca', 'mpi_yield_when_idle',
            WAITING[setting], *words, '-n', str(processes)]


# Each of those that Weft is compared with has settings(processes), of which the best counts, and
# seconds(setting, ...), which is None where there is nothing to compare.

# Patterns of the peers' output: one for the seconds, one for a number to check.
GEMINI = {'bfs': r'found_vertices = (\d+)', 'wcc': r'components = (\d+)',
          'sssp': r'distance\[\d+\]=([\d.]+)', 'pagerank': r'pr_sum=([\d.]+)'}
GEMINI_CHECK = {'bfs': 'reached', 'wcc': 'components', 'sssp': 'max_dist', 'pagerank': 'sum'}


class Gemini:
    """thu-pacman/GeminiGraph, built with Open MPI: a folder with bfs, sssp, pagerank and cc."""
    name = 'Gemini'

    def __init__(self, folder, preload, timeout):
        self.folder, self.preload, self.timeout = folder, preload, timeout

    def settings(self, processes):
        return list(WAITING) if processes > 1 else ['spins']

    def seconds(self, setting, algorithm, graph, source, processes, threads, right):
        program = os.path.join(self.folder, {'wcc': 'cc'}.get(algorithm, algorithm))
        file = graph.wgemini if algorithm == 'sssp' else graph.gemini
        arguments = [program, file, str(graph.vertices)]
        arguments += {'bfs': [str(source)], 'sssp': [str(source)], 'pagerank': ['20']}.get(
            algorithm, [])
        env = {'OMP_NUM_THREADS': str(threads)}
        if self.preload:
            env['LD_PRELOAD'] = self.preload
        command = open_mpi(processes, setting, ['-x', 'OMP_NUM_THREADS', '-x', 'LD_PRELOAD'])
        out = run(command + arguments, self.timeout, {**MPIRUN_AS_ROOT, 'LD_PRELOAD': '', **env})
        found = re.search(GEMINI[algorithm], out)
        value = right[GEMINI_CHECK[algorithm]]
        if found is None or abs(float(found[1]) - value) > 1e-6 * max(1, value):
            return None  # a wrong result's time does not count
        return float(re.search(r'exec_time=([\d.]+)', out)[1])


class Gapbs:
    """sbeamer/gapbs: a folder with bfs, sssp, pr_spmv and cc, and converter. One process."""
    name = 'GAPBS'

    def __init__(self, folder, timeout):
        self.folder, self.timeout = folder, timeout

    def prepare(self, graph):
        """Text takes it longer to read than a run does."""
        base = os.path.splitext(graph.wel)[0]
        for words, path in ([], base + '.sg'), (['-w'], base + '.wsg'):
            run([os.path.join(self.folder, 'converter'), '-f', graph.wel, *words, '-b', path],
                self.timeout)

    def settings(self, processes):
        return ['free threads', 'bound threads'] if processes == 1 else []

    def seconds(self, setting, algorithm, graph, source, _processes, threads, _right):
        program = {'pagerank': 'pr_spmv', 'wcc': 'cc'}.get(algorithm, algorithm)
        base = os.path.splitext(graph.wel)[0]
        file = base + ('.wsg' if algorithm == 'sssp' else '.sg')
        arguments = {'bfs': ['-r', str(source)], 'sssp': ['-r', str(source), '-d', graph.delta],
                     'pagerank': ['-i', '20', '-t', '0']}.get(algorithm, [])
        out = run([os.path.join(self.folder, program), '-f', file, '-n', '1'] + arguments,
                  self.timeout, {'OMP_NUM_THREADS': str(threads), 'OMP_PROC_BIND':
                                 'true' if setting == 'bound threads' else 'false'})
        return float(re.search(r'Average Time:\s*([\d.]+)', out)[1])


class PowerGraph:
    """Its toolkits/graph_analytics: pagerank, sssp, connected_component. It has no bfs."""
    name = 'PowerGraph'

    def __init__(self, folder, timeout):
        self.folder, self.timeout = folder, timeout

    def settings(self, processes):
        return list(WAITING) if processes > 1 else ['spins']

    def seconds(self, setting, algorithm, graph, source, processes, threads, _right):
        program = {'wcc': 'connected_component'}.get(algorithm, algorithm)
        path = os.path.join(self.folder, program)
        if not os.path.exists(path):
            return None
        arguments = {'sssp': ['--source', str(source)], 'pagerank': ['--iterations', '20']}.get(
            algorithm, [])
        out = run(open_mpi(processes, setting, []) + [path, '--graph', graph.wel, '--format', 'snap',
                                                      '--ncpus', str(threads)] + arguments,
                  self.timeout, MPIRUN_AS_ROOT)
        found = re.search(r'Finished Running engine in ([\d.]+) seconds', out)
        return float(found[1]) if found else None


class Funnel:
    """BASE: the vertex programs where one thread of each process makes all MPI calls."""

    def __init__(self, folder, timeout, is_wanted=True):
        self.timeout = timeout
        self.program = os.path.join(folder, 'mpi_funnel')
        self.reason = None if is_wanted else 'nothing asks for it'
        if self.reason:
            return
        if not (shutil.which('mpicxx.openmpi') and shutil.which('mpirun.openmpi')):
            self.reason = 'Open MPI is not installed'
            return
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mpi_funnel.cpp')
        run(['mpicxx.openmpi', '-std=c++20', '-O3', '-DOMPI_SKIP_MPICXX', source, '-o',
             self.program, '-pthread'], timeout)

    def run(self, setting, algorithm, graph, cut, threads, argument, processes, watch=None):
        """Its seconds, and the sum of its results."""
        command = open_mpi(processes, setting, []) + [
            self.program, algorithm, graph.path, ','.join(map(str, cut)), str(threads), str(argument)]
        out = run(command, self.timeout, MPIRUN_AS_ROOT, watch)
        found = re.search(r'seconds=([\d.]+) sum=(\S+)', out)
        return float(found[1]), float(found[2])


def measure_program(build, weft_graph):
    """examples/transport/measure with the build folder that it measures; or None, and why."""
    def parts(folder):
        try:
            with open(os.path.join(folder, 'meson-info', 'meson-info.json'), encoding='utf-8') as file:
                source = json.load(file)['directories']['source']
        except (OSError, ValueError, KeyError):
            return None
        measure = os.path.join(source, 'examples', 'transport', 'measure')
        rate = os.path.join(folder, 'examples', 'transport', 'rate')
        return [measure, '--build', folder] if os.path.exists(measure) and os.path.exists(rate) else None
    # Of a weft-graph that is not installed.
    folder = build or os.path.dirname(os.path.dirname(os.path.dirname(weft_graph)))
    found = parts(os.path.abspath(folder))
    if found:
        return found, ''
    return None, (f'{folder} is not the folder of a build with examples/transport/rate in it, which it '
                  'needs; --build names one')


class CpuWatch:
    """Share of their threads' time that processes with this name use, every tenth of a second."""

    def __init__(self, name, processes, threads):
        self.name, self.all = name, processes * threads
        self.points = []  # (seconds since the start, percent)

    def ticks_below(self, root):
        """Processor time of the named processes below `root`, in seconds."""
        parents, times = {}, {}
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
                    head, _, tail = file.read().rpartition(')')
            except OSError:
                continue
            words = tail.split()
            parents[int(pid)] = int(words[1])
            if head.split('(', 1)[1] == self.name[:15]:
                times[int(pid)] = (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')

        def below(pid):
            while pid in parents and pid != root:
                pid = parents[pid]
            return pid == root
        return sum(time for pid, time in times.items() if below(pid))

    def __call__(self, process):
        start = last = time.monotonic()
        used = 0.0
        while process.poll() is None:
            time.sleep(0.1)
            now, ticks = time.monotonic(), self.ticks_below(process.pid)
            if ticks > used:
                self.points.append((now - start, 100 * (ticks - used) / (now - last) / self.all))
            used, last = max(used, ticks), now


class Burner:
    """Keeps one processor busy, for `with`."""

    def __init__(self, cpu):
        self.cpu = cpu

    def __enter__(self):
        # It ends by itself, should this program be killed.
        self.process = subprocess.Popen(
            [sys.executable, '-c',
             'import os, sys, time\n'
             f'os.sched_setaffinity(0, {{{self.cpu}}})\n'
             'end = time.monotonic() + 600\n'
             'parent = os.getppid()\n'
             'while time.monotonic() < end and os.getppid() == parent: pass'])
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
