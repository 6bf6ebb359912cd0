#!/usr/bin/env python3
"""Two jobs that meet by a published name, and are killed in turn.

  meet_test.py WEFTRUN MEET
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

WEFTRUN, MEET = sys.argv[1:3]
started = []


def start(*words, **options):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **options)
    started.append(process)
    return process


def expect(is_true, what):
    if not is_true:
        sys.exit(f'not so: {what}')


def wait_for(path, seconds=60):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        expect(time.monotonic() < end, f'{path} appears')
        time.sleep(0.01)
    os.unlink(path)


def client(names, path):
    return start(WEFTRUN, '--name-server', names, '-n', '1', MEET, 'connect', path)


def result(process, seconds=60):
    out, _ = process.communicate(timeout=seconds)
    return process.returncode, out.strip()


def main(folder):
    server = start(WEFTRUN, '--serve-names', '--address', '127.0.0.1')
    names = server.stdout.readline().strip()
    busy = os.path.join(folder, 'busy')
    expect('/' in names, f'{names!r} is an address with a key')

    # A job that knows another key is told nothing.
    expect(result(client(names[:-1] + ('1' if names[-1] == '0' else '0'), '-'))[0] != 0,
           'a wrong key is refused')
    expect(result(client(names, '-')) == (5, 'no such name'), 'nothing is published yet')

    serving = start(WEFTRUN, '--name-server', names, '-n', '1', MEET, 'serve', '4')
    expect(serving.stdout.readline() == 'published\n', 'the port is published')
    expect(result(client(names, '-')) == (0, ''), 'a client is served')
    expect(serving.stdout.readline() == 'served 1, lost 0\n', 'the server has seen its end')

    # A client is killed, launcher and all: the server goes on with the next.
    killed = client(names, busy)
    wait_for(busy)
    killed.kill()
    expect(serving.stdout.readline() == 'served 1, lost 1\n', 'the server has seen the loss')
    expect(result(client(names, '-')) == (0, ''), 'the next client is served')
    expect(serving.stdout.readline() == 'served 2, lost 1\n', 'the server has seen its end, too')

    # The server is killed: its client ends with an error, and its name is no more.
    left = client(names, busy)
    wait_for(busy)
    serving.kill()
    expect(result(left) == (0, 'lost the server'), 'the client has seen the loss')
    end = time.monotonic() + 30
    while result(client(names, '-')) != (5, 'no such name'):
        expect(time.monotonic() < end, 'the name ends with its publisher')
    server.send_signal(signal.SIGTERM)
    expect(result(server)[0] == 0, 'the server of names ends in good order')


with tempfile.TemporaryDirectory() as temporary:
    try:
        main(temporary)
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
                one.wait()
print('as expected')
