#!/usr/bin/env python3
"""weft-info --check, within tests/netns/run --hosts 2: hosts that are well, and faults that it must
find and name. Argument: weft-info."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

info = sys.argv[1]
OWN_LAUNCH = os.environ['WEFT_LAUNCH']


def run(*words, before=(), **more):
    return subprocess.run([*before, info, '--check', *words], capture_output=True, text=True, timeout=120,
                          check=False, stdin=subprocess.DEVNULL, **more)


def check(*hosts, status, **more):
    """The findings, each with its level."""
    done = run(*hosts, '--json', **more)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    report = json.loads(done.stdout)
    assert report['errors'] == sum(one['level'] == 'error' for one in report['findings'])
    return report['findings']


def find(findings, level, what, where=None):
    found = [one for one in findings if one['level'] == level and one['what'].startswith(what) and
             (where is None or where in one['where'])]
    assert found, (level, what, where, findings)
    if level != 'ok':
        assert found[0]['do'], found[0]
    return found[0]


def command(*words):
    subprocess.run(words, check=True, timeout=30)


def set_mtu(host, mtu):
    command('ip', '-n', host, 'link', 'set', 'eth0', 'mtu', str(mtu))


def all_is_well():
    findings = check('h1', 'h2', status=0)
    for way in ('h1 -> h2', 'h2 -> h1'):
        find(findings, 'ok', 'TCP', way)
        assert '1500' in find(findings, 'ok', 'packets', way)['value']
    # How fast it is depends on the machine; that bytes came both ways does not.
    moved = [one for one in findings if one['what'] == 'tcp eth0 to eth0']
    assert len(moved) == 1 and 'Gbit/s there and' in moved[0]['value'], findings
    find(findings, 'ok', 'clocks')
    text = run('h1', 'h2').stdout.splitlines()
    assert all(line.split()[0] in ('ok', 'note', 'warning', 'error', 'do:') for line in text[:-1]), text
    assert text[-1].startswith('2 hosts: 0 errors, '), text[-1]


def this_host_alone():
    done = run()
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith('1 host: 0 errors'), done
    low = ('prlimit', '--memlock=65536:65536', 'setpriv', '--bounding-set=-ipc_lock', '--inh-caps=-ipc_lock')
    found = find(check(status=0, before=low), 'warning', 'locked memory')
    assert found['value'].startswith('64 KiB') and 'ulimit -l unlimited' in found['do'], found
    found = find(check(status=1, env={**os.environ, 'WEFT_FABRIC': 'verbs'}), 'error', 'RDMA')
    assert 'no device' in found['value'], found
    assert subprocess.run([info, '--json'], capture_output=True, timeout=30, check=False).returncode == 2


def ends_that_differ():
    set_mtu('h1', 1400)
    try:
        findings = check('h1', 'h2', status=0)
    finally:
        set_mtu('h1', 1500)
    found = find(findings, 'warning', 'MTU', 'h1 <-> h2')
    assert 'h1 has 1400, h2 has 1500' in found['value'] and 'ip link set eth0 mtu 1500' in found['do'], found
    assert '1400' in find(findings, 'ok', 'packets')['value']


def a_path_that_drops_large_packets():
    for host in ('h1', 'h2'):
        set_mtu(host, 9000)  # what is between them has 1500
    try:
        findings = check('h1', 'h2', status=1)
    finally:
        for host in ('h1', 'h2'):
            set_mtu(host, 1500)
    found = find(findings, 'error', 'packets', 'h1 -> h2')
    assert 'more than 1500 bytes vanish' in found['value'], found


def a_firewall_that_drops():
    # Answers of h2 are dropped there, as are those that a firewall does not let out.
    command('ip', '-n', 'h2', 'route', 'add', 'blackhole', '10.88.0.1/32')
    try:
        findings = check('h1', 'h2', status=1)
    finally:
        command('ip', '-n', 'h2', 'route', 'del', 'blackhole', '10.88.0.1/32')
    found = find(findings, 'error', 'TCP', 'h1 -> h2')
    assert 'no answer in 3 s' in found['value'] and '10.88.0.2' in found['value'], found
    assert 'iptables -I INPUT -p tcp -s 10.88.0.1' in found['do'], found
    assert 'blackhole' in find(findings, 'error', 'route', 'h2 -> h1')['value']


def a_host_that_is_missing():
    findings = check('h1', 'h9', status=1)
    assert 'h9' in find(findings, 'error', 'start', 'h9')['value']
    find(findings, 'ok', 'Weft', 'h1')


def another_version(folder):
    shutil.copy(info, f'{folder}/real')
    with open(f'{folder}/old', 'w', encoding='utf-8') as script:
        script.write(f'#!/bin/sh\n"{folder}/real" "$@" | sed -u \'1s/"weft":"[^"]*"/"weft":"0.0.9"/\'\n')
    with open(f'{folder}/launch', 'w', encoding='utf-8') as script:
        script.write('#!/bin/sh\n'
                     f'if [ "$1" = h2 ]; then mount --bind "{folder}/old" "{info}"; fi\n'
                     f'exec {OWN_LAUNCH.replace("{host}", "")} "$@"\n')
    for name in ('old', 'launch'):
        os.chmod(f'{folder}/{name}', 0o755)
    launch = f'unshare --mount {folder}/launch {{host}}'
    findings = check('h1', 'h2', status=1, env={**os.environ, 'WEFT_LAUNCH': launch})
    found = find(findings, 'error', 'Weft', 'h2')
    assert 'version 0.0.9' in found['value'], found


def members():
    found = []
    for name in os.listdir('/proc'):
        try:
            with open(f'/proc/{name}/cmdline', 'rb') as file:
                words = file.read().split(b'\0')
            with open(f'/proc/{name}/environ', 'rb') as file:
                is_own = f'WEFT_CHECK_TEST_OWN={os.getpid()}'.encode() in file.read()
        except OSError:
            continue
        if is_own and (b'--serve-check' in words or b'--serve-host' in words):
            found.append(words)
    return found


def interrupted(folder):
    """While one host does not answer, the other's member runs, and ends with the command."""
    with open(f'{folder}/slow', 'w', encoding='utf-8') as script:
        script.write('#!/bin/sh\n'
                     f'export WEFT_CHECK_TEST_OWN={os.getpid()}\n'
                     'if [ "$1" = h2 ]; then exec sleep 60; fi\n'
                     f'exec {OWN_LAUNCH.replace("{host}", "")} "$@"\n')
    os.chmod(f'{folder}/slow', 0o755)
    checking = subprocess.Popen([info, '--check', 'h1', 'h2'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, 'WEFT_LAUNCH': f'{folder}/slow {{host}}'})
    deadline = time.monotonic() + 60
    while not any(b'--serve-check' in words for words in members()):
        assert time.monotonic() < deadline and checking.poll() is None, checking.poll()
        time.sleep(0.05)
    checking.send_signal(signal.SIGINT)
    _, errors = checking.communicate(timeout=60)
    assert checking.returncode == 130 and 'interrupted' in errors, (checking.returncode, errors)
    assert not members(), members()


def hostile_questions():
    asked = '{"do": "time"}\nno json\n[]\n{"do": "measure", "end": 99, "address": "", "ms": 1}\n{"do": 7}\n'
    done = subprocess.run([info, '--serve-check'], input=asked, capture_output=True, text=True, timeout=60, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(answers) == 6, done
    assert 'weft' in answers[0] and 'ns' in answers[1] and all('error' in one for one in answers[2:]), answers


with tempfile.TemporaryDirectory(prefix='weft-check-') as place:
    all_is_well()
    this_host_alone()
    ends_that_differ()
    a_path_that_drops_large_packets()
    a_firewall_that_drops()
    a_host_that_is_missing()
    another_version(place)
    interrupted(place)
    hostile_questions()
print('all found')
