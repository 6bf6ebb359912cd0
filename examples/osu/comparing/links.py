"""Hosts of several processes, and what collectives move over the links between them."""

import re

from comparing import tables

# From this size on headers, and the barrier of the iteration, do not count.
FROM = 64 << 10
GOAL = 1.1


def parse_hosts(text):
    """{host: processes}, in order, of "HOST,HOST:N,..."; raises ValueError."""
    hosts = {}
    for item in text.split(",") if text else []:
        match = re.fullmatch(r"([^:]+)(?::([1-9]\d*))?", item)
        if not match or match.group(1) in hosts:
            raise ValueError("hosts are HOST or HOST:N, each once, not '%s'" % item)
        hosts[match.group(1)] = int(match.group(2) or 1)
    return hosts


def least_bytes(collective, size, counts):
    """What the busiest direction of a host's link carries at least, with `counts` processes on the
    hosts, the root on the first. Sizes are those of coll.c. A host that takes part in a reduction
    sends or receives as much as if it reduced its own processes' data at once."""
    others = sum(counts) - min(counts)
    number = len(counts)
    return {
        "barrier": 0,
        "bcast": size,
        "reduce": size,
        # Each host sends its part of what others reduce, and gets the rest of the result.
        "allreduce": 2 * size * (number - 1) / number,
        "reduce_scatter": size * (number - 1) / number,
        "gather": size * (sum(counts) - counts[0]),
        "scatter": size * (sum(counts) - counts[0]),
        "allgather": size * others,
        "alltoall": size * max(count * (sum(counts) - count) for count in counts),
    }[collective]


def table(moved, program, num_processes, names, hosts):
    """Bytes on the busiest link by what is least, and whether Weft keeps to the goal."""
    if program.name == "barrier":
        return "barrier moves no data over the links"
    counts = list(hosts.values())
    lines = ["%s, bytes of the busiest link by the least that is possible" % program.name,
             "%10s%14s" % ("size", "least") + "".join("%14s" % name for name in names)]
    most = 0
    for size in moved.sizes(program, num_processes):
        least = least_bytes(program.name, size, counts)
        line = "%10s%14d" % (tables.size_text(size), least)
        for name in names:
            value = moved.value(program, num_processes, size, name)
            line += "%14s" % ("-" if value is None else "%.3f" % (value / least))
            if value is not None and name == "weft" and size >= FROM:
                most = max(most, value / least)
        lines.append(line)
    if most:
        lines.append("  most %.3f from %s on; goal: <= %g %s" %
                     (most, tables.size_text(FROM), GOAL, "met" if most <= GOAL else "missed"))
    return "\n".join(lines)
