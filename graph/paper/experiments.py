"""The paper's tables and figures, each a function that measures and adds to the page."""
import json
import os
import random
import struct
import sys
import time

import running
from running import median

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


class Experiments:
    def __init__(self, weft, page, graphs, peers, funnel, options):
        self.weft, self.page, self.graphs = weft, page, graphs
        self.peers, self.funnel, self.options = peers, funnel, options
        self.skewed = next(graph for graph in graphs if graph.skewed)

    def arguments(self, algorithm, graph, number=None):
        return [algorithm, graph.path] + (graph.source_words(number)
                                          if algorithm in ('bfs', 'sssp') else [])

    def paper_seconds(self, algorithm, graph, processes, threads, *more, number=3):
        """Median over rounds of a run of the vertex program; of all its sources together."""
        return median([self.weft.seconds(*self.arguments(algorithm, graph, number), '--mode', 'paper',
                                         '--threads', threads, *more, processes=processes)
                       for _ in range(self.options.rounds)])

    def table1(self):
        rows = [[g.name, f'{g.vertices:,}', f'{g.edges:,}', f'{g.edges / g.vertices:.2f}',
                 f'{g.max_degree:,}', f'{g.bytes / 1e6:.1f}', g.hops, ', '.join(map(str, g.sources))]
                for g in self.graphs]
        self.page.table('Table 1: graphs', ['graph', '|V|', '|E|', '|E| / |V|', 'largest out-degree',
                                            'file, MB', 'hops', 'sources'], rows,
                        'Weights are 1 to 255, by the hash of docs/graph.md. From every source some '
                        'vertex is at least so many hops away.')

    def table2(self):
        """Everybody in turn, round by round, each round from another source."""
        peers = [peer.name for peer in self.peers]
        rows, ratios, autos = [], {}, {}
        cells = len(self.options.shapes) * len(self.graphs) * len(ALGORITHMS)
        for processes, threads in self.options.shapes:
            for graph in self.graphs:
                for algorithm in ALGORITHMS:
                    progress(f'table 2, {len(rows) + 1} of {cells}: {processes} x {threads}, '
                             f'{graph.name}, {algorithm}')
                    times = {name: [] for name in ['paper', 'auto'] + peers}
                    for number in range(self.options.rounds):
                        source = graph.sources[number % len(graph.sources)]
                        words = [algorithm, graph.path, '--threads', threads]
                        words += ['--source', source] if algorithm in ('bfs', 'sssp') else []
                        right = None
                        for mode in ('auto', 'paper'):
                            if mode == 'paper' and graph.long and processes > 1 and self.options.quick:
                                continue
                            run = self.weft.json(*words, '--mode', mode, processes=processes)
                            right = right or run['runs'][0]
                            times[mode].append(run['runs'][0]['seconds'])
                        for peer in self.peers:
                            seconds = peer.seconds(algorithm, graph, source, processes, threads, right)
                            if seconds is not None:
                                times[peer.name].append(seconds)
                    middle = {name: median(all_) for name, all_ in times.items() if all_}
                    autos[f'{processes} x {threads}', graph.name, algorithm] = middle['auto']
                    for name in peers:
                        if name in middle:
                            key = name, f'{processes} x {threads}', graph.long
                            ratios.setdefault(key, []).append(middle[name] / middle['auto'])
                    rows.append([f'{processes} x {threads}', graph.name, algorithm] + [
                        f'{middle[name] * 1e3:.1f}' if name in middle else '-'
                        for name in peers + ['paper', 'auto']])
        self.page.table('Table 2: milliseconds', ['processes x threads', 'graph', 'algorithm'] + peers +
                        ['Weft, mode paper', 'Weft, mode auto'], rows,
                        f'Medians of {self.options.rounds} rounds in which all run in turn, each round '
                        'from another source; loading is not counted. PageRank: 20 iterations. A time '
                        'of Gemini counts if its result is right, and is the better of waiting with '
                        'and without yielding.')
        self.table_of_shapes(autos)
        if ratios:
            self.page.table('Times of others, divided by those of mode auto', [
                'library', 'processes x threads', 'graphs', 'geometric mean', 'least', 'most'],
                [[name, shape, 'with long paths' if is_long else 'others',
                  f'{running.geometric_mean(all_):.2f}', f'{min(all_):.2f}', f'{max(all_):.2f}']
                 for (name, shape, is_long), all_ in ratios.items()])

    def table_of_shapes(self, autos):
        """Mode auto against itself with as many threads in one process."""
        first, *others = [f'{processes} x {threads}' for processes, threads in self.options.shapes]
        rows = [[shape, graph.name] + [
            f'{autos[shape, graph.name, algorithm] / autos[first, graph.name, algorithm]:.2f}'
            for algorithm in ALGORITHMS]
                for shape in others for graph in self.graphs]
        if rows:
            self.page.table(f'Times of mode auto, divided by those of {first}',
                            ['processes x threads', 'graph', *ALGORITHMS], rows)

    def table3(self):
        rows = []
        for graph in self.graphs:
            for processes in self.options.counts:
                run = self.weft.json('sssp', graph.path, *graph.source_words(1), '--mode', 'push',
                                     '--threads', 1, processes=processes)
                rows.append([graph.name, processes, f'{graph.bytes / 1e6:.1f}',
                             f'{run["resident_bytes"] / 1e6:.1f}',
                             f'{run["proportional_bytes"] / 1e6:.1f}',
                             f'{run["proportional_bytes"] / graph.bytes:.2f}',
                             f'{run["peak_resident_bytes"] / 1e6:.1f}',
                             f'{run["peak_resident_bytes"] / graph.bytes:.2f}'])
        self.page.table('Table 3: memory of sssp in mode push, MB', [
            'graph', 'processes', 'file', 'resident at the end', 'without what is counted twice',
            'of the file', 'largest so far', 'of the file'], rows,
            'Sums over the processes. Resident memory counts pages that several processes map once '
            'for each; the next column counts them once (Pss). The largest counts them for each. '
            'Programs and rings are in it, so small graphs have large ratios.')

    def loading(self):
        """Of the largest file, against reading it and doing nothing with it."""
        graph = max(self.graphs, key=lambda one: one.bytes)
        if not os.path.exists(graph.wel):
            self.weft.text('convert', graph.path, graph.wel)
        times = {}
        for _ in range(self.options.rounds):
            for kind, path in ('binary', graph.path), ('text', graph.wel):
                times.setdefault((kind, 'read alone'), []).append(read_seconds(path))
                for processes, threads in self.options.shapes:
                    for name, words in (('edges out', ['bfs', '--mode', 'push']),
                                        ('edges out with weights', ['sssp']),
                                        ('edges out and in', ['bfs'])):
                        run = self.weft.json(words[0], path, *graph.source_words(1), *words[1:],
                                             '--threads', threads, processes=processes)
                        key = kind, f'{processes} x {threads}, {name}'
                        times.setdefault(key, []).append(run['load_seconds'])
        sizes = {'binary': graph.bytes, 'text': os.path.getsize(graph.wel)}
        self.page.table('Loading', ['file', 'how', 'MB', 'ms', 'MB/s'], [
            [kind, how, f'{sizes[kind] / 1e6:.0f}', f'{median(all_) * 1e3:.0f}',
             f'{sizes[kind] / 1e6 / median(all_):.0f}'] for (kind, how), all_ in times.items()],
            f'{graph.name}, from the page cache: until the rows of all edges are there. Read alone: '
            'by one thread, in blocks of 256 KiB.')

    def figure12(self):
        cores = os.cpu_count()
        for graph in [g for g in self.graphs if not g.long]:
            curves = {}
            for algorithm in ('sssp', 'pagerank'):
                for mode in ('paper', 'auto'):
                    curves[f'{algorithm}, mode {mode}'] = [
                        (processes, median([self.weft.seconds(
                            *self.arguments(algorithm, graph, 2), '--mode', mode, '--threads', 1,
                            processes=processes) for _ in range(self.options.rounds)]))
                        for processes in self.options.counts]
            self.page.figure(f'Figure 12: {graph.name} over processes of one thread', curves,
                             'processes', 'seconds', note=f'This machine has {cores} cores: beyond '
                             f'{cores} processes they share them.' if cores < 8 else '')

    def steps_of(self, algorithm, threads, processes=2):
        """Table 4's columns, each with what it adds."""
        graph = self.skewed
        argument = graph.sources[0] if algorithm == 'sssp' else 20
        # The partition's own cut, made unequal: what migration has to do.
        shares = ['--shares', '2,1']
        cut = self.weft.json('info', graph.path, *shares, processes=processes)['cut']
        migrate = ['--migrate', '--migrate-threshold', '64']
        fixed, grab = ['--schedule', 'fixed'], ['--schedule', 'grab']
        steps = [('BASE', None)] if not self.funnel.reason else []
        steps += [('+RDMA', shares + fixed + ['--pairing', 'thread', '--block', 1]),
                  ('+BatchTraf', shares + fixed + ['--block', 256]),
                  ('+Intra-Bal', shares + grab + ['--block', 256]),
                  ('+Inter-Bal', shares + grab + ['--block', 256] + migrate),
                  ('+Cache', shares + grab + ['--block', 256] + migrate +
                   ['--migrate-cache', graph.vertices])]
        times = {}
        for _ in range(self.options.rounds):
            for name, words in steps:
                if words is None:
                    seconds = self.funnel.seconds(algorithm, graph, cut, threads, argument, processes)
                else:
                    seconds = self.weft.seconds(*self.arguments(algorithm, graph, 1), '--mode', 'paper',
                                                '--threads', threads, *words, processes=processes)
                times.setdefault(name, []).append(seconds)
        return {name: median(all_) for name, all_ in times.items()}

    def table4(self):
        threads = 2
        rows, bars = [], {}
        for algorithm in ('sssp', 'pagerank'):
            steps = self.steps_of(algorithm, threads)
            rows.append([algorithm] + [f'{seconds * 1e3:.1f}' for seconds in steps.values()])
            bars[algorithm] = list(steps.items())
        self.page.table('Table 4: what each part brings, ms', ['algorithm'] + list(steps), rows,
                        f'{self.skewed.name} from source {self.skewed.sources[0]}, 2 processes x '
                        f'{threads} threads, of which the first has twice the edges. BASE sends all '
                        'messages of a process by one thread through Open MPI; it has the same cut and '
                        'as many threads.' + (f' BASE is left out: {self.funnel.reason}.'
                                              if self.funnel.reason else ''))
        for algorithm, values in bars.items():
            self.page.bars(f'Figure 13: {algorithm}', values, 'seconds')

    def imbalance(self):
        """How much of what an unequal load costs comes back by migration."""
        graph = self.skewed
        migrate = ['--migrate', '--migrate-cache', graph.vertices]
        cases = {'twice the edges': (None, '2,1', '1,1'), 'a slowed process': (0, '1,1', '1,2')}
        rows = []
        for title, (cpu, uneven, even) in cases.items():
            for algorithm in ('sssp', 'pagerank'):
                times = {'uneven': [], 'migrating': [], 'even': []}
                for _ in range(self.options.rounds):
                    for name, shares, more in (('uneven', uneven, []), ('migrating', uneven, migrate),
                                               ('even', even, [])):
                        words = [*self.arguments(algorithm, graph, 1), '--mode', 'paper', '--threads',
                                 1, '--shares', shares, *more]
                        if cpu is None:
                            times[name].append(self.weft.seconds(*words, processes=2))
                        else:
                            with running.Burner(cpu):
                                times[name].append(self.weft.seconds(*words, processes=2))
                middle = {name: median(all_) for name, all_ in times.items()}
                loss = middle['uneven'] - middle['even']
                # A loss below a tenth is noise, of which nothing can be won back.
                is_loss = loss > 0.1 * middle['even']
                back = (middle['uneven'] - middle['migrating']) / loss if is_loss else None
                rows.append([title, algorithm, *(f'{middle[name] * 1e3:.1f}' for name in middle),
                             f'{loss * 1e3:.1f}', '-' if back is None else f'{back * 100:.0f} %'])
        self.page.table('An unequal load, ms', ['what', 'algorithm', 'without migration',
                        'with migration', 'an even load', 'loss', 'won back'], rows,
                        f'{graph.name} from source {graph.sources[0]}, 2 processes x 1 thread. Twice '
                        'the edges: the first process has them. A slowed process: another program '
                        'keeps its processor busy; the load is even when it has half of the other\'s.')

    def threshold(self):
        """What --migrate-threshold is best: no tasks are taken of a process with no more left."""
        graph = self.skewed
        values = (0, 16, 64, 256, 1024, 4096)
        rows = []
        for shares in ('2,1', '1,1'):
            for algorithm in ('sssp', 'pagerank'):
                times = {value: [] for value in (None, *values)}
                for _ in range(self.options.rounds):
                    for value, all_ in times.items():
                        more = [] if value is None else ['--migrate', '--migrate-threshold', value]
                        all_.append(self.weft.seconds(*self.arguments(algorithm, graph, 3), '--mode',
                                                      'paper', '--threads', 1, '--shares', shares,
                                                      *more, processes=2))
                rows.append([shares, algorithm] + [f'{median(all_) * 1e3:.1f}'
                                                   for all_ in times.values()])
        self.page.table('Thresholds of migration, ms', ['edges', 'algorithm', 'none migrate',
                        *map(str, values)], rows, f'{graph.name}, 2 processes x 1 thread; sssp from '
                        'three sources.')

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
            watch = running.CpuWatch('mpi_funnel', 2, threads)
            self.funnel.seconds('pagerank', graph, cut, threads, iterations, 2, watch)
            curves['an MPI funnel'] = watch.points
        means = '; '.join(f'{name}: {sum(y for _, y in points) / len(points):.0f} % in the mean'
                          for name, points in curves.items() if points)
        self.page.figure('Figure 14: use of processors over time', curves, 'seconds', 'percent',
                         note=f'PageRank on {graph.name}, {iterations} iterations with loading, 2 '
                         f'processes x {threads} threads; 100 is all threads. {means}. With more threads '
                         'than cores neither can reach 100; a funnel\'s waiting counts as use.')

    def figure15(self, measure, build):
        if measure is None:
            self.page.note('Figure 15 needs the source tree (examples/transport/measure) and is left '
                           'out.')
            return
        file = os.path.join(self.options.folder, 'latency.json')
        if os.path.exists(file):
            os.remove(file)
        running.run(['python3', measure, '--build', build, '--only', 'block', '--rounds',
                     str(self.options.rounds), '--ms', '40', '--json', file], self.options.timeout)
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

    def table5(self):
        rows = []
        for graph in [g for g in self.graphs if not g.long]:
            for algorithm in ('sssp', 'pagerank'):
                row = [graph.name, algorithm]
                times = {'fixed': [], 'grab': [], 'steal': []}
                for _ in range(self.options.rounds):
                    for schedule, all_ in times.items():
                        all_.append(self.weft.seconds(*self.arguments(algorithm, graph), '--mode',
                                                      'paper', '--threads', 2, '--schedule', schedule,
                                                      processes=2))
                rows.append(row + [f'{median(all_) * 1e3:.1f}' for all_ in times.values()])
        self.page.table('Table 5: equal shares, grabbing and stealing, ms', [
            'graph', 'algorithm', 'fixed', 'grab', 'steal'], rows,
            f'2 processes x 2 threads; sssp from all {len(self.skewed.sources)} sources together.')

    def table6(self):
        rows = []
        migrate = ['--shares', '2,1', '--migrate']
        for algorithm in ('sssp', 'pagerank'):
            for grain in (64, 128, 256):
                times = {'fixed': [], 'grab': [], 'migrate': []}
                for _ in range(self.options.rounds):
                    for name, words in (('fixed', ['--shares', '2,1', '--schedule', 'fixed']),
                                        ('grab', ['--shares', '2,1']), ('migrate', migrate)):
                        times[name].append(self.weft.seconds(
                            *self.arguments(algorithm, self.skewed, 3), '--mode', 'paper', '--threads',
                            2, '--grain', grain, *words, processes=2))
                middle = {name: median(all_) for name, all_ in times.items()}
                gain = [(1 - middle['grab'] / middle['fixed']) * 100,
                        (1 - middle['migrate'] / middle['grab']) * 100]
                rows.append([algorithm, grain, f'{middle["fixed"] * 1e3:.1f}',
                             f'{middle["grab"] * 1e3:.1f} ({gain[0]:.0f} %)',
                             f'{middle["migrate"] * 1e3:.1f} ({gain[1]:.0f} %)'])
        self.page.table('Table 6: tasks that are grabbed at once, ms', [
            'algorithm', 'tasks', '+BatchTraf', '+Intra-Bal (gain)', '+Inter-Bal (gain)'], rows,
            f'{self.skewed.name}, 2 processes x 2 threads, of which the first has twice the edges; sssp '
            'from three sources.')
