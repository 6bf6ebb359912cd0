#!/usr/bin/env python3
"""What weft-store says, and what it refuses to serve: log_test.py WEFT_STORE."""
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

weft_store = sys.argv[1]
folder = tempfile.mkdtemp(prefix="weft-store-log-")
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} weft-store: "


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def secret(name, text, mode=0o600):
    path = os.path.join(folder, name)
    with open(path, "w", newline="") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


class Store:
    def __init__(self, name, *arguments):
        self.path, self.lines = os.path.join(folder, name), []
        self.process = subprocess.Popen(
            [weft_store, "--socket", self.path, *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "WEFT_PEER_TIMEOUT_MS": "3000"})
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        line = self.process.stdout.readline()
        assert line == f"ready {self.path}\n", (line, self.lines)

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def says(self, *words):
        """A line with all of these, and its time."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if all(word in line for word in words):
                    assert re.match(TIME, line), line
                    return line
            time.sleep(0.02)
        raise AssertionError((words, self.lines))

    def run(self, *arguments, data=None, code=0):
        result = subprocess.run([weft_store, "--socket", self.path, *arguments], input=data,
                                capture_output=True, timeout=60)
        assert result.returncode == code, (arguments, result)
        return result.stdout if code == 0 else result.stderr.decode()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


def refused(*arguments):
    result = subprocess.run([weft_store, "--socket", os.path.join(folder, "no"), *arguments],
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == "", result
    return result.stderr


# Memory that can never be served, and what is served.
message = refused("--memory", "60TiB")
assert "--memory 60 TiB" in message and "of memory and swap" in message, message
with open("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages") as file:
    pages = int(file.read())
if pages == 0:
    message = refused("--huge-pages", "--memory", "64MiB")
    assert "32 pages of 2 MiB" in message and "vm.nr_hugepages=32" in message, message
# Addresses that cannot be any.
mine = secret("mine", "of the log test\n")
for address in ("hostB", "hostB:", "hostB:x", "hostB:70000", "unix:", "weft:nonsense"):
    message = refused("--listen", free_address(), "--secret-file", mine, "--peers", address)
    assert f"--peers {address}" in message, message

# Two that meet, one of them with a line's end of two bytes; others may read its secret.
first, second = free_address(), free_address()
theirs = secret("theirs", "of the log test\r\n", 0o644)
a = Store("a", "--memory", "8MiB", "--listen", first, "--secret-file", mine)
a.says("memory for objects: up to 8 MiB in pages of 4 KiB")
b = Store("b", "--memory", "4MiB", "--listen", second, "--secret-file", theirs, "--peers", first,
          "--peers", "nobody.invalid:7001")
b.says("warning", theirs, "chmod 600")
b.says("--peers nobody.invalid:7001", "tried again")
host = socket.gethostname()[:50]
a.says(f"peer 'weft-store {host}' at {second} joined")
b.says(f"peer 'weft-store {host}' at {first} joined")
# One id at two hosts.
a.run("put", "same", "-", data=b"first")
deadline = time.monotonic() + 30
while b.run("get", "same", "--timeout", "20") != b"first":
    assert time.monotonic() < deadline
b.run("delete", "same")
a.run("put", "same2", "-", data=b"first")
message = b.run("put", "same2", "-", data=b"second", code=1)
assert "object same2 is on another host" in message, message
assert b.run("get", "same2", "--timeout", "20") == b"first"
# No room here for what another host has.
b.run("put", "--pin", "pinned", "-", data=b"1" * (3 << 20))
a.run("put", "large", "-", data=b"2" * (2 << 20))
message = b.run("get", "large", "--timeout", "1", code=1)
assert "is on another host, and finds no room here" in message, message
# Another secret.
c = Store("c", "--memory", "4MiB", "--listen", free_address(), "--secret-file",
          secret("other", "of another\n"), "--peers", first)
c.says(f"--peers {first}", "secret")
a.says("warning: refused the process at 127.0.0.1", "secret")
assert sum("refused the process" in line for line in a.lines) <= 2, a.lines
c.end()
# A foreign process of another user.
if os.geteuid() == 0:
    os.chmod(folder, 0o755)
    os.chmod(a.path, 0o666)
    code = ("import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX, "
            "socket.SOCK_SEQPACKET); s.connect(sys.argv[1])")
    subprocess.run([sys.executable, "-c", code, a.path], check=True, timeout=60)
    a.says("refused process", "user 65534's", "this store serves user 0")
b.end(signal.SIGKILL)
a.says(f"peer 'weft-store {host}' at {second} was lost")
a.end()
# The quick start: what begins a moment before its store waits for it.
file = secret("file.bin", "contents")
quick = os.path.join(folder, "quick")
script = (f"cd {shlex.quote(folder)}; export XDG_RUNTIME_DIR={shlex.quote(folder)}; "
          f"weft() {{ {shlex.quote(os.path.abspath(weft_store))} \"$@\"; }}; "
          "(sleep 0.3; exec " + shlex.quote(os.path.abspath(weft_store)) + " --memory 64MiB) & "
          "store=$!; weft put matrix file.bin && weft ls; kill $store; wait $store")
result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
assert "matrix" in result.stdout and "weft-store.sock" in result.stdout, result
for name in os.listdir(folder):
    os.unlink(os.path.join(folder, name))
os.rmdir(folder)
print("as expected")
