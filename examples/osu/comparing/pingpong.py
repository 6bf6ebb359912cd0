"""libfabric's own measure between two hosts, fi_pingpong, beside the MPI libraries."""

import shutil

from comparing import pair

PROVIDERS = ("net", "tcp;ofi_rxm")
PORT = 47592
BYTES = 1 << 30  # a run of one size moves about so much, but
LEAST, MOST = 200, 10000  # so many messages there and back: 0.1 s and more
UNITS = {"k": 1 << 10, "m": 1 << 20}


class Pingpong:
    """One of libfabric's providers, measured in turn with the libraries."""

    def __init__(self, provider):
        self.provider = provider
        self.name = "fi_pingpong " + provider.split(";")[-1]

    def run(self, hosts, sizes):
        """One-way times in us by size."""
        values = {}
        for size in sizes:
            number = max(LEAST, min(MOST, BYTES // max(size, 1)))
            command = ["fi_pingpong", "-p", self.provider, "-e", "rdm", "-S", str(size), "-I",
                       str(number)]
            values.update(parse_rows(pair.run(
                hosts, command, command + [pair.address_of(hosts[0])], PORT)))
        return values


def parse_rows(text):
    """Bytes and us of each row: bytes, count, =count, total, time, MB/s, us per transfer, ..."""
    for line in text.splitlines():
        words = line.split()
        if len(words) < 7 or not words[0][0].isdigit():
            continue
        unit = UNITS.get(words[0][-1], 1)
        yield int(float(words[0].rstrip("km")) * unit), float(words[6])


def find():
    """What is measured beside the libraries between hosts."""
    if shutil.which("fi_pingpong") is None:
        print("left out: fi_pingpong, not installed (Debian package libfabric-bin)", flush=True)
        return []
    return [Pingpong(provider) for provider in PROVIDERS]
