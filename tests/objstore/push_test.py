#!/usr/bin/env python3
"""Objects that weft-store pushes to many hosts at once, and what is left when one of them, the
pusher or the command is killed meanwhile: push_test.py WEFT_STORE [--netns] [--rounds N] [--seed N]
[--library FOLDER CLIENT]. With --netns (root) each store is a host of its own, in a network
namespace, with a link of 100 Mbit/s where tc can make one. --library: the Python client, too."""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source's folder stays as it is
import store_hosts  # noqa: E402
from store_hosts import LIMIT, contents, eventually, meet  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("weft_store")
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--netns", action="store_true")
parser.add_argument("--library", nargs=2)
options = parser.parse_args()
HOSTS = 5
if options.netns:
    store_hosts.run_in_namespaces(HOSTS)

SIZE = 20_000_000
folder = store_hosts.Folder("weft-store-push-")


def limit_links():
    """False: objects go as fast as they can."""
    if shutil.which("tc") is None:
        return False
    for i in range(1, HOSTS + 1):
        on_host = [os.path.join(store_hosts.NETNS, "on"), f"h{i}"]
        for where, device in (on_host, "eth0"), ([], f"v{i}"):
            command = [*where, "tc", "qdisc", "replace", "dev", device, "root", "tbf",
                       "rate", "100mbit", "burst", "256kb", "latency", "50ms"]
            if subprocess.run(command, capture_output=True).returncode != 0:
                return False
    return True


is_limited = options.netns and limit_links()


class Host(store_hosts.Host):
    def __init__(self, number):
        super().__init__(number, options.weft_store, folder, options.netns)

    def start(self, peers=(), memory="96MiB", listens=True):
        self.start_with("--memory", memory, *(["--listen", self.address] if listens else []),
                        *store_hosts.peer_words(peers))

    def push(self, name, hosts):
        """What the command prints for each host, and its errors."""
        process = self.begin("push", name, "--to", ",".join(host.address for host in hosts),
                             "--timeout", str(LIMIT))
        return finish_push(process)

    def used(self):
        return self.status()["memory"]["used_bytes"]


def finish_push(process):
    output, errors = process.communicate(timeout=2 * LIMIT)
    results = dict(row.split(" ", 1) for row in output.decode().splitlines())
    assert (process.returncode == 0) == all(word in ("has it", "had it") for word in results.values()), (
        results, errors)
    return results, errors.decode()


def check_whole_or_nothing(hosts, name, before, gets=True):
    """Each of them has all of the object, or none of it and the memory back."""
    for host in hosts:
        eventually(lambda: host.has(name) or host.used() == before[host],
                   f"host {host.number} keeps what is left of {name}")
        if gets and host.has(name):
            assert host.run("get", name) == contents(name, SIZE), (host.number, name)


def begin_death(pusher, others, name, chance):
    """A push that has begun at all of them."""
    before = {host: host.used() for host in others}
    pusher.run("put", name, "-", data=contents(name, SIZE))
    process = pusher.begin("push", name, "--to", ",".join(host.address for host in others),
                           "--timeout", str(LIMIT))
    eventually(lambda: all(host.used() > before[host] for host in others), "the push does not begin")
    time.sleep(chance.random() * (0.3 if is_limited else 0.01))  # any moment will do
    return process, before


def check_receiver_dies(hosts, chance, number):
    pusher, *others = chance.sample(hosts, len(hosts))
    victim, *left = others
    name = f"receiver-{number}"
    process, before = begin_death(pusher, others, name, chance)
    victim.end(signal.SIGKILL)
    results, errors = finish_push(process)
    assert set(results) == {host.address for host in others}, results
    if results[victim.address] != "has it":
        assert results[victim.address] == "peer lost" and victim.address in errors, (results, errors)
    check_whole_or_nothing(left, name, before)
    for host in left:
        assert (results[host.address] == "has it") == host.has(name), (results, host.number)
    # The others have it by a second push at once; then, when it is back, the victim, too.
    results, _ = pusher.push(name, left)
    assert set(results.values()) <= {"has it", "had it"}, results
    victim.start([host for host in hosts if host is not victim])
    meet(hosts)
    results, _ = pusher.push(name, others)
    assert results == {**{host.address: "had it" for host in left}, victim.address: "has it"}, results
    for host in others:
        assert host.run("get", name) == contents(name, SIZE)
    return "died in it" if "peer lost" in errors or "was lost" in errors else "came late"


def check_receiver_sleeps(hosts, chance, number):
    """One does not answer any more, as if its host were gone, and comes back."""
    pusher, *others = chance.sample(hosts, len(hosts))
    victim, *left = others
    name = f"sleeper-{number}"
    process, before = begin_death(pusher, others, name, chance)
    victim.store.send_signal(signal.SIGSTOP)
    results, errors = finish_push(process)
    victim.store.send_signal(signal.SIGCONT)
    assert set(results) == {host.address for host in others}, results
    check_whole_or_nothing(others, name, before)
    for host in left:
        assert (results[host.address] == "has it") == host.has(name), (results, host.number)
    meet(hosts)
    results, errors = pusher.push(name, others)
    assert set(results.values()) <= {"has it", "had it"}, (results, errors)


def check_pusher_sleeps(hosts, chance, number):
    """Receivers don't wait for one that does not answer any more, as if its host were gone."""
    pusher, *others = chance.sample(hosts, len(hosts))
    name = f"asleep-{number}"
    process, before = begin_death(pusher, others, name, chance)
    pusher.store.send_signal(signal.SIGSTOP)
    try:
        check_whole_or_nothing(others, name, before, gets=False)
    finally:
        pusher.store.send_signal(signal.SIGCONT)
    process.communicate(timeout=2 * LIMIT)
    meet(hosts)
    results, errors = pusher.push(name, others)
    assert set(results.values()) <= {"has it", "had it"}, (results, errors)


def check_pusher_dies(hosts, chance, number, kills_command):
    pusher, *others = chance.sample(hosts, len(hosts))
    name = f"pusher-{number}"
    process, before = begin_death(pusher, others, name, chance)
    if kills_command:
        process.kill()
    else:
        pusher.end(signal.SIGKILL)
    output, errors = process.communicate(timeout=2 * LIMIT)
    if not kills_command:
        assert process.returncode == 0 or "ended" in errors.decode(), errors
    check_whole_or_nothing(others, name, before)
    if not kills_command:
        pusher.start([host for host in hosts if host is not pusher])
        meet(hosts)


def free(hosts):
    for host in hosts:
        for row in host.run("ls").decode().splitlines():
            host.run("delete", row.split()[0])
    for host in hosts:
        eventually(lambda: not host.run("ls"), f"host {host.number} keeps what was deleted")


def check_python(hosts):
    folder_of_library, client = options.library
    code = f"""
import sys
sys.path.insert(0, {client!r})
from weft import store as w
store = w.ObjectStore({hosts[0].socket!r})
store.put("python", bytes(range(256)) * 1000)
hosts = {[host.address for host in hosts[1:]]!r}
assert store.push("python", hosts[:1]) == {{hosts[0]: "has it"}}
results = store.push("python")
assert sorted(results.values()) == ["had it"] + ["has it"] * (len(hosts) - 1) or len(results) == 1, results
try:
    store.push("python", ["nobody"] + hosts)
    raise SystemExit("pushed to nobody")
except w.Error as error:
    assert error.code == "not found" and "nobody" in str(error), error
    assert error.hosts == {{"nobody": "not found", **{{host: "had it" for host in hosts}}}}, error.hosts
store.close()
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": folder_of_library}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT, env=environment)


def main():
    chance = random.Random(options.seed)
    hosts = [Host(i) for i in range(HOSTS)]
    try:
        hosts[0].start()
        for host in hosts[1:-1]:
            host.start(hosts[:1])
        hosts[-1].start(hosts[:1], memory="8MiB")
        meet(hosts)
        for size in (0, 5000, 3_000_000):
            hosts[1].run("put", f"all-{size}", "-", data=contents("all", size))
            output = hosts[1].run("push", f"all-{size}", "--to", "all").decode()
            assert len(output.splitlines()) == HOSTS - 1 and output.count(" has it\n") == HOSTS - 1
            for host in hosts:
                assert host.has(f"all-{size}")
                assert host.run("get", f"all-{size}") == contents("all", size)
        if options.netns:
            # Hosts have names there.
            assert {line.split()[0] for line in output.splitlines()} == {"h1", "h3", "h4", "h5"}, output
            assert hosts[1].run("push", "all-5000", "--to", "h4,h1") == b"h4 had it\nh1 had it\n"
        # One has it, one has too little memory.
        hosts[0].run("put", "large", "-", data=contents("large", SIZE))
        hosts[2].run("get", "large", "--timeout", str(LIMIT))
        results, errors = hosts[0].push("large", hosts[1:])
        assert [results[host.address] for host in hosts[1:]] == \
            ["has it", "had it", "has it", "out of memory"], results
        assert "on 3 of the 4 other hosts" in errors and hosts[4].address in errors, errors
        assert not hosts[4].has("large")
        for host in hosts[:4]:
            assert host.run("get", "large") == contents("large", SIZE)
        hosts[4].end()
        hosts[4].start(hosts[:1])
        meet(hosts)
        free(hosts)
        for number in range(options.rounds):
            print(number, check_receiver_dies(hosts, chance, number), file=sys.stderr)
            check_receiver_sleeps(hosts, chance, number)
            if options.netns:  # within a host one that sleeps is waited for
                check_pusher_sleeps(hosts, chance, number)
            check_pusher_dies(hosts, chance, 2 * number, False)
            check_pusher_dies(hosts, chance, 2 * number + 1, True)
            free(hosts)
        if options.library:
            check_python(hosts)
        # One that nobody can connect to.
        hosts[4].end()
        hosts[4].start(hosts[:1], listens=False)
        eventually(lambda: len(hosts[0].status()["peers"]) == HOSTS - 1, "it does not connect")
        hosts[0].run("put", "last", "-", data=contents("last", 1000))
        error = hosts[0].run("push", "last", "--to", "all", code=1)
        assert "--listen" in error and "on 3 of the 4" in error, error
        print(f"links of 100 Mbit/s: {is_limited}", file=sys.stderr)
        for host in hosts:
            host.end()
    finally:
        for host in hosts:
            host.clear()
    folder.end()
    print("as expected")


main()
