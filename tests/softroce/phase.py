"""The phase `softroce` of ./check: Weft on a software RDMA device and between two hosts, in the
machines of tests/softroce/run. Uses the release build, whose folder holds the reports."""
import json
import os
import re
import shlex
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NAME = 'softroce'
SKIPPED = 77  # of tests/softroce/run
# Multi-process tests that say something about what lies between hosts. The guests are slow, so that
# ./check runs a few minutes of them, and --only softroce all. While this phase runs nothing else
# does (even what only idle processors do makes the guests half as fast again), and its limits are
# several times what the steps take then: they end what hangs.
ONE_GUEST = r'^((p2p_(modes|order|probe|requests|bsend|cancel)|coll_(move|reduce)|types|comm|' \
            r'storm|storm_threads|flood_(small|large)|death_send)-2|(death|survive)_recv-3)$'
TWO_GUESTS = r'^((p2p_(modes|order)|coll_(move|ops)|comm|storm|flood_large|death_send)-2|' \
             r'survive_(recv|any)-3|survive_send-4)$'
FEW_ONE_GUEST = r'^((p2p_(modes|requests)|coll_move|storm_threads|flood_small|death_send)-2|' \
                r'death_recv-3)$'
FEW_TWO_GUESTS = r'^((p2p_(order|requests|cancel)|comm|storm|flood_large|death_send)-2|' \
                 r'survive_recv-3)$'
FEW_PROGRAMS = (r'^fabric_(?!ofi|verbs_endpoint|conformance)|weft_info|^storm-2|hash|'
                r'death_send|^traffic_class')
FEW_PROGRAMS_ONE_GUEST = r'^fabric_(ofi|verbs_endpoint)$|^storm-3|graph_pagerank-|^devices_|' \
                         r'^device_(mlx5_ib|irdma|virtual_function)$'
DEVICES = r'^devices?_|^node_node_|^few_(pairs|registrations)_'  # described ones
OVER = {'rxe': '', 'siw': 'verbs, siw'}  # in titles
FEW_FAULTS = r'^fault_(loss_[15]|reorder|link_(down_2s|stalled_for_good)|' \
             r'killed_in_(eager|rendezvous|get|atomic)|stranger|outside_read|powered_off)_'
FEW_NODE_FAULTS = r'^node_link_down_(3s|10s)_of_5s'
SLOW = '12'  # how much slower than outside the guests may be
MPI_S = 600  # for the multi-process tests of one machine


class Step:
    """A command of the guests that writes a report, and the seconds it may take."""

    def __init__(self, title, limit_s, command):
        self.title, self.limit_s, self.command = title, limit_s, command


class Phase:
    def __init__(self, tally, folder, options):
        self.tally, self.folder, self.options = tally, folder, options
        self.stage = os.path.join(folder, 'stage')
        self.reports = os.path.join(folder, 'softroce')
        os.makedirs(self.reports, exist_ok=True)

    def machine(self, hosts, steps, cards=1, device='rxe'):
        """Runs these in one machine, one after the other, and adds what their reports say."""
        if self.options.filter:
            steps = [step for step in steps if re.search(self.options.filter, step.title)]
        if not steps:
            return
        name = steps[0].title if len(steps) == 1 else f'{len(steps)} steps, {hosts} hosts'
        if device != 'rxe' and len(steps) > 1:
            name += f', {device}'
        self.tally.at(f'{NAME}: {name}')
        reports = [os.path.join(self.reports, f'report-{number}.json')
                   for number in range(len(steps))]
        for report in reports:
            if os.path.exists(report):
                os.remove(report)
        line = '; '.join(
            shlex.join(['timeout', '-k', '5', str(step.limit_s), *step.command, '--json', report]) +
            f'; echo "step {number}: exit status $?"'
            for number, (step, report) in enumerate(zip(steps, reports)))
        log = os.path.join(self.reports, re.sub(r'\W+', '-', name) + '.log')
        with open(log, 'wb') as file:
            status = subprocess.run(
                [os.path.join(HERE, 'run'), '--hosts', str(hosts), '--cards', str(cards), '--device', device,
                 '--timeout', str(180 + sum(step.limit_s for step in steps)), '--write', self.reports, '--', line],
                cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
        with open(log, encoding='utf-8', errors='replace') as file:
            lines = file.readlines()
        ends = dict(re.findall(r'^step (\d+): exit status (\d+)$', ''.join(lines), re.MULTILINE))
        complete = True
        for number, (step, report) in enumerate(zip(steps, reports)):
            end = ends.get(str(number), f'none, the machine had {status}')
            records = []
            if os.path.exists(report):
                with open(report, encoding='utf-8') as file:
                    records = json.load(file)
            for record in records:
                if 'median' in record:
                    print(f'  {record["program"]} of {record["bytes"]} B, {record["library"]}: '
                          f'{record["median"]:.1f} {record["unit"]}')
                if 'outcome' not in record:
                    continue
                self.tally.add(NAME, f'{step.title}: {record["name"]}', record['outcome'],
                               record['why'])
            if status == SKIPPED:
                self.tally.add(NAME, step.title, 'skipped', lines[-1].strip() if lines else '')
            elif not records or end not in ('0', '1'):
                complete = False
                self.tally.add(NAME, step.title, 'failed', f'exit status {end}: see {log}')
        if not complete:
            print(''.join(lines[-25:]))

    def runner(self):
        """Whether tests/softroce/run passes on what the command says, and ends it in time."""
        for name, seconds, command, status, error in (
                ('exit status', 150, 'echo out; echo err >&2; exit 3', 3, 'err\n'),
                ('timeout', 40, 'echo out; sleep 1000', 124, 'did not end within 40 s'),
                ('a guest that goes away', 150, 'echo out; sleep 1; echo o > /proc/sysrq-trigger; '
                 'sleep 1000', 125, 'vm1 went away')):
            if self.options.filter and not re.search(self.options.filter, name):
                continue
            begin = time.monotonic()
            done = subprocess.run([os.path.join(HERE, 'run'), '--timeout', str(seconds), '--',
                                   command], capture_output=True, text=True, check=False)
            why = None
            if done.returncode == SKIPPED:
                return
            if done.returncode != status or done.stdout != 'out\n' or error not in done.stderr:
                why = f'exit status {done.returncode}, {done.stdout!r}, {done.stderr[-300:]!r}'
            elif time.monotonic() - begin > seconds + 10:
                why = f'it took {time.monotonic() - begin:.0f} s'
            self.tally.add(NAME, f'tests/softroce/run: {name}', 'failed' if why else 'passed', why)

    def mpi(self, fabric, hosts, pattern, device='rxe'):
        names = ','.join(f'vm{i}' for i in range(1, hosts + 1))
        return Step(
            f'multi-process tests over {OVER[device] or fabric}, {hosts} host{"s" if hosts > 1 else ""}',
            MPI_S + 60,
            ['env', f'WEFT_LAUNCH={HERE}/remote {{host}}', os.path.join(ROOT, 'tests/mpi/run'),
             '--prefix', self.stage, '--build', os.path.join(self.folder, 'mpi-tests'),
             *(['--hosts', names] if hosts > 1 else []), '--env', f'WEFT_FABRIC={fabric}',
             # Which is not taken unless it is named; the runner passes no other settings on.
             *(['--env', f'WEFT_DEVICE={device}0'] if device == 'siw' else []),
             # Not the time this is about, and the guests are slow.
             '--env', 'WEFT_PEER_TIMEOUT_MS=20000',
             '--slow', SLOW, '--budget', str(MPI_S), '--verbose', '--filter', pattern])

    def programs(self, hosts, pattern='', limit_s=600, device='rxe'):
        names = ','.join(f'vm{i}' for i in range(1, hosts + 1))
        return Step(
            f'unit tests and the transport over {OVER[device] or "verbs"}, '
            f'{hosts} host{"s" if hosts > 1 else ""}',
            limit_s,
            [os.path.join(HERE, 'programs'), '--build', self.folder, '--stage', self.stage,
             '--device', device, *(['--hosts', names] if hosts > 1 else []), '--filter', pattern])

    def faults(self, fabric, pattern='', device='rxe'):
        return Step(
            f'faults over {OVER[device] or fabric}', 1200,
            [os.path.join(HERE, 'faults'), '--stage', self.stage, '--programs',
             os.path.join(self.folder, 'mpi-tests'), '--probe',
             os.path.join(self.folder, 'tests/softroce/fabric_fault'), '--fabric', fabric,
             '--device', device, '--filter', pattern])

    def node_faults(self, devices=1, device='rxe', pattern=''):
        title = f'faults between Nodes over {OVER[device] or "verbs"}'
        return Step(
            title if devices == 1 else f'{title} with {devices} devices', 500,
            [os.path.join(HERE, 'node_faults'), '--probe',
             os.path.join(self.folder, 'tests/softroce/node_fault'), '--device', device,
             '--devices', str(devices), '--filter', pattern])

    def speed(self):
        missing = [name for name in ('ib_write_lat', 'ib_read_bw', 'ib_send_bw')
                   if not shutil.which(name)]
        title = 'speed over verbs next to perftest'
        if missing:
            self.tally.add(NAME, title, 'skipped', f'no {missing[0]}: the package is perftest')
            return []
        command = [os.path.join(HERE, 'measure'), '--stage', self.stage, '--build',
                   os.path.join(self.folder, 'softroce-speed')]
        subprocess.run([*command, '--compile'], check=False)
        return [Step(title, 600, [*command, '--rounds', '3', '--inside'])]


def fabrics_of(stage):
    text = subprocess.run([os.path.join(stage, 'bin/weft-info'), '--fabrics'], capture_output=True,
                          text=True, check=False).stdout
    return [name for name in ('verbs', 'tcp')
            if re.search(f'^  {name}', text, re.MULTILINE) and f'{name}: not in this' not in text]


def run(tally, folder, options, few):
    """`few`: what ./check has time for, five minutes on two cores."""
    phase = Phase(tally, folder, options)
    if not os.path.exists(os.path.join(phase.stage, 'bin/weft-info')):
        tally.add(NAME, 'the machine', 'failed', 'Weft was not installed')
        return
    # Compiled here, where that is fast; the guests find nothing older than its source.
    subprocess.run([os.path.join(ROOT, 'tests/mpi/run'), '--prefix', phase.stage, '--build',
                    os.path.join(folder, 'mpi-tests'), '--compile'], cwd=ROOT, check=False)
    if not few:
        phase.runner()
    present = fabrics_of(phase.stage)
    for fabric in ('verbs', 'tcp'):
        if fabric not in present:
            tally.add(NAME, fabric, 'skipped', 'not in this build')
    if 'verbs' in present:
        phase.machine(1, [phase.programs(1, FEW_PROGRAMS_ONE_GUEST if few else f'^(?!offload_)(?!{DEVICES})'),
                          phase.mpi('verbs', 1, FEW_ONE_GUEST if few else ONE_GUEST),
                          *([] if few else phase.speed())])
        # What makes links bad, or takes a device away, has machines of its own.
        phase.machine(2, [phase.programs(2, FEW_PROGRAMS if few else '^(?!multicast$)'),
                          phase.mpi('verbs', 2, FEW_TWO_GUESTS if few else TWO_GUESTS),
                          phase.node_faults(pattern=FEW_NODE_FAULTS if few else ''),
                          phase.faults('verbs', FEW_FAULTS if few else '')])
        if not few:
            for device in ('rxe', 'siw'):
                phase.machine(2, [phase.node_faults(2, device)], cards=2, device=device)
            phase.machine(2, [phase.programs(2, '^multicast$')])
            phase.machine(3, [phase.programs(3, '^offload$')])
            phase.machine(1, [phase.programs(1, '^offload_', 1500)])
            phase.machine(1, [phase.programs(1, DEVICES, 1500)])
        if not few:
            phase.machine(1, [phase.programs(1, '^(?!offload_)', 1200, 'siw'),
                              phase.mpi('verbs', 1, FEW_ONE_GUEST, 'siw')], device='siw')
            phase.machine(2, [phase.programs(2, '^(?!multicast$|mixed_devices$)', 900, 'siw'),
                              phase.mpi('verbs', 2, FEW_TWO_GUESTS, 'siw'),
                              phase.node_faults(device='siw'), phase.faults('verbs', '', 'siw')], device='siw')
            phase.machine(2, [phase.programs(2, '^multicast$', device='siw')], device='siw')
            phase.machine(2, [phase.programs(2, '^mixed_devices$', device='siw')], cards=2, device='siw')
    if 'tcp' in present and not few:  # tests/tcp has it between network namespaces
        phase.machine(2, [phase.mpi('tcp', 2, TWO_GUESTS), phase.faults('tcp')])
