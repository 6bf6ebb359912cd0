"""weft-store processes of several hosts, for tests that start, end and kill them."""
import hashlib
import json
import os
import signal
import shutil
import subprocess
import sys
import tempfile
import time

NETNS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "netns")
LIMIT = 60  # seconds that anything may take on a machine under load


def run_in_namespaces(num_hosts):
    """Runs this program beside network namespaces, and ends, unless it is there already."""
    if "WEFT_LAUNCH" in os.environ:
        return
    result = subprocess.run([os.path.join(NETNS, "run"), "--hosts", str(num_hosts), "--",
                             sys.executable, os.path.realpath(sys.argv[0]), *sys.argv[1:]])
    sys.exit(result.returncode)


def contents(name, size):
    """What only this name and size have."""
    block = hashlib.sha512(name.encode()).digest()
    return (block * (size // len(block) + 1))[:size]


def eventually(check, what, details=lambda: ""):
    deadline = time.monotonic() + LIMIT
    while not check():
        assert time.monotonic() < deadline, (what, details())
        time.sleep(0.01)


def meet(hosts):
    for host in hosts:
        eventually(lambda: len(host.status()["peers"]) == len(hosts) - 1, f"host {host.number} alone",
                   lambda: {other.number: other.status()["peers"] for other in hosts})


class Folder:
    """Of the sockets and the secret; `end` says what else was left in it."""

    def __init__(self, prefix):
        self.path = tempfile.mkdtemp(prefix=prefix)
        self.secret = os.path.join(self.path, "secret")
        with open(self.secret, "w") as file:
            file.write(f"of {prefix}\n")

    def end(self):
        left = [name for name in os.listdir(self.path)
                if name != "secret" and not name.endswith(".node")]
        assert not left, left
        shutil.rmtree(self.path)


class Redis:
    """A redis-server that all hosts reach; without one on this machine the test is skipped."""

    def __init__(self, folder, in_namespace):
        if shutil.which("redis-server") is None:
            print("skipped: no redis-server on this machine", file=sys.stderr)
            sys.exit(77)
        self.folder, self.server = folder, None
        self.bind = "0.0.0.0" if in_namespace else "127.0.0.1"
        self.port = str(12000 + os.getpid() % 20000)
        self.url = f"redis://{'10.88.0.254' if in_namespace else '127.0.0.1'}:{self.port}"

    def start(self):
        self.server = subprocess.Popen(
            ["redis-server", "--port", self.port, "--bind", self.bind, "--protected-mode", "no",
             "--save", "", "--appendonly", "no", "--dir", self.folder.path],
            stdout=subprocess.DEVNULL)

    def kill(self):
        if self.server is not None:
            self.server.kill()
            self.server.wait()
        self.server = None


class Host:
    def __init__(self, number, weft_store, folder, in_namespace):
        self.number, self.weft_store, self.folder = number, weft_store, folder
        self.socket = os.path.join(folder.path, f"socket{number}")
        self.launch = [os.path.join(NETNS, "on"), f"h{number + 1}"] if in_namespace else []
        self.store = None
        self.address = f"10.88.0.{number + 1}:7100" if in_namespace else f"unix:{self.socket}.node"

    def start_with(self, *arguments, environment=None):
        self.store = subprocess.Popen(
            [*self.launch, self.weft_store, "--socket", self.socket, "--secret-file",
             self.folder.secret, *arguments],
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "WEFT_PEER_TIMEOUT_MS": "5000", **(environment or {})})
        line = self.store.stdout.readline()
        assert line == f"ready {self.socket}\n", line

    def end(self, number=signal.SIGTERM):
        self.store.send_signal(number)
        self.store.wait(timeout=LIMIT)
        self.store.stdout.close()
        assert self.store.returncode == (0 if number == signal.SIGTERM else -number), self.store
        self.store = None

    def clear(self):
        """At the end of a test, however that went."""
        if self.store is not None:
            self.store.kill()
            self.store.wait()

    def begin(self, *arguments):
        return subprocess.Popen([self.weft_store, "--socket", self.socket, *arguments],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run(self, *arguments, data=None, code=0):
        process = self.begin(*arguments)
        output, errors = process.communicate(data, timeout=2 * LIMIT)
        assert process.returncode == code, (self.number, arguments, process.returncode, errors)
        return output if code == 0 else errors.decode()

    def status(self):
        return json.loads(self.run("status", "--json"))

    def has(self, name):
        return name in [row.split()[0] for row in self.run("ls").decode().splitlines()]


def peer_words(peers):
    return [word for peer in peers for word in ("--peers", peer.address)]
