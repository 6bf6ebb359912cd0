#!/usr/bin/env python3
"""Two hosts that lose each other, as the way between them is gone for a while, though both keep the
third one, which has reported them to each other and does not do so again: parted_test.py WEFT_STORE
[--redis] [--any] [--rounds N] [--seed N]. Needs root: each host is a network namespace. With --any
they listen at any address."""
import argparse
import random
import subprocess
import sys

sys.dont_write_bytecode = True  # the source's folder stays as it is
import store_hosts  # noqa: E402
from store_hosts import LIMIT, contents, eventually, meet  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("weft_store")
parser.add_argument("--redis", action="store_true")
parser.add_argument("--any", action="store_true")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
HOSTS, SIZE = 3, 1 << 20
store_hosts.run_in_namespaces(HOSTS)

folder = store_hosts.Folder("weft-store-parted-")
redis = store_hosts.Redis(folder, True) if options.redis else None


class Host(store_hosts.Host):
    def start(self, peers):
        known = ["--directory", redis.url] if redis else store_hosts.peer_words(peers)
        listen = "0.0.0.0:7100" if options.any else self.address
        self.start_with("--memory", "64MiB", "--listen", listen, *known)

    def put(self, name):
        self.run("put", name, "-", data=contents(name, SIZE))

    def begin_get(self, name, seconds):
        return self.begin("get", name, "--timeout", str(seconds))

    def num_peers(self):
        return len(self.status()["peers"])


def finish_get(process, name):
    output, errors = process.communicate(timeout=2 * LIMIT)
    assert output == contents(name, SIZE), (name, len(output), errors)


def route(one, other, what):
    for host, peer in ((one, other), (other, one)):
        subprocess.run([*host.launch, "ip", "route", what, "blackhole",
                        f"{peer.address.split(':')[0]}/32"], check=True)


def check_parted(hosts, number, chance):
    # The first time two that know each other from the third one alone.
    one, other = chance.sample(hosts[1:] if number == 0 else hosts, 2)
    # The host that asks notices; the other one may not, or both ask.
    askers = [(one, other)] if number % 2 == 0 else [(one, other), (other, one)]
    for host in one, other:
        host.put(f"parted-{number}-{host.number}")
    route(one, other, "add")
    waiting = [(asker.begin_get(name, 2 * LIMIT), name)
               for asker, holder in askers for name in [f"parted-{number}-{holder.number}"]]
    for asker, _ in askers:
        eventually(lambda: asker.num_peers() < HOSTS - 1, "nothing is lost")
    route(one, other, "del")
    for process, name in waiting:
        finish_get(process, name)
    meet(hosts)
    for host in hosts:
        host.put(f"after-{number}-{host.number}")
        host.put(f"pushed-{number}-{host.number}")
    for host in hosts:
        for holder in hosts:
            name = f"after-{number}-{holder.number}"
            finish_get(host.begin_get(name, LIMIT), name)
    # One end of the connection that groups had may have noticed nothing.
    for host in hosts:
        name = f"pushed-{number}-{host.number}"
        output = host.run("push", name, "--to", "all", "--timeout", str(LIMIT))
        assert len(output.splitlines()) == HOSTS - 1, output
        assert all(other.has(name) for other in hosts), (name, output)


def main():
    chance = random.Random(options.seed)
    hosts = [Host(i, options.weft_store, folder, True) for i in range(HOSTS)]
    if redis:
        redis.start()
    try:
        for i, host in enumerate(hosts):
            host.start(hosts[:1] if i > 0 else ())
        meet(hosts)
        for number in range(options.rounds):
            check_parted(hosts, number, chance)
        for host in hosts:
            host.end()
    finally:
        for host in hosts:
            host.clear()
        if redis:
            redis.kill()
    folder.end()
    print("as expected")


main()
