#!/usr/bin/env python3
"""weft-mcast plan: every group goes one way, trees reach nobody else, and the tables hold them.

plan_test.py WEFT_MCAST WEFT_MCROUTE"""
import json
import os
import subprocess
import sys
import tempfile

mcast, mcroute = map(os.path.abspath, sys.argv[1:3])


def run(*words, status=0, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, **more)
    assert done.returncode == status, f'{words}: status {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout if status == 0 else done.stderr


os.chdir(tempfile.mkdtemp())
try:
    open('net', 'w').write(run(mcroute, 'topo', 'fat-tree', '8'))
    open('groups', 'w').write(run(mcroute, 'groups', 'random', '200x6', '--topology', 'net') +
                              run(mcroute, 'groups', 'random', '1x2', '--topology', 'net')
                              .replace(' ', '-pair ', 1))
    lines = {line.split()[0]: line for line in open('groups')}

    def plan(*words):
        text = run(mcast, 'plan', 'net', 'groups', '--json', 'plan', '--tables', 'tables', *words)
        made = json.load(open('plan'))
        assert [group['id'] for group in made['groups']] == list(lines)
        trees = [group for group in made['groups'] if group['way'] == 'tree']
        assert f'{len(trees)} groups go by {made["trees"]} trees' in text, text
        # The tables serve those groups, and every tree reaches its own members alone.
        open('served', 'w').write(''.join(lines[group['id']] for group in trees))
        run(mcroute, 'verify', '--topology', 'net', '--groups', 'served', '--tables', 'tables')
        if len(trees) < len(lines) - 1:
            open('all', 'w').write(''.join(lines[group['id']] for group in made['groups'][:-1]))
            refused = run(mcroute, 'verify', '--topology', 'net', '--groups', 'all', '--tables',
                          'tables', status=2)
            assert 'serves' in refused or 'group' in refused, refused
        return made, trees

    made, trees = plan()
    # A tree crosses each cable once: never more than a cable a member and one to each other switch.
    for group in trees:
        assert group['members'] <= group['cables'] < group['pipeline_cables'], group
    assert len(trees) == 200 and made['groups'][-1]['why'] == '2 members', made['groups'][-1]
    fewer = None
    for entries in (64, 16, 3):
        made, trees = plan('--entries', str(entries))
        assert 0 < len(trees) < (fewer or 200) and made['entries'] <= entries, (entries, len(trees))
        assert len({group['mlid'] for group in trees}) <= entries
        fewer = len(trees)
        for group in made['groups'][:-1]:
            assert group['way'] == 'tree' or group['why'] == 'no entry is left', group
    made, trees = plan('--min-members', '2')
    assert len(trees) == 201

    # Wrong input.
    run(mcast, 'plan', 'net', 'groups', '--entries', '0', status=2)
    assert 'absent' in run(mcast, 'plan', 'absent', 'groups', status=2)
    open('wrong', 'w').write('g1 0x1234567 0x7654321\n')
    assert 'wrong:1:' in run(mcast, 'plan', 'net', 'wrong', status=2)
    assert 'nowhere/plan' in run(mcast, 'plan', 'net', 'groups', '--json', 'nowhere/plan', status=2)
finally:
    folder = os.getcwd()
    os.chdir('/')
    subprocess.run(['rm', '-rf', folder], check=True)
