"""The experiments about how load is shared: table 4 and figure 13, cuts, migration, schedules."""
import running
from samples import in_turn, is_steady, median, ratio, rounds_in_words, shown, verdict

STEPS = ('sssp', 'pagerank')


class Balance:
    """A base of Experiments, which has weft, page, skewed, funnel, options and arguments()."""

    def paper_cut(self):
        """The paper's cut, whatever weft-graph cuts by itself: alpha = |E| / |V|."""
        return ['--alpha', max(1, self.skewed.edges // self.skewed.vertices)]

    def cut_in_words(self):
        edges = self.weft.json('info', self.skewed.path, *self.paper_cut(),
                               processes=2)['edges_of_processes']
        return (f"the paper's cut gives the first process {edges[0] / edges[1]:.1f} times the edges of "
                'the other')

    def program(self, algorithm, threads, *more, number=1):
        """Seconds of the vertex program in two processes, as in_turn calls it."""
        words = [*self.arguments(algorithm, self.skewed, number), '--mode', 'paper', '--threads',
                 threads, *more]
        return lambda _: self.weft.seconds(*words, processes=2)

    def compare_sums(self, algorithm, source, sums):
        """Weft's result and BASE's are the same."""
        run = self.weft.json(*self.arguments(algorithm, self.skewed, 1), '--mode', 'paper',
                             processes=2)['runs'][0]
        right = run['sum_dist' if algorithm == 'sssp' else 'sum']
        for found in sums:
            if abs(found - right) > 1e-6 * max(1, abs(right)):
                raise running.Failed(f'{algorithm} of BASE adds up to {found}, where Weft has {right} '
                                     f'({self.skewed.name}, source {source})')
        return right

    def steps_of(self, algorithm, threads):
        """Table 4's rows, each with what it adds; and the sum that all have."""
        graph = self.skewed
        argument = graph.sources[0] if algorithm == 'sssp' else 20
        cut = self.weft.json('info', graph.path, *self.paper_cut(), processes=2)['cut']
        migrate = ['--migrate', '--migrate-threshold', 64]
        fixed, grab = ['--schedule', 'fixed'], ['--schedule', 'grab']
        steps = {'+RDMA': fixed + ['--pairing', 'thread', '--block', 1],
                 '+BatchTraf': fixed + ['--block', 256],
                 '+Intra-Bal': grab + ['--block', 256],
                 '+Inter-Bal': ['--block', 256] + migrate,
                 '+Cache': ['--block', 256] + migrate + ['--migrate-cache', graph.vertices]}
        runs = {name: self.program(algorithm, threads, *self.paper_cut(), *words)
                for name, words in steps.items()}
        sums = []

        def base(setting):
            def run(_):
                seconds, total = self.funnel.run(setting, algorithm, graph, cut, threads, argument, 2)
                sums.append(total)
                return seconds
            return run
        settings = {} if self.funnel.reason else running.WAITING
        bases = {f'BASE, {setting}': base(setting) for setting in settings}
        times = in_turn({**bases, **runs, 'equal edges': self.program(
            algorithm, threads, '--shares', '1,1', *steps['+Intra-Bal'])}, self.options.rounds)
        found = {setting: times.pop(f'BASE, {setting}') for setting in settings}
        if found:
            times = {'BASE': self.best_of('BASE', f'table 4, {algorithm}', found), **times}
        return times, self.compare_sums(algorithm, argument, sums)

    def table4(self):
        threads = 2
        rows, bars = [], {}
        for algorithm in STEPS:
            times, total = self.steps_of(algorithm, threads)
            equal = times.pop('equal edges')
            names = list(times)
            for before, name in zip([None, *names], names):
                rows.append([algorithm, name, shown(times[name]),
                             verdict(times[name], times[before]) if before else '',
                             verdict(times[name], times[names[0]]) if before else '',
                             f'{total:.10g}'])
            rows.append([algorithm, 'equal edges, +Intra-Bal', shown(equal),
                         verdict(equal, times['+Intra-Bal']), verdict(equal, times[names[0]]),
                         f'{total:.10g}'])
            if all(map(is_steady, times.values())):
                bars[algorithm] = [(name, median(all_), min(all_), max(all_))
                                   for name, all_ in times.items()]
        self.page.table('Table 4: what each part brings', [
            'algorithm', 'with', 'ms (least to most)', 'of the one before',
            f'of {"+RDMA" if self.funnel.reason else "BASE"}', 'sum of the results'], rows,
            f'{rounds_in_words(self.options.rounds)} '
            f'{self.skewed.name} from source {self.skewed.sources[0]}, 2 processes x {threads} threads; '
            f'{self.cut_in_words()}, and the last row says what that costs against as many for each. '
            'BASE sends all messages of a process by one thread through Open MPI; it has the same cut '
            'and as many threads, and the better of waiting with and without yielding. Its sums were '
            "compared with Weft's." + (f' BASE is left out: {self.funnel.reason}.'
                                       if self.funnel.reason else ''))
        for algorithm, values in bars.items():
            self.page.bars(f'Figure 13: {algorithm}', values, 'seconds')

    def cuts(self):
        """The paper's cut and others, in both modes: which is the better default."""
        rows = []
        ways = {"the paper's": self.paper_cut(), 'alpha 1': ['--alpha', 1],
                'equal edges': ['--shares', '1,1'], 'equal vertices': ['--equal-cut']}
        for mode in ('auto', 'paper'):
            for algorithm in ('bfs', 'sssp', 'pagerank', 'wcc'):
                words = [*self.arguments(algorithm, self.skewed, 3), '--mode', mode, '--threads', 1]
                times = in_turn({name: lambda _, more=more: self.weft.seconds(*words, *more, processes=2)
                                 for name, more in ways.items()}, self.options.rounds)
                first, *others = times.values()
                rows.append([mode, algorithm, shown(first), *(verdict(all_, first) for all_ in others)])
        first, *others = ways
        self.page.table('Cuts', ['mode', 'algorithm', f'{first}, ms', *others], rows,
                        f'{rounds_in_words(self.options.rounds)} '
                        f'{self.skewed.name}, 2 processes x 1 thread; {self.cut_in_words()}. Times '
                        "against the paper's cut. bfs and sssp from three sources.")

    def imbalance(self):
        """How much of what an unequal load costs comes back by migration."""
        migrate = ['--migrate', '--migrate-cache', self.skewed.vertices]
        cases = {"the paper's cut": (None, self.paper_cut(), ['--shares', '1,1']),
                 'a slowed process': (0, ['--shares', '1,1'], ['--shares', '1,2'])}
        rows = []
        for title, (cpu, uneven, even) in cases.items():
            for algorithm in STEPS:
                def slowed(run):
                    def both(number):
                        with running.Burner(cpu):
                            return run(number)
                    return run if cpu is None else both
                times = in_turn({'uneven': slowed(self.program(algorithm, 1, *uneven)),
                                 'migrating': slowed(self.program(algorithm, 1, *uneven, *migrate)),
                                 'even': slowed(self.program(algorithm, 1, *even))},
                                self.options.rounds)
                loss = ratio(times['uneven'], times['even'])
                middle = {name: median(all_) for name, all_ in times.items()}
                lost = middle['uneven'] - middle['even']
                back = '-'
                if loss is not None and loss > 1 and lost > 0:
                    gained = ratio(times['migrating'], times['uneven'])
                    back = ('no difference' if gained is None else
                            f'{(middle["uneven"] - middle["migrating"]) / lost * 100:.0f} %')
                rows.append([title, algorithm, *map(shown, times.values()),
                             verdict(times['uneven'], times['even']), back])
        self.page.table('An unequal load, ms', ['what', 'algorithm', 'without migration',
                        'with migration', 'an even load', 'what it costs', 'won back'], rows,
                        f'{self.skewed.name} from source {self.skewed.sources[0]}, 2 processes x 1 '
                        f'thread; {self.cut_in_words()}, where an even load has as many in both. A slowed '
                        'process: another program keeps its processor busy; the load is even when it '
                        "has half of the other's.", 'nothing to win back')

    def threshold(self):
        """What --migrate-threshold is best: no tasks are taken of a process with no more left."""
        values = (0, 16, 64, 256, 1024, 4096)
        rows = []
        for title, shares in ("the paper's", self.paper_cut()), ('equal edges', ['--shares', '1,1']):
            for algorithm in STEPS:
                runs = {None: self.program(algorithm, 1, *shares, number=3)}
                for value in values:
                    runs[value] = self.program(algorithm, 1, *shares, '--migrate',
                                               '--migrate-threshold', value, number=3)
                none, *others = in_turn(runs, self.options.rounds).values()
                rows.append([title, algorithm, shown(none), *(verdict(all_, none) for all_ in others)])
        self.page.table('Thresholds of migration', ['cut', 'algorithm', 'none migrate, ms',
                        *map(str, values)], rows, f'{self.skewed.name}, 2 processes x 1 thread; sssp from '
                        'three sources. Times against those without migration.')

    def table5(self):
        rows = []
        for graph in [g for g in self.graphs if not g.long]:
            for algorithm in STEPS:
                words = [*self.arguments(algorithm, graph), '--mode', 'paper', '--threads', 2]
                times = in_turn({schedule: lambda _, schedule=schedule: self.weft.seconds(
                    *words, '--schedule', schedule, processes=2)
                                 for schedule in ('fixed', 'grab', 'steal')}, self.options.rounds)
                rows.append([graph.name, algorithm, shown(times['fixed']),
                             verdict(times['grab'], times['fixed']),
                             verdict(times['steal'], times['fixed'])])
        self.page.table('Table 5: equal shares, grabbing and stealing', [
            'graph', 'algorithm', 'fixed, ms', 'grab', 'steal'], rows,
            f'2 processes x 2 threads; sssp from all {len(self.skewed.sources)} sources together. Times '
            'against those of equal shares.')

    def table6(self):
        rows = []
        for algorithm in STEPS:
            for grain in (64, 128, 256):
                ways = {'fixed': ['--schedule', 'fixed'], 'grab': [], 'migrate': ['--migrate']}
                times = in_turn({name: self.program(algorithm, 2, *self.paper_cut(), '--grain', grain,
                                                    *words, number=3)
                                 for name, words in ways.items()}, self.options.rounds)
                rows.append([algorithm, grain, shown(times['fixed']),
                             verdict(times['grab'], times['fixed']),
                             verdict(times['migrate'], times['grab'])])
        self.page.table('Table 6: tasks that are grabbed at once', [
            'algorithm', 'tasks', '+BatchTraf, ms', '+Intra-Bal of it', '+Inter-Bal of that'], rows,
            f'{self.skewed.name}, 2 processes x 2 threads; {self.cut_in_words()}; sssp from three sources.')
