#!/usr/bin/env python3
"""Compares the tables of weft-mcroute's OpenSM algorithms with those OpenSM itself writes.

  opensm_test.py WEFT_MCROUTE JOIN FOLDER [NAME...]

JOIN is the program of join.cpp, or "none". FOLDER, or that of WEFT_REAL_FABRICS in the environment,
may hold files *.ibnetdiscover of real fabrics, which are tested as well. Exit status: 0 if
all tables are equal, 1 if not, 77 if ibsim or OpenSM is not installed.
"""
import glob
import os
import random
import re
import subprocess
import sys
import tempfile

import ibsim

FABRICS = {  # 500 to 2000 hosts
    'fat-tree-2-level': ['pruned-fat-tree', '24', '24', '12', '2'],
    'fat-tree-3-level': ['fat-tree', '14'],
    'fat-tree-pruned': ['pruned-fat-tree', '20', '30', '6', '1'],
    'torus': ['torus', '8', '8', '4', '2'],
    'dragonfly': ['dragonfly', '8', '4', '4'],
    'random': ['random', '128', '8', '10', '3'],
}
NUM_GROUPS = 200


def ports_of(net):
    """What ibsim makes of a file: [GUID in the file, GUID in ibsim] of host ports, switch GUIDs."""
    hosts, switches, guid, in_ca = [], [], 0, False
    for line in net.splitlines():
        start = re.match(r'(switch|ca)guid=0x([0-9a-f]+)', line)
        if start:
            in_ca, guid = start[1] == 'ca', int(start[2], 16)
            if not in_ca:
                switches.append(guid)
        port = re.match(r'\[(\d+)\]\(([0-9a-f]+)\)\s*"S-', line)
        if port and in_ca:
            hosts.append((int(port[2], 16), guid + int(port[1])))
    return hosts, switches


def make_groups(net, seed):
    """As file for weft-mcroute, and as input of JOIN: hosts, some of them with switches."""
    hosts, switches = ports_of(net)
    choose = random.Random(seed)
    ours, joined = [], []
    for number in range(NUM_GROUPS):
        members = choose.sample(hosts, choose.choice([2, 3, 8, 8, 8, 20, 40]))
        if number % 4 == 0:
            members += [(guid, guid) for guid in choose.sample(switches, 1 + number % 3)]
        ours.append(' '.join([str(number)] + [f'{file:#x}' for file, _ in members]) + '\n')
        joined.append(' '.join(f'{sim:#x}' for _, sim in members) + '\n')
    return ''.join(ours), ''.join(joined)


def compare(mcroute, join, net_path, engine, folder):
    """Differences between OpenSM's tables and ours, as lines; none if they are equal."""
    with open(net_path, encoding='utf-8') as file:
        groups, joined = make_groups(file.read(), 7)
    groups_path = os.path.join(folder, 'groups')
    tables_path = os.path.join(folder, 'tables')
    with open(groups_path, 'w', encoding='utf-8') as file:
        file.write(groups)
    subprocess.run([mcroute, 'route', '--topology', net_path, '--groups', groups_path,
                    '--algorithm', f'opensm-{engine}', '--tables', tables_path], check=True,
                   stdout=subprocess.DEVNULL)
    with open(tables_path, encoding='utf-8') as file:
        ours = ibsim.read_mcfdbs(file.read())
    with ibsim.Fabric(net_path) as fabric:
        fabric.start_opensm(engine)
        done = fabric.run(join, input=joined)
        if done.returncode:
            raise ibsim.Failure(f'joins: {done.stderr}')
        wanted = [f'{0xc000 + number:#x}' for number in range(NUM_GROUPS)]
        if done.stdout.split() != wanted:
            raise ibsim.Failure('OpenSM has numbered the groups otherwise')
        # OpenSM routes at its leisure, and writes to the switches after it has said what.
        theirs = {}
        for source in (lambda: ibsim.read_mcfdbs(fabric.read('opensm.mcfdbs')),
                       lambda: ibsim.read_dump(fabric.dump_fts())):
            def equal():
                theirs.clear()
                theirs.update(source())  # pylint: disable=cell-var-from-loop
                return theirs == ours
            try:
                ibsim.until(equal, 'OpenSM')
            except ibsim.Failure:
                return ibsim.differences(ours, theirs)
        return read_back(mcroute, fabric, folder)


def read_back(mcroute, fabric, folder):
    """What is wrong with routing groups that saquery prints, in the fabric as it is told."""
    few = 10
    # ibsim delivers one packet of an answer, which holds three records.
    commands = {'told': [['ibnetdiscover']],
                'members': [['saquery', '--smkey', '1', 'MCMR', '--mgid', f'ff18::{number:x}']
                            for number in range(1, few + 1)]}
    for name, parts in commands.items():
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            for command in parts:
                done = fabric.run(*command)
                if done.returncode:
                    raise ibsim.Failure(f'{" ".join(command)}: {done.stderr}')
                file.write(done.stdout)
    done = subprocess.run([mcroute, 'route', '--topology', os.path.join(folder, 'told'), '--groups',
                           os.path.join(folder, 'members')], check=False, text=True,
                          capture_output=True)
    if done.returncode or f'groups       {few}\n' not in done.stdout:
        return [f'  groups of saquery: {done.stdout}{done.stderr}']
    return []


def main():
    mcroute, join, real = (os.path.abspath(path) if os.path.exists(path) else path
                           for path in sys.argv[1:4])
    real = os.environ.get('WEFT_REAL_FABRICS', real)
    chosen = sys.argv[4:]
    tool = ibsim.missing('ibsim', 'ibsim-run', 'opensm', 'dump_fts', 'saquery')
    if tool:
        print(f'{tool} is not installed (packages ibsim-utils, opensm, infiniband-diags)')
        return 77
    if join == 'none':
        print('libibmad-dev and libibumad-dev were not there when Weft was built')
        return 77
    fabrics = dict(FABRICS)
    for path in sorted(glob.glob(os.path.join(real, '*.ibnetdiscover'))):
        fabrics[os.path.basename(path).removesuffix('.ibnetdiscover')] = path
    if len(fabrics) == len(FABRICS):
        print(f'skipped: real fabrics: none in {real}')
    failed = 0
    for name, made in fabrics.items():
        if chosen and name not in chosen:
            continue
        with tempfile.TemporaryDirectory(prefix='weft-opensm-') as folder:
            path = made
            if isinstance(made, list):
                path = os.path.join(folder, 'net')
                with open(path, 'w', encoding='utf-8') as file:
                    subprocess.run([mcroute, 'topo', *made], check=True, stdout=file)
            for engine in 'minhop', 'sssp':
                try:
                    lines = compare(mcroute, join, path, engine, folder)
                except ibsim.Failure as failure:
                    lines = [f'  {failure}']
                print(f'{name}, {engine}: ' + ('differs' if lines else 'equal'), flush=True)
                print('\n'.join(lines), end='\n' if lines else '')
                failed += bool(lines)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
