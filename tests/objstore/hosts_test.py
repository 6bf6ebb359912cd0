#!/usr/bin/env python3
"""Stores of several hosts as they are used: weft-store processes that fetch from each other, are
ended, killed and started again: hosts_test.py WEFT_STORE [--hosts N] [--fabric NAME] [--rounds N]
[--seed N]. With --netns each is a host of its own, in a network namespace (root); with --redis a
redis-server knows who has what, and who the hosts are; with --guarded the stores verify what comes,
register single objects, and spill; --protocol socket needs --netns."""
import argparse
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True  # the source's folder stays as it is
import store_hosts  # noqa: E402
from store_hosts import LIMIT, contents, eventually, meet  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("weft_store")
parser.add_argument("--hosts", type=int, default=3)
parser.add_argument("--fabric", default="")
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--netns", action="store_true")
parser.add_argument("--redis", action="store_true")
parser.add_argument("--guarded", action="store_true",
                    help="stores verify, register single objects and spill")
parser.add_argument("--protocol", default="node")
options = parser.parse_args()
if options.netns:
    store_hosts.run_in_namespaces(options.hosts)

folder = store_hosts.Folder("weft-store-hosts-")


redis = store_hosts.Redis(folder, options.netns) if options.redis else None


class Host(store_hosts.Host):
    def __init__(self, number):
        super().__init__(number, options.weft_store, folder, options.netns)

    def start(self, peers=(), memory="64MiB", more=()):
        self.start_with(
            "--memory", memory, "--listen", self.address, "--protocol", options.protocol,
            *(["--directory", redis.url] if options.redis else store_hosts.peer_words(peers)),
            *(["--verify", "--register", "object", "--spill", folder.path]
              if options.guarded else []),
            *more, environment={"WEFT_FABRIC": options.fabric} if options.fabric else {})

    def kill(self):
        self.end(signal.SIGKILL)

    def put(self, name, size):
        self.run("put", name, "-", data=contents(name, size))

    def get(self, name, size):
        assert self.run("get", name, "--timeout", str(LIMIT)) == contents(name, size), name


def check_exchange(hosts, prefix):
    """Each host's objects reach each other one, put before or after they are asked for."""
    sizes = (0, 1000, 200_000, 5_000_000)
    for i, host in enumerate(hosts):
        for size in sizes:
            host.put(f"{prefix}-{i}-{size}", size)
    for host in hosts:
        for i in range(len(hosts)):
            for size in sizes:
                host.get(f"{prefix}-{i}-{size}", size)
    for i, host in enumerate(hosts):
        name = f"{prefix}-late-{i}"
        waiting = [other.begin("get", name, "--timeout", str(LIMIT)) for other in hosts]
        host.put(name, 300_000)
        for process in waiting:
            output, errors = process.communicate(timeout=2 * LIMIT)
            assert output == contents(name, 300_000), errors
    name = f"{prefix}-wait"
    process = hosts[0].begin("wait", name, "none", "--least", "1", "--fetch", "--timeout",
                             str(LIMIT))
    hosts[-1].put(name, 10)
    assert process.communicate(timeout=2 * LIMIT)[0].decode() == f"{name}\n"


def check_copies(hosts):
    """What has copies outlives the host that it was put on."""
    for size in (1000, 300_000):
        name = f"copied-{size}"
        hosts[1].run("put", name, "-", "--copies", str(len(hosts)), data=contents(name, size))
        for host in hosts:
            assert host.has(name), (host.number, name)
    error = hosts[1].run("put", "lonely", "-", "--copies", str(len(hosts) + 1), data=b"x", code=1)
    assert f"on {len(hosts)} of the {len(hosts) + 1} hosts" in error, error
    ranged = hosts[0].run("get", "copied-300000", "--offset", "299990")
    assert ranged == contents("copied-300000", 300_000)[-10:]
    hosts[2].put("only", 500_000)
    assert hosts[0].run("get", "only", "--offset", "1000", "--length", "100000", "--timeout",
                        str(LIMIT)) == contents("only", 500_000)[1000:101_000]
    assert not hosts[0].has("only")


def check_delete(hosts):
    hosts[0].put("gone", 100_000)
    for host in hosts:
        host.get("gone", 100_000)
    hosts[-1].run("delete", "gone")
    for host in hosts:
        eventually(lambda: not host.has("gone"), f"host {host.number} keeps what was deleted")
    assert "in time" in hosts[0].run("get", "gone", "--timeout", "0.2", code=1)


def check_deaths(hosts, chance):
    """A holder or an asker is killed at any moment of a transfer."""
    size = 24_000_000
    for number in range(options.rounds):
        victim, asker, other = chance.sample(hosts, 3)
        kills_asker = number % 2 == 1
        if kills_asker:
            victim, asker = asker, victim
        name = f"death-{number}"
        holder = other if kills_asker else victim
        holder.put(name, size)
        if not kills_asker:
            other.get(name, size)
        process = (victim if kills_asker else asker).begin("get", name, "--timeout", str(LIMIT))
        time.sleep(chance.random() * 0.08)  # any moment will do
        victim.kill()
        output, errors = process.communicate(timeout=2 * LIMIT)
        if kills_asker:
            assert process.returncode != 0 or output == contents(name, size), errors
        else:
            assert output == contents(name, size), (len(output), errors)
        # The others go on at once; it comes back with nothing.
        asker.put(f"alive-{number}", 100_000)
        other.get(f"alive-{number}", 100_000)
        victim.start([host for host in hosts if host is not victim])
        meet(hosts)
        victim.get(name, size)
        victim.get(f"alive-{number}", 100_000)
        for host in hosts:
            host.run("delete", name)
            eventually(lambda: not host.has(name), "a deleted object stays")
    # Memory kept for clients that died is free.
    for host in hosts:
        eventually(lambda: host.status()["delete_deferred"] == 0,
                   f"host {host.number} keeps memory for the dead")


def check_redis_dies(hosts):
    """It dies, comes back with nothing, and receives again what there is."""
    hosts[0].put("before", 100_000)
    redis.kill()
    assert "in time" in hosts[1].run("get", "before", "--timeout", "0.3", code=1)
    hosts[0].put("meanwhile", 100_000)
    assert hosts[0].run("get", "meanwhile", "--timeout", "1") == contents("meanwhile", 100_000)
    waiting = hosts[1].begin("get", "meanwhile", "--timeout", str(LIMIT))
    redis.start()
    assert waiting.communicate(timeout=2 * LIMIT)[0] == contents("meanwhile", 100_000)
    hosts[-1].get("before", 100_000)


def main():
    chance = random.Random(options.seed)
    hosts = [Host(i) for i in range(options.hosts)]
    if options.redis:
        redis.start()
    try:
        for i, host in enumerate(hosts):
            host.start(hosts[:1] if i > 0 else ())
        meet(hosts)
        began = time.monotonic()
        check_exchange(hosts, "a")
        check_delete(hosts)
        check_copies(hosts)
        # One is ended and started again; then the one that reported all others.
        for i in (len(hosts) - 1, 0):
            hosts[i].end()
            hosts[i].start([host for host in hosts if host is not hosts[i]])
            meet(hosts)
            check_exchange(hosts, f"b{i}")
        check_deaths(hosts, chance)
        if options.redis:
            check_redis_dies(hosts)
        fabrics = {peer["fabric"] for host in hosts for peer in host.status()["peers"]}
        print(f"over {', '.join(sorted(fabrics))} in {time.monotonic() - began:.1f} s",
              file=sys.stderr)
        for host in hosts:
            host.end()
            assert not os.path.exists(host.socket)
    finally:
        for host in hosts:
            host.clear()
        if redis is not None:
            redis.kill()
    folder.end()
    print("as expected")


main()
