#!/usr/bin/env python3
"""What every command has: --help, --version, exit status 2 for wrong use, its name before what it
says on standard error, and the option that was probably meant. Arguments: the commands."""
import os
import re
import subprocess
import sys


def run(command, *words, **more):
    return subprocess.run([command, *words], capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, **more)


def check_rows(command, name):
    done = run(command, '--print-options')
    rows = [line.split('\t') for line in done.stdout.splitlines()]
    assert done.returncode == 0 and rows[0][:2] == ['command', name], (name, done)
    assert all(len(row) == {'command': 4, 'option': 8, 'argument': 8}[row[0]] for row in rows), (name, rows)
    assert '--print-options' not in run(command, '--help').stdout, name


def check(command):
    name = os.path.basename(command)
    for flag in ('--help', '-h'):
        done = run(command, flag)
        assert done.returncode == 0 and not done.stderr, (name, flag, done)
        assert len(done.stdout.splitlines()) > 4, (name, flag, done.stdout)
        assert all(len(line) <= 110 for line in done.stdout.splitlines() if ' ' not in line.strip()), done.stdout
    assert '--version' in run(command, '--help').stdout, name
    done = run(command, '--version')
    assert done.returncode == 0 and re.fullmatch(rf'{name} \(Weft\) \d+\.\d+\.\d+\n', done.stdout), (name, done)
    for flag, meant in (('--hlep', '--help'), ('--versoin', '--version')):
        done = run(command, flag)
        assert done.returncode == 2, (name, flag, done)
        assert not done.stdout, (name, flag, done)
        first = done.stderr.splitlines()[0]
        assert first.startswith(f'{name}: ') and f'did you mean {meant}?' in first, (name, first)
        assert len(done.stderr.splitlines()) == 1, (name, done.stderr)
    # For programs alone: every option in a row, and none of it in --help. weftrun has rows in --help.
    if name != 'weftrun':
        check_rows(command, name)
    # A message that nobody can read is no success.
    with open('/dev/full', 'w', encoding='utf-8') as full:
        done = subprocess.run([command, '--help'], stdout=full, stderr=subprocess.DEVNULL, timeout=60, check=False)
        assert done.returncode != 0, (name, 'a full disk')


for each in sys.argv[1:]:
    check(each)
print(f'{len(sys.argv) - 1} commands')
