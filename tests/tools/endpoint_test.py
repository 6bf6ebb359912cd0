#!/usr/bin/env python3
"""Metrics, health and log lines of weft-store and weft-switch: endpoint_test.py WEFT_STORE WEFT_SWITCH.

Hostile clients never keep a scraper away; what they send is answered with 400 or 404, or their connection ends."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

weft_store, weft_switch = sys.argv[1:]
promtool = shutil.which('promtool')
TIME = r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}'
DEADLINE = 60  # seconds, of what takes none: for a machine that is busy


class Server:
    """A server with an endpoint at a port that it chose, which its log names."""

    def __init__(self, folder, first, *words, metrics='127.0.0.1:0', log_format='text'):
        self.log = os.path.join(folder, 'log')
        with open(self.log, 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen([*words, '--metrics', metrics, '--log-format', log_format],
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        self.first = self.process.stdout.readline()
        assert self.first.startswith(first), (self.first, self.lines())
        if log_format == 'json':
            found = [json.loads(line) for line in self.lines()]
            self.address = next(line['address'] for line in found if line.get('event') == 'metrics')
        else:
            self.address = re.search(r'event=metrics address=(\S+?)\]', '\n'.join(self.lines())).group(1)

    def lines(self):
        with open(self.log, encoding='utf-8') as log:
            return log.read().splitlines()

    def get(self, path):
        with urllib.request.urlopen(f'http://{self.address}{path}', timeout=DEADLINE) as answer:
            assert answer.status == 200
            return answer.headers, answer.read().decode()

    def connect(self):
        host, _, port = self.address.rpartition(':')
        return socket.create_connection((host, int(port)), timeout=DEADLINE)

    def send(self, data):
        """What the endpoint answers, all of it; an answer may be lost where more was sent than is read."""
        with self.connect() as client:
            client.settimeout(DEADLINE)
            answer = b''
            try:
                client.sendall(data)
                while piece := client.recv(65536):
                    answer += piece
            except ConnectionError:
                pass
            return answer

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=DEADLINE)
        self.process.stdout.close()


def samples(text):
    """The samples by name and labels; checks the format line by line."""
    found, types = {}, {}
    for line in text.splitlines():
        if match := re.fullmatch(r'# HELP (\w+) (\S.*)', line):
            assert match.group(1) not in types, line
            types[match.group(1)] = None
            assert 'Not described' not in line, line
        elif match := re.fullmatch(r'# TYPE (\w+) (counter|gauge)', line):
            assert types[match.group(1)] is None, line
            types[match.group(1)] = match.group(2)
            assert (match.group(2) == 'counter') == match.group(1).endswith('_total'), line
        else:
            match = re.fullmatch(r'((\w+)(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})?) (\d+(?:\.\d+)?(?:e[+-]?\d+)?)', line)
            assert match and types[match.group(2)] and match.group(1) not in found, line
            found[match.group(1)] = float(match.group(3))
    return found


def check_by_promtool(text):
    if promtool is not None:
        done = subprocess.run([promtool, 'check', 'metrics'], input=text, capture_output=True, text=True,
                              timeout=DEADLINE, check=False)
        assert done.returncode == 0 and not done.stderr, done


def check_hostile(server):
    host = b'Host: x\r\n'
    for path in ('/', '/metrics/', '/metrics?x', '/../metrics', '/favicon.ico'):
        try:
            server.get(path)
            raise SystemExit(f'{path} is there')
        except urllib.error.HTTPError as error:
            assert error.code == 404, (path, error.code)
            error.close()
    for wrong in (b'POST /metrics HTTP/1.1\r\n' + host + b'\r\n', b'GET /metrics HTTP/9.9\r\n' + host + b'\r\n',
                  b'GET /metrics HTTP/1.1\r\n\r\n', b'GET /metrics\r\n\r\n', b'\x16\x03\x01\x02\x00\x01\x00',
                  b'GET /metrics HTTP/1.1\n' + host + b'\n', b'GET /\0 HTTP/1.1\r\n' + host + b'\r\n',
                  b'GET /metrics HTTP/1.1\r\n' + host + b'Content-Length: 3\r\n\r\nabc',
                  bytes(range(256)), b'GET /' + b'a' * 20000, b'GET / HTTP/1.1\r\nX: ' + b'a' * 20000):
        answer = server.send(wrong)
        assert answer == b'' or answer.startswith(b'HTTP/1.1 400 '), (wrong[:60], answer)
    # Short ones are always answered: nothing that was sent is left unread.
    assert server.send(b'DELETE / HTTP/1.1\r\n\r\n').startswith(b'HTTP/1.1 400 ')
    assert server.send(b'GET / HTTP/1.0\r\n\r\n').startswith(b'HTTP/1.1 404 ')
    # Without end, and much of it: the connection ends before all is sent.
    with server.connect() as client:
        try:
            for _ in range(1000):
                client.sendall(b'x' * 65536)
            raise SystemExit('64 MB were taken')
        except ConnectionError:
            pass
    # Many that say nothing, and one that says a byte at a time: a scraper is served among them, and they end.
    silent = [server.connect() for _ in range(200)]
    slow = server.connect()
    for letter in b'GET /metrics HTTP/1.1\r\n':
        try:
            slow.send(bytes([letter]))
        except ConnectionError:
            break
        server.get('/healthz')
    assert samples(server.get('/metrics')[1])
    for client in [*silent, slow]:
        client.settimeout(DEADLINE)
        try:
            assert client.recv(1) == b''
        except ConnectionError:
            pass
        client.close()


def check_ignores_pipe(server):
    """A server goes on when nobody reads its log any longer."""
    with open(f'/proc/{server.process.pid}/status', encoding='ascii') as status:
        ignored = int(re.search(r'^SigIgn:\s*(\w+)$', status.read(), re.MULTILINE).group(1), 16)
    assert ignored >> (signal.SIGPIPE - 1) & 1, hex(ignored)


def check_endpoint(server):
    headers, text = server.get('/metrics')
    assert headers['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8', headers
    assert int(headers['Content-Length']) == len(text.encode())
    check_by_promtool(text)
    assert server.get('/healthz')[1] == 'ok\n'
    return samples(text)


def wait_for(server, wanted):
    """The samples once they are as wanted: the endpoint repeats those of a moment ago."""
    deadline = time.monotonic() + DEADLINE
    while not wanted(found := check_endpoint(server)):
        assert time.monotonic() < deadline, found
    return found


def check_store(folder):
    path = os.path.join(folder, 'store')
    secret = os.path.join(folder, 'secret')
    with open(secret, 'w', encoding='utf-8') as file:
        file.write('of the server test\n')
    os.chmod(secret, 0o600)
    # Its name is no UTF-8, and the status has it.
    spill = os.path.join(folder, os.fsdecode(b'spill\xff'))
    os.mkdir(spill)
    server = Server(folder, 'ready ', weft_store, '--socket', path, '--memory', '8MiB', '--spill', spill,
                    '--listen', '127.0.0.1:0', '--secret-file', secret)

    check_ignores_pipe(server)

    def run(*words, data=None):
        return subprocess.run([weft_store, '--socket', path, *words], input=data, capture_output=True, check=True,
                              timeout=DEADLINE).stdout.decode()

    run('put', 'one', '-', data=b'x' * 1000)
    found = wait_for(server, lambda found: found['weft_store_objects_sealed_total'] == 1)
    assert found['weft_store_objects'] == 1 and found['weft_store_memory_capacity_bytes'] == 8 << 20, found
    assert found['weft_store_requested_objects_total{found="yes"}'] == 0, found
    # The command has the same metrics.
    text = run('status', '--prometheus')
    check_by_promtool(text)
    assert samples(text).keys() == found.keys(), (samples(text).keys() ^ found.keys())
    check_hostile(server)
    # The store served on meanwhile.
    assert run('get', 'one') == 'x' * 1000
    for line in server.lines():
        assert re.match(TIME + r' weft-store: (info|warning|error): ', line), line
    server.end()
    # A socket, and one that a killed server left.
    metrics = os.path.join(folder, 'metrics')
    for how in (signal.SIGKILL, signal.SIGTERM):
        server = Server(folder, 'ready ', weft_store, '--socket', path, '--memory', '8MiB',
                        metrics='unix:' + metrics, log_format='json')
        client = http.client.HTTPConnection('localhost')
        client.sock = socket.socket(socket.AF_UNIX)
        client.sock.settimeout(DEADLINE)
        client.sock.connect(metrics)
        client.request('GET', '/healthz')
        assert client.getresponse().read() == b'ok\n'
        client.close()
        for line in map(json.loads, server.lines()):
            assert re.fullmatch(TIME, line['time']) and line['server'] == 'weft-store', line
            assert line['level'] in ('info', 'warning', 'error') and line['message'], line
        server.process.send_signal(how)
        server.process.wait(timeout=DEADLINE)
        server.process.stdout.close()
    assert not os.path.exists(metrics)


def check_switch(folder):
    server = Server(folder, 'listening ', weft_switch, 'serve', '--groups', '77')
    address = server.first.split()[1]
    check_ignores_pipe(server)
    found = check_endpoint(server)
    assert found['weft_switch_groups_max'] == 77 and found['weft_switch_packets_total'] == 0, found
    subprocess.run([weft_switch, 'status', address], capture_output=True, check=True, timeout=DEADLINE)
    wait_for(server, lambda found: found['weft_switch_packets_total'] > 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as foreign:
        foreign.sendto(b'garbage', (address.rpartition(':')[0], int(address.rpartition(':')[2])))
    wait_for(server, lambda found: found['weft_switch_malformed_total'] == 1)
    check_hostile(server)
    # The switch served on meanwhile.
    subprocess.run([weft_switch, 'status', address], capture_output=True, check=True, timeout=DEADLINE)
    for line in server.lines():
        assert re.match(TIME + r' weft-switch: info: ', line), line
    server.end()
    server = Server(folder, 'listening ', weft_switch, 'serve', log_format='json')
    events = [json.loads(line)['event'] for line in server.lines()]
    assert events == ['metrics', 'listening'], events
    server.end()


def check_refused():
    for words, wanted in ((['--metrics', 'nonsense'], 'HOST:PORT'), (['--metrics', '127.0.0.1:99999'], 'HOST:PORT'),
                          (['--log-format', 'xml'], 'json')):
        for command in ([weft_store, '--memory', '8MiB', '--socket', '/nowhere/socket'], [weft_switch, 'serve']):
            if command[0] == weft_store and words[0] == '--metrics':
                continue  # the socket is made first
            done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=DEADLINE, check=False)
            assert done.returncode == 2 and wanted in done.stderr and not done.stdout, (command, words, done)


with tempfile.TemporaryDirectory(prefix='weft-server-') as name:
    check_store(name)
    check_switch(name)
check_refused()
print('as expected' + ('' if promtool else '; no promtool here to check the metrics with'))
