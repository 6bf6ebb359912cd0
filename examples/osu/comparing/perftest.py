"""perftest's programs beside Weft over an RDMA device: what the device itself can do."""

import os
import re
import shutil

from comparing import libraries, pair, running

PORT = 18515
# A run of one size moves about so much, but so many messages: 20 ms on a device of 100 Gbit/s that
# takes a microsecond for a message, some seconds on one in software.
BYTES = 256 << 20
LEAST, MOST = 100, 10000


class Perftest:
    """One of perftest's programs, measured in turn with the libraries."""

    def __init__(self, name, column, factor, devices):
        self.name = name
        self.column = column  # of the row that it prints
        self.factor = factor  # to compare's unit
        self.devices = devices  # options that name the server's and the client's

    def run(self, hosts, sizes):
        """Values by size."""
        return {size: self._one(hosts, size) for size in sizes}

    def _one(self, hosts, size):
        command = [self.name, "-F", "-p", str(PORT), "-s", str(size), "-n", str(num_messages(size))]
        server, client = (command + device for device in self.devices)
        text = pair.run(hosts, server, client + [pair.address_of(hosts[0] if hosts else None)], PORT)
        return parse_row(text, size)[self.column] * self.factor


def num_messages(size):
    """Of a run."""
    return max(LEAST, min(MOST, BYTES // max(size, 1)))


def parse_row(text, size):
    """The last row of numbers that is about this size."""
    rows = re.findall(r"^ *(%d +\d.*)$" % size, text, re.MULTILINE)
    if not rows:
        raise running.Failed("perftest printed no row for %d bytes:\n%s" % (size, text))
    return [float(word) for word in rows[-1].split()]


# By the program of this folder they are beside, with its value's column; the first is what Weft
# is measured by. Latencies are t_typical, the median; bandwidths are in MiB/s, rates in million/s.
TOOLS = {
    "latency": (("ib_write_lat", 4, 1), ("ib_send_lat", 4, 1)),
    "bw": (("ib_read_bw", 3, (1 << 20) / 1e6),),
    "mbw_mr": (("ib_send_bw", 4, 1e6),),
}

# Default programs, and the ratio to the first of TOOLS that Weft aims at.
AIMS = {"latency": (8, 1.3), "bw": (65536, 0.9), "mbw_mr": (8, None)}


def find(weft, hosts):
    """By program, what is measured beside it; `weft` is the folder of its programs. Raises
    libraries.Missing."""
    devices = [device_options(running.run(
        pair.on_host(host, [os.path.join(weft, "weft-info"), "--fabrics"]), None, 30, "weft-info"),
        os.environ.get("WEFT_DEVICE", "")) for host in (hosts or [None, None])]
    for tools in TOOLS.values():
        for name, *_ in tools:
            if shutil.which(name) is None:
                raise libraries.Missing("%s is not installed (Debian package perftest)" % name)
    return {program: [Perftest(*tool, devices) for tool in tools]
            for program, tools in TOOLS.items()}


def device_options(text, wanted=""):
    """perftest's words for the device that Weft uses, from what weft-info says of those there.
    wanted: WEFT_DEVICE, name or name:port."""
    for line in text.splitlines():
        match = re.search(r"verbs: (\S+):(\d+) ", line)
        if not match or "address" not in line:
            continue
        device, port = match.groups()
        if wanted in (device, device + ":" + port) or (not wanted and "<- chosen" in line):
            gid = re.search(r"\(GID (\d+)", line)
            return ["-d", device, "-i", port] + (["-x", gid[1]] if gid else [])
    raise libraries.Missing("no RDMA device to measure over%s; weft-info says\n%s" %
                            (wanted and " (WEFT_DEVICE=%s)" % wanted, text.rstrip()))
