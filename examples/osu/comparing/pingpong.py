"""libfabric's own measure between two hosts, fi_pingpong, beside the MPI libraries."""

import os
import shutil
import subprocess
import time

PROVIDERS = ("net", "tcp;ofi_rxm")
PORT = 47592
# Of each size; 4 MiB take most of the six seconds that a run lasts.
ITERATIONS = 300
UNITS = {"k": 1 << 10, "m": 1 << 20}


class Pingpong:
    """One of libfabric's providers, measured in turn with the libraries."""

    def __init__(self, provider):
        self.provider = provider
        self.name = "fi_pingpong " + provider.split(";")[-1]

    def run(self, hosts):
        """One-way times in us by size: all that fi_pingpong has, none if it fails."""
        command = ["fi_pingpong", "-p", self.provider, "-e", "rdm", "-S", "all",
                   "-I", str(ITERATIONS)]
        server = subprocess.Popen(on_host(hosts[0], command), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            limit = time.monotonic() + 5
            while time.monotonic() < limit:
                listening = subprocess.run(on_host(hosts[0], ["ss", "-ltnH"]),
                                           capture_output=True, text=True, timeout=5,
                                           check=False).stdout
                if ":%d " % PORT in listening:
                    break
                time.sleep(0.02)
            client = subprocess.run(on_host(hosts[1], command + [address_of(hosts[0])]),
                                    capture_output=True, text=True, timeout=60, check=False)
            return dict(parse_rows(client.stdout)) if client.returncode == 0 else {}
        except subprocess.TimeoutExpired:
            return {}
        finally:
            server.kill()
            server.wait()


def parse_rows(text):
    """Bytes and us of each row: bytes, count, =count, total, time, MB/s, us per transfer, ..."""
    for line in text.splitlines():
        words = line.split()
        if len(words) < 7 or not words[0][0].isdigit():
            continue
        unit = UNITS.get(words[0][-1], 1)
        yield int(float(words[0].rstrip("km")) * unit), float(words[6])


def on_host(host, command):
    launch = os.environ.get("WEFT_LAUNCH", "ssh -oBatchMode=yes {host}")
    return [word.replace("{host}", host) for word in launch.split()] + command


def address_of(host):
    """The first address of the host that others can reach."""
    text = subprocess.run(on_host(host, ["hostname", "-I"]), capture_output=True, text=True,
                          timeout=10, check=False).stdout.split()
    return text[0] if text else host


def find():
    """What is measured beside the libraries between hosts."""
    if shutil.which("fi_pingpong") is None:
        print("left out: fi_pingpong, not installed (Debian package libfabric-bin)", flush=True)
        return []
    return [Pingpong(provider) for provider in PROVIDERS]
