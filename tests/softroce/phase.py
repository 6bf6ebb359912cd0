"""The phase `softroce` of ./check: Weft on a software RDMA device and between two hosts, in the
machines of tests/softroce/run. Uses the release build, whose folder holds the reports."""
import json
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NAME = 'softroce'
# Multi-process tests that say something about what lies between hosts. The guests are slow, so that
# ./check runs a few minutes of them, and --only softroce all.
ONE_GUEST = r'^(p2p_(modes|order|probe|requests|bsend|cancel)|coll_(move|reduce)|types|comm|' \
            r'storm|storm_threads|flood_(small|large)|death_(recv|send))-'
TWO_GUESTS = r'^(p2p_(modes|order)|coll_move|comm|storm|flood_large|death_(recv|send)|' \
             r'survive_(recv|send))-'
FEW_ONE_GUEST = r'^(p2p_(order|requests|cancel)|comm|storm|death_send)-'
FEW_TWO_GUESTS = r'^(p2p_order|comm|storm|survive_send)-'
FEW_FAULTS = r'^fault_(loss_1|link_silent_2s|link_down_2s|first_contact_after_a_break|' \
             r'killed_in_(rendezvous|get)|powered_off)_'
SLOW = '12'  # how much slower than outside the guests may be


class Phase:
    def __init__(self, tally, folder, options):
        self.tally, self.folder, self.options = tally, folder, options
        self.stage = os.path.join(folder, 'stage')
        self.reports = os.path.join(folder, 'softroce')
        os.makedirs(self.reports, exist_ok=True)

    def machine(self, title, hosts, timeout_s, command):
        """Runs a command that writes a report, and adds what the report says."""
        if self.options.filter and not re.search(self.options.filter, title):
            return
        self.tally.at(f'{NAME}: {title}')
        report = os.path.join(self.reports, 'report.json')
        if os.path.exists(report):
            os.remove(report)
        log = os.path.join(self.reports, re.sub(r'\W+', '-', title) + '.log')
        with open(log, 'wb') as file:
            status = subprocess.run(
                [os.path.join(HERE, 'run'), '--hosts', str(hosts), '--timeout', str(timeout_s),
                 '--write', self.reports, '--', *command, '--json', report],
                cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
        records = []
        if os.path.exists(report):
            with open(report, encoding='utf-8') as file:
                records = json.load(file)
        for record in records:
            self.tally.add(NAME, f'{title}: {record["name"]}', record['outcome'], record['why'])
        if not records or status not in (0, 1):
            with open(log, encoding='utf-8', errors='replace') as file:
                print(''.join(file.readlines()[-25:]))
            self.tally.add(NAME, title, 'failed', f'exit status {status}; all of it is in {log}')

    def mpi(self, fabric, hosts, pattern, np, budget_s):
        names = ','.join(f'vm{i}' for i in range(1, hosts + 1))
        self.machine(
            f'multi-process tests over {fabric}, {hosts} host{"s" if hosts > 1 else ""}', hosts,
            budget_s + 60,
            ['env', f'WEFT_LAUNCH={HERE}/remote {{host}}', os.path.join(ROOT, 'tests/mpi/run'),
             '--prefix', self.stage, '--build', os.path.join(self.folder, 'mpi-tests'),
             *(['--hosts', names] if hosts > 1 else []), '--env', f'WEFT_FABRIC={fabric}',
             '--np', np, '--slow', SLOW, '--budget', str(budget_s), '--filter', pattern])

    def programs(self, few):
        self.machine(
            'unit tests and the transport over verbs, 1 host', 1, 200 if few else 400,
            [os.path.join(HERE, 'programs'), '--build', self.folder, '--stage', self.stage,
             '--filter', r'^fabric_|storm-2|hash|death_send' if few else ''])

    def faults(self, fabric, pattern=''):
        self.machine(
            f'faults over {fabric}', 2, 200 if pattern else 420,
            [os.path.join(HERE, 'faults'), '--stage', self.stage, '--programs',
             os.path.join(self.folder, 'mpi-tests'), '--probe',
             os.path.join(self.folder, 'tests/softroce/fabric_fault'), '--fabric', fabric,
             '--filter', pattern])


def fabrics_of(stage):
    text = subprocess.run([os.path.join(stage, 'bin/weft-info'), '--fabrics'], capture_output=True,
                          text=True, check=False).stdout
    return [name for name in ('verbs', 'ofi')
            if re.search(f'^  {name}', text, re.MULTILINE) and f'{name}: not in this' not in text]


def run(tally, folder, options, few):
    """`few`: what takes about five minutes on two cores that nobody else uses."""
    if few and options.filter:
        return None
    works = subprocess.run([os.path.join(HERE, 'run'), '--timeout', '90', '--', 'true'], cwd=ROOT,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if works.returncode:
        outcome = 'skipped' if works.returncode == 77 else 'failed'
        why = (works.stderr.strip().splitlines() or ['no word'])[-1]
        return tally.add(NAME, 'the soft-RoCE machine', outcome, why)
    tally.add(NAME, 'the soft-RoCE machine', 'passed')
    phase = Phase(tally, folder, options)
    # Compiled here, where that is fast; the guests find nothing older than its source.
    subprocess.run([os.path.join(ROOT, 'tests/mpi/run'), '--prefix', phase.stage, '--build',
                    os.path.join(folder, 'mpi-tests'), '--compile'], cwd=ROOT, check=False)
    present = fabrics_of(phase.stage)
    if 'verbs' in present:
        phase.programs(few)
        phase.mpi('verbs', 1, FEW_ONE_GUEST if few else ONE_GUEST, '2', 60 if few else 240)
        phase.mpi('verbs', 2, FEW_TWO_GUESTS if few else TWO_GUESTS, '2', 60 if few else 240)
        phase.faults('verbs', FEW_FAULTS if few else '')
    else:
        tally.add(NAME, 'verbs', 'skipped', 'not in this build')
    if few:
        pass  # tests/ofi has it between network namespaces
    elif 'ofi' in present:
        phase.mpi('ofi', 2, TWO_GUESTS, '2', 240)
        phase.faults('ofi')
    else:
        tally.add(NAME, 'ofi', 'skipped', 'not in this build')
    return None
