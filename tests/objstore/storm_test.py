#!/usr/bin/env python3
"""Clients on three stores that do whatever comes to their minds, while clients and stores are killed
at random: storm_test.py WEFT_STORE STORM_CLIENT [--seconds S] [--clients N] [--stores N] [--seed N].
Each object's contents are checked at every get. At the end nothing may be left of those who died.
More options, e.g. --directory or --protocol, go to the stores."""
import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("weft_store")
parser.add_argument("storm_client")
parser.add_argument("--seconds", type=float, default=6)
parser.add_argument("--clients", type=int, default=8)
parser.add_argument("--stores", type=int, default=3)
parser.add_argument("--seed", type=int, default=None)
options, more = parser.parse_known_args()
seed = options.seed if options.seed is not None else random.randrange(1 << 32)
chance = random.Random(seed)
LIMIT = 60
folder = tempfile.mkdtemp(prefix="weft-store-storm-")
secret = os.path.join(folder, "secret")
with open(secret, "w") as file:
    file.write("of the storm\n")
# A killed store is another host's silence.
environment = {**os.environ, "WEFT_PEER_TIMEOUT_MS": "3000"}
shm_before = set(os.listdir("/dev/shm"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Store:
    def __init__(self, number):
        self.number = number
        self.path = os.path.join(folder, f"socket{number}")
        self.address = f"127.0.0.1:{free_port()}"
        self.process = None

    def start(self, stores):
        known = [word for store in stores if store is not self for word in ("--peers", store.address)]
        # Small, so that objects are evicted and room is waited for.
        self.process = subprocess.Popen(
            [options.weft_store, "--socket", self.path, "--memory", "48MiB", "--listen",
             self.address, "--secret-file", secret, "--lease-ms", "2000", *known, *more],
            stdout=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        assert line == f"ready {self.path}\n", (self.number, line)

    def kill(self):
        assert self.process.poll() is None, f"store {self.number} ended by itself: {self.process.returncode}"
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        assert self.process.poll() is None, f"store {self.number} ended by itself: {self.process.returncode}"
        self.process.terminate()
        self.process.wait(timeout=LIMIT)
        self.process.stdout.close()
        assert self.process.returncode == 0, (self.number, self.process.returncode)
        assert not os.path.exists(self.path)

    def run(self, *arguments):
        return subprocess.run([options.weft_store, "--socket", self.path, *arguments], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=LIMIT).stdout

    def status(self):
        return json.loads(self.run("status", "--json"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Client:
    def __init__(self, number, stores):
        self.number, self.stores, self.lives = number, stores, 0
        self.start()

    def start(self):
        self.lives += 1
        self.process = subprocess.Popen(
            [options.storm_client, self.stores[self.number % len(self.stores)].path,
             str(seed + 1000 * self.number + self.lives)], stdout=subprocess.PIPE, text=True)

    def check(self):
        assert self.process.poll() is None, f"client {self.number} ended: {self.process.returncode}"

    def kill(self):
        self.check()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        self.check()
        self.process.terminate()
        output, _ = self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == 0, (self.number, self.process.returncode)
        return output


def eventually(check, what):
    deadline = time.monotonic() + LIMIT
    while not check():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


def main():
    stores = [Store(i) for i in range(options.stores)]
    clients = []
    try:
        for store in stores:
            store.start(stores)
        clients = [Client(i, stores) for i in range(options.clients)]
        killed = {"clients": 0, "stores": 0}
        deadline = time.monotonic() + options.seconds
        while time.monotonic() < deadline:
            time.sleep(chance.random() * 0.3)  # any moment will do
            for client in clients:
                client.check()
            if chance.random() < 0.75:
                victim = chance.choice(clients)
                victim.kill()
                victim.start()
                killed["clients"] += 1
            else:
                victim = chance.choice(stores)
                victim.kill()
                time.sleep(chance.random() * 0.1)
                victim.start(stores)
                killed["stores"] += 1
        for store in stores:  # they find each other again
            eventually(lambda: len(store.status()["peers"]) == len(stores) - 1,
                       lambda: f"store {store.number} is alone: {store.status()}")
        reports = [client.end() for client in clients]
        clients = []
        # Nothing is held by or for anybody: what is deleted goes, and all memory is free.
        for store in stores:
            eventually(lambda: len(store.status()["clients"]) == 1,
                       lambda: f"store {store.number} keeps clients: {store.status()}")
        def is_empty(store):
            for row in store.run("ls").splitlines():
                # Another host's deletion may come first.
                subprocess.run([options.weft_store, "--socket", store.path, "delete", row.split()[0]],
                               stderr=subprocess.DEVNULL, timeout=LIMIT)
            status = store.status()
            return status["objects"] == 0 and status["memory"]["used_bytes"] == 0 and \
                status["delete_deferred"] == 0 and status["waiting_for_objects"] == 0
        for store in stores:
            eventually(lambda: is_empty(store), lambda: f"store {store.number} keeps: {store.status()}")
        for store in stores:
            before = store.descriptors()
            for _ in range(20):
                store.run("status", "--json")
            eventually(lambda: store.descriptors() <= before,
                       lambda: f"store {store.number} keeps descriptors: {before}, {store.descriptors()}")
        print(f"{killed['clients']} clients and {killed['stores']} stores killed; seed {seed}",
              file=sys.stderr)
        for line in reports:
            print(line, end="", file=sys.stderr)
        for store in stores:
            store.end()
    except BaseException:
        print(f"storm: seed {seed}", file=sys.stderr)
        raise
    finally:
        for one in (*clients, *stores):
            if one.process is not None and one.process.poll() is None:
                one.process.kill()
                one.process.wait()
    left = [name for name in os.listdir(folder) if name != "secret"]
    assert not left, left
    left = [name for name in set(os.listdir("/dev/shm")) - shm_before if "weft" in name]
    mine = {str(store.process.pid) for store in stores}
    assert not [name for name in left if any(pid in name for pid in mine)], left
    shutil.rmtree(folder)
    print("as expected")


main()
