"""The paper's tables and figures, each a function that measures and adds to the page."""
import json
import os
import random
import struct
import sys
import time

import running
from balance import Balance
from samples import geometric_mean, in_turn, is_steady, known, median, rounds_in_words, shown, verdict

LEAST_BYTES = 32 << 20  # of a file whose edges take more memory than programs and rings
LEAST_POINTS = 10  # of a run that is watched every tenth of a second
ALGORITHMS = ('bfs', 'sssp', 'pagerank', 'wcc')


def progress(text):
    print(text, file=sys.stderr, flush=True)


class Graph:
    """A graph's file, in the formats that peers read when there are peers."""

    def __init__(self, weft, name, path, folder, delta, skewed=False, long=False):
        self.name, self.path, self.delta = name, path, delta
        self.skewed, self.long = skewed, long
        info = weft.json('info', path)
        self.vertices, self.edges = info['vertices'], info['edges']
        self.max_degree = info['largest_out_degree']
        self.bytes = os.path.getsize(path)
        base = os.path.join(folder, os.path.basename(path))
        self.gemini, self.wgemini, self.wel = base + '.gemini', base + '.wgemini', base + '.wel'
        self.sources, self.hops = [], 0

    def convert(self, weft, peers):
        names = {peer.name for peer in peers}
        wanted = [self.gemini, self.wgemini] if 'Gemini' in names else []
        wanted += [self.wel] if names & {'GAPBS', 'PowerGraph'} else []
        for file in wanted:
            if not os.path.exists(file):
                weft.text('convert', self.path, file)
        for peer in peers:
            if hasattr(peer, 'prepare'):
                peer.prepare(self)

    def find_sources(self, weft, number, seed=1):
        """Vertices from which some other is at least 5 edges away, as in section 6.1."""
        with open(self.path, 'rb') as file:
            dice = random.Random(seed)
            tried = {struct.unpack('<I', os.pread(file.fileno(), 4, 12 * dice.randrange(self.edges)))[0]
                     for _ in range(3 * number)}
        arguments = [word for source in sorted(tried) for word in ('--source', source)]
        runs = weft.json('bfs', self.path, *arguments)['runs']
        # Small graphs may have none so far; then those that come nearest.
        self.hops = min(5, max(run['max_depth'] for run in runs))
        self.sources = [run['source'] for run in runs if run['max_depth'] >= self.hops][:number]

    def source_words(self, number=None):
        return [word for source in self.sources[:number] for word in ('--source', source)]


def read_seconds(path):
    """Of reading the whole file."""
    block = bytearray(1 << 18)
    start = time.monotonic()
    with open(path, 'rb', buffering=0) as file:
        while file.readinto(block):
            pass
    return time.monotonic() - start


class Experiments(Balance):
    def __init__(self, weft, page, graphs, peers, funnel, options):
        self.weft, self.page, self.graphs = weft, page, graphs
        self.peers, self.funnel, self.options = peers, funnel, options
        self.skewed = next(graph for graph in graphs if graph.skewed)
        self.settings = {}  # (who, where): {setting: how often it was the best}

    def arguments(self, algorithm, graph, number=None):
        return [algorithm, graph.path] + (graph.source_words(number)
                                          if algorithm in ('bfs', 'sssp') else [])

    def best_of(self, who, where, times):
        """The times with the best of its settings, which is noted for the page."""
        found = {setting: all_ for setting, all_ in times.items() if known(all_)}
        if not found:
            return []
        best = min(found, key=lambda setting: (-len(known(found[setting])),
                                               median(known(found[setting]))))
        counts = self.settings.setdefault((who, where), dict.fromkeys(times, 0))
        counts[best] += 1
        return found[best]

    def table_of_settings(self):
        if self.settings:
            self.page.table('Settings of those compared', ['who', 'where', 'best with'], [
                [who, where, ', '.join(f'{setting}: {count}' for setting, count in counts.items())]
                for (who, where), counts in self.settings.items()],
                'Each is run with all its settings in turn, and those with the least median count; '
                'how often that was which. Spins, yields: mpi_yield_when_idle of Open MPI. Free and '
                'bound threads: OMP_PROC_BIND. Weft has the settings it comes with.')

    def table1(self):
        rows = [[g.name, f'{g.vertices:,}', f'{g.edges:,}', f'{g.edges / g.vertices:.2f}',
                 f'{g.max_degree:,}', f'{g.bytes / 1e6:.1f}', g.hops, ', '.join(map(str, g.sources))]
                for g in self.graphs]
        self.page.table('Table 1: graphs', ['graph', '|V|', '|E|', '|E| / |V|', 'largest out-degree',
                                            'file, MB', 'hops', 'sources'], rows,
                        'Weights are 1 to 255, by the hash of docs/use/graph.md. From every source some '
                        'vertex is at least so many hops away.')

    def runs_of(self, algorithm, graph, processes, threads):
        """What table 2 runs in turn, by (who, setting); each round from another source."""
        rights = {}

        def words(number):
            source = graph.sources[number % len(graph.sources)]
            return [algorithm, graph.path, '--threads', threads] + (
                ['--source', source] if algorithm in ('bfs', 'sssp') else [])

        def of_weft(mode):
            def run(number):
                found = self.weft.json(*words(number), '--mode', mode, processes=processes)['runs'][0]
                rights.setdefault(number, found)
                return found['seconds']
            return run

        def of_peer(peer, setting):
            def run(number):
                if number not in rights:
                    of_weft('auto')(number)
                return peer.seconds(setting, algorithm, graph, graph.sources[
                    number % len(graph.sources)], processes, threads, rights[number])
            return run
        runs = {(mode, ''): of_weft(mode) for mode in ('auto', 'paper')}
        if graph.long and processes > 1 and self.options.quick:
            del runs['paper', '']
        for peer in self.peers:
            runs |= {(peer.name, setting): of_peer(peer, setting)
                     for setting in peer.settings(processes)}
        return runs

    def table2(self):
        peers = [peer.name for peer in self.peers]
        rows, ratios, autos = [], {}, {}
        cells = len(self.options.shapes) * len(self.graphs) * len(ALGORITHMS)
        for processes, threads in self.options.shapes:
            shape = f'{processes} x {threads}'
            for graph in self.graphs:
                for algorithm in ALGORITHMS:
                    progress(f'table 2, {len(rows) + 1} of {cells}: {shape}, {graph.name}, {algorithm}')
                    all_ = in_turn(self.runs_of(algorithm, graph, processes, threads),
                                   self.options.rounds)
                    times = {'auto': all_['auto', ''], 'paper': all_.get(('paper', ''), [])}
                    for name in peers:
                        times[name] = self.best_of(name, f'table 2, {shape}', {
                            setting: one for (who, setting), one in all_.items() if who == name})
                    autos[shape, graph.name, algorithm] = times['auto']
                    others = {name: times[name] for name in peers if known(times[name])}
                    for name, other in others.items():
                        ratios.setdefault((name, shape, graph.long), []).append(
                            median(known(other)) / median(times['auto']))
                    nearest = min(others.values(), key=lambda other: median(known(other)),
                                  default=times['paper'])
                    rows.append([shape, graph.name, algorithm] + [shown(times[name]) for name in
                                                                  peers + ['paper', 'auto']] +
                                [verdict(nearest, times['auto']) if known(nearest) else '-'])
        self.page.table('Table 2: milliseconds', ['processes x threads', 'graph', 'algorithm'] + peers +
                        ['Weft, mode paper', 'Weft, mode auto', 'the best other against mode auto'],
                        rows,
                        f'{rounds_in_words(self.options.rounds)} All run in turn, '
                        'each round from another source; loading is not counted. PageRank: 20 iterations. A time '
                        'of Gemini counts if its result is right.')
        self.table_of_shapes(autos)
        if ratios and self.options.rounds > 2:
            self.page.table('Times of others, divided by those of mode auto', [
                'library', 'processes x threads', 'graphs', 'geometric mean', 'least', 'most'],
                [[name, shape, 'with long paths' if is_long else 'others',
                  f'{geometric_mean(all_):.2f}', f'{min(all_):.2f}', f'{max(all_):.2f}']
                 for (name, shape, is_long), all_ in ratios.items()])

    def table_of_shapes(self, autos):
        """Mode auto against itself with as many threads in one process."""
        first, *others = [f'{processes} x {threads}' for processes, threads in self.options.shapes]
        rows = [[shape, graph.name] + [
            verdict(autos[shape, graph.name, algorithm], autos[first, graph.name, algorithm])
            for algorithm in ALGORITHMS]
                for shape in others for graph in self.graphs]
        if rows:
            self.page.table(f'Times of mode auto against those of {first}',
                            ['processes x threads', 'graph', *ALGORITHMS], rows)

    def table3(self):
        rows = []
        for graph in self.graphs:
            for processes in self.options.counts:
                run = self.weft.json('sssp', graph.path, *graph.source_words(1), '--mode', 'push',
                                     '--threads', 1, processes=processes)
                is_large = graph.bytes >= LEAST_BYTES
                rows.append([graph.name, processes, f'{graph.bytes / 1e6:.1f}',
                             f'{run["resident_bytes"] / 1e6:.1f}',
                             f'{run["proportional_bytes"] / 1e6:.1f}',
                             f'{run["proportional_bytes"] / graph.bytes:.2f}' if is_large else '-',
                             f'{run["peak_resident_bytes"] / 1e6:.1f}',
                             f'{run["peak_resident_bytes"] / graph.bytes:.2f}' if is_large else '-'])
        self.page.table('Table 3: memory of sssp in mode push, MB', [
            'graph', 'processes', 'file', 'resident at the end', 'without what is counted twice',
            'of the file', 'largest so far', 'of the file'], rows,
            'Sums over the processes. Resident memory counts pages that several processes map once '
            'for each; the next column counts them once (Pss). The largest counts them for each. '
            'Programs and rings are in it, so a ratio is there for large files alone.', 'a small file')

    def loading(self):
        """Of the largest file, against reading it and doing nothing with it."""
        graph = max(self.graphs, key=lambda one: one.bytes)
        if not os.path.exists(graph.wel):
            self.weft.text('convert', graph.path, graph.wel)
        def loading(path, processes, threads, command, *words):
            return lambda _: self.weft.json(command, path, *graph.source_words(1), *words, '--threads',
                                            threads, processes=processes)['load_seconds']
        runs = {}
        for kind, path in ('binary', graph.path), ('text', graph.wel):
            runs[kind, 'read alone'] = lambda _, path=path: read_seconds(path)
            for processes, threads in self.options.shapes:
                for name, words in (('edges out', ['bfs', '--mode', 'push']),
                                    ('edges out with weights', ['sssp']),
                                    ('edges out and in', ['bfs'])):
                    runs[kind, f'{processes} x {threads}, {name}'] = loading(path, processes, threads,
                                                                             *words)
        times = in_turn(runs, self.options.rounds)
        sizes = {'binary': graph.bytes, 'text': os.path.getsize(graph.wel)}
        self.page.table('Loading', ['file', 'how', 'MB', 'ms', 'MB/s'], [
            [kind, how, f'{sizes[kind] / 1e6:.0f}', shown(all_),
             f'{sizes[kind] / 1e6 / median(all_):.0f}' if is_steady(all_) else '-'] for (kind, how), all_ in times.items()],
            f'{graph.name}, from the page cache: until the rows of all edges are there. Read alone: '
            'by one thread, in blocks of 256 KiB.', 'the rounds differ too much')

    def figure12(self):
        cores = os.cpu_count()
        for graph in [g for g in self.graphs if not g.long]:
            curves = {}
            for algorithm in ('sssp', 'pagerank'):
                for mode in ('paper', 'auto'):
                    times = in_turn({processes: lambda _, processes=processes: self.weft.seconds(
                        *self.arguments(algorithm, graph, 2), '--mode', mode, '--threads', 1,
                        processes=processes) for processes in self.options.counts},
                        self.options.rounds)
                    curves[f'{algorithm}, mode {mode}'] = [
                        (processes, median(all_), min(all_), max(all_))
                        for processes, all_ in times.items()]
            self.page.figure(f'Figure 12: {graph.name} over processes of one thread', curves,
                             'processes', 'seconds', note='Medians, least and most. ' + (
                                 f'This machine has {cores} cores: beyond {cores} processes they share '
                                 'them.' if cores < 8 else ''))

    def figure14(self):
        graph, threads = self.skewed, 2
        iterations = self.options.cpu_iterations
        curves = {}
        watch = running.CpuWatch('weft-graph', 2, threads)
        self.weft.json('pagerank', graph.path, '--iterations', iterations, '--mode', 'paper',
                       '--threads', threads, processes=2, watch=watch)
        curves['threads of Weft'] = watch.points
        if not self.funnel.reason:
            cut = self.weft.json('info', graph.path, processes=2)['cut']
            for setting in running.WAITING:
                watch = running.CpuWatch('mpi_funnel', 2, threads)
                self.funnel.run(setting, 'pagerank', graph, cut, threads, iterations, 2, watch)
                curves[f'an MPI funnel that {setting}'] = watch.points
        if min(map(len, curves.values())) < LEAST_POINTS:
            self.left_out('Figure 14', 'its runs take too short a time to be watched; a larger --scale '
                          'makes them longer')
            return
        means = '; '.join(f'{name}: {sum(y for _, y in points) / len(points):.0f} % in the mean'
                          for name, points in curves.items())
        self.page.figure('Figure 14: use of processors over time', curves, 'seconds', 'percent',
                         note=f'PageRank on {graph.name}, {iterations} iterations with loading, 2 '
                         f'processes x {threads} threads; 100 is all threads. {means}. With more threads '
                         'than cores neither can reach 100; waiting that spins or yields counts as use.')

    def left_out(self, what, why):
        """On the page and on the terminal."""
        progress(f'{what} is left out: {why}.')
        self.page.note(f'{what} is left out: {why}.')

    def figure15(self):
        measure, why = running.measure_program(self.options.build, self.weft.program)
        if measure is None:
            self.left_out('Figure 15', why)
            return
        file = os.path.join(self.options.folder, 'latency.json')
        if os.path.exists(file):
            os.remove(file)
        running.run(['python3', *measure, '--only', 'block', '--rounds', str(self.options.rounds),
                     '--ms', '40', '--json', file], self.options.timeout)
        curves = {}
        with open(file, encoding='utf-8') as lines:
            for line in lines:
                point = json.loads(line)
                name = f'{point.get("library", "weft")} {point["what"]}'
                curves.setdefault(name, []).append((point['bytes'], point['median']))
                unit = point['unit']
        self.page.figure('Figure 15: latency over the size of blocks',
                         {name: sorted(points) for name, points in curves.items()}, 'bytes', unit,
                         log=True, note='A block there and back, halved, between two processes.')
