"""Two processes of a tool that is no MPI program: one waits for a connection, the other asks."""

import os
import socket
import subprocess
import time

from comparing import running


def run(hosts, server, client, port, limit_s=60):
    """What the client prints. The server is on the first of two hosts, both are on this one if there
    are none. Raises running.Failed; the server is ended."""
    there = hosts[0] if hosts else None
    process = subprocess.Popen(on_host(there, server), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 10
        while not _listens(there, port):
            if process.poll() is not None or time.monotonic() > limit:
                raise running.Failed("%s does not wait for a connection at port %d%s" %
                                     (server[0], port, " on " + there if there else ""))
            time.sleep(0.02)
        return running.run(on_host(hosts[1] if hosts else None, client), None, limit_s,
                           client[0])
    finally:
        process.kill()
        process.wait()


def _listens(host, port):
    """By the kernel's tables: a probing connection would be taken for the client's, and `ss` is not
    on every machine. The port is in hexadecimal, state 0A is LISTEN."""
    table = _output(on_host(host, ["cat", "/proc/net/tcp"]))
    if os.path.exists("/proc/net/tcp6"):
        table += _output(on_host(host, ["cat", "/proc/net/tcp6"]))
    rows = [line.split() for line in table.splitlines()]
    return any(words[1].endswith(":%04X" % port) and words[3] == "0A" for words in rows)


def _output(command):
    return running.run(command, None, 10, " ".join(command))


def on_host(host, command):
    """The command that runs this one on a host, by WEFT_LAUNCH unless it is this one, as is None."""
    if host is None or host.split(".")[0] == socket.gethostname().split(".")[0]:
        return command
    launch = os.environ.get("WEFT_LAUNCH", "ssh -oBatchMode=yes {host}")
    return [word.replace("{host}", host) for word in launch.split()] + command


def address_of(host):
    """The first address of the host that others can reach; None: this one."""
    if host is None:
        return "127.0.0.1"
    words = _output(on_host(host, ["hostname", "-I"])).split()
    return words[0] if words else host


def address_towards(host):
    """The local address of the route to a host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing
        probe.connect((address_of(host), 9))
        return probe.getsockname()[0]
