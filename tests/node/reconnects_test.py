#!/usr/bin/env python3
"""Nodes whose network fails as field reports tell it, within tests/netns/run --hosts 3: a switch that reboots under
200 clients, a port that flaps 20 times a minute, a server that starts again at its address while clients believe in
the one before, a host that does not answer a handshake while others do. Argument: node_reconnects."""
import subprocess
import sys
import time

PROGRAM = sys.argv[1]
ON = sys.argv[2]
DEADLINE_S = 60
PORT = 7300


def port(host, state):
    """Of the switch, to that host."""
    subprocess.run(['ip', 'link', 'set', 'v' + host[1:], state], check=True, timeout=30)


class Program:
    def __init__(self, host, *words):
        self.process = subprocess.Popen([ON, host, PROGRAM, *map(str, words)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline()
        assert line, f'{self.process.args}: ended with {self.process.wait(DEADLINE_S)}'
        return line.strip()

    def counts(self, word=''):
        self.process.stdin.write(word + '\n')
        self.process.stdin.flush()
        return {name: int(value) for name, value in (word.split('=') for word in self.line().split())}

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(DEADLINE_S) == 0, self.process.args


def start_server(at, timeout_ms):
    server = Program('h1', 'server', at, timeout_ms)
    assert server.line() == 'ready'
    return server


def begin(at, timeout_ms, numbers):
    """A server and its clients, so many on each host, that add."""
    server = start_server(at, timeout_ms)
    clients = [Program(host, 'clients', f'10.88.0.1:{at}', count, timeout_ms) for host, count in numbers]
    return server, clients, all_add(clients, sum(count for _, count in numbers))


def sum_of(clients):
    all_counts = [client.counts() for client in clients]
    return {name: sum(counts[name] for counts in all_counts) for name in all_counts[0]}


def wait_until(what, condition):
    """What `condition` returns once it is true."""
    limit = time.monotonic() + DEADLINE_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < limit, f'not within {DEADLINE_S} s: {what}'
        time.sleep(0.1)


def all_add(clients, count):
    """Waits until all are connected, and have begun to add since, and done it: of the additions that end next one for
    each may have been answered before, by a server that is gone, whose kernel still delivers that."""
    def ready():
        counts = sum_of(clients)
        return counts['ready'] == count and counts
    before = wait_until(f'{count} clients are connected', ready)
    return wait_until('they add', lambda: (now := sum_of(clients))['added'] >= before['added'] + 2 * count and now)


def end_all(server, clients):
    """What was answered was done, and nothing more than what may have been done."""
    for client in clients:
        client.counts('stop')
    counts = wait_until('no addition is under way', lambda: (now := sum_of(clients))['adding'] == 0 and now)
    counter = server.counts()['counter']
    assert counts['added'] <= counter <= counts['added'] + counts['unknown'], (counts, counter)
    for program in (*clients, server):
        program.end()


def switch_reboots():
    at, timeout_ms, count = PORT, 3000, 200
    server, clients, _ = begin(at, timeout_ms, [('h2', 50), ('h2', 50), ('h3', 50), ('h3', 50)])
    before = server.counts()
    port('h1', 'down')
    wait_until('all clients have lost the server', lambda: sum_of(clients)['lost'] >= count)
    wait_until('the server has lost all clients', lambda: server.counts()['lost'] >= count)
    start = time.monotonic()
    port('h1', 'up')
    all_add(clients, count)
    print(f'a switch reboots: {count} clients are back {time.monotonic() - start:.1f} s after it', flush=True)
    wait_until('what the server keeps is as before', lambda: server.counts()['descriptors'] <= before['descriptors'] + 8)
    assert server.counts()['peers'] == count
    end_all(server, clients)


def port_flaps():
    at, timeout_ms, count = PORT + 1, 10_000, 8
    server, clients, before = begin(at, timeout_ms, [('h2', count)])
    for _ in range(5):
        port('h1', 'down')
        time.sleep(1)
        port('h1', 'up')
        time.sleep(2)
    after = all_add(clients, count)
    assert after['lost'] == 0, after
    # An addition under which a link ends is not done again: it may have been done.
    print(f'a port flaps: {after["added"] - before["added"]} additions, {after["unknown"]} unknown', flush=True)
    end_all(server, clients)


def server_starts_again():
    at, timeout_ms, count = PORT + 2, 10_000, 4
    server, clients, before = begin(at, timeout_ms, [('h2', count)])
    # So that no goodbye and no reset comes through.
    port('h1', 'down')
    server.process.kill()
    server.process.wait(DEADLINE_S)
    server = start_server(at, timeout_ms)
    assert sum_of(clients)['lost'] == 0  # they believe in the one before
    start = time.monotonic()
    port('h1', 'up')
    after = all_add(clients, count)
    print(f'a server starts again: clients have the new one after {time.monotonic() - start:.1f} s', flush=True)
    assert after['generation'] != before['generation'], after
    assert after['lost'] == count, after
    assert server.counts()['counter'] > 0
    for program in (*clients, server):
        program.end()


def host_is_dead():
    at, count = PORT + 3, 20
    server = start_server(at, 10_000)
    port('h3', 'down')
    client = Program('h2', 'connect', f'10.88.0.3:{at}', f'10.88.0.1:{at}', count)
    output, _ = client.process.communicate(timeout=2 * DEADLINE_S)
    port('h3', 'up')
    lines = output.splitlines()
    assert lines[:count] == ['living ok'] * count, output
    assert lines[count].startswith('dead failed: ') and '10.88.0.3' in lines[count], output
    print(f'a host is dead: {count} handshakes with another, {lines[-1]}', flush=True)
    server.end()


for case in (host_is_dead, server_starts_again, port_flaps, switch_reboots):
    case()
