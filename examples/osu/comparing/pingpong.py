"""libfabric's own measure between two hosts, fi_pingpong, beside the MPI libraries."""

import os
import shutil
import subprocess
import time

PROVIDERS = ("net", "tcp;ofi_rxm")
SIZES = (8, 128, 1024, 8192, 32768, 131072, 524288, 1 << 20, 4 << 20)
PORT = 47592


def on_host(host, command):
    launch = os.environ.get("WEFT_LAUNCH", "ssh -oBatchMode=yes {host}")
    return [word.replace("{host}", host) for word in launch.split()] + command


def once(hosts, address, provider, size):
    """One-way time in us and the bandwidth in MB/s, or None if it failed."""
    command = ["fi_pingpong", "-p", provider, "-e", "rdm", "-S", str(size), "-I",
               "3000" if size <= 65536 else "200"]
    server = subprocess.Popen(on_host(hosts[0], command), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 5
        while time.monotonic() < limit:
            listening = subprocess.run(on_host(hosts[0], ["ss", "-ltnH"]), capture_output=True,
                                       text=True, timeout=5, check=False).stdout
            if ":%d " % PORT in listening:
                break
        client = subprocess.run(on_host(hosts[1], command + [address]), capture_output=True,
                                text=True, timeout=10, check=False)
        # bytes, count, =count, total, time, MB/s, us per transfer, transfers per us
        row = client.stdout.strip().split("\n")[-1].split()
        return (float(row[6]), float(row[5])) if client.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return None
    finally:
        server.kill()
        server.wait()


def address_of(host):
    """The first address of the host that others can reach."""
    text = subprocess.run(on_host(host, ["hostname", "-I"]), capture_output=True, text=True,
                          timeout=10, check=False).stdout.split()
    return text[0] if text else host


def table(hosts, rounds):
    """Latency and bandwidth by size and provider, the best of the rounds; or why there is none."""
    if shutil.which("fi_pingpong") is None:
        return "fi_pingpong: left out, not installed (Debian package libfabric-bin)"
    address = address_of(hosts[0])
    samples = {}
    for _ in range(rounds):
        for size in SIZES:
            for provider in PROVIDERS:
                result = once(hosts, address, provider, size)
                if result is not None:
                    samples.setdefault((size, provider), []).append(result)
    lines = ["fi_pingpong, one way in us and MB/s, best of %d rounds" % rounds,
             "%10s" % "bytes" + "".join("%24s" % provider for provider in PROVIDERS)]
    for size in SIZES:
        line = "%10d" % size
        for provider in PROVIDERS:
            found = samples.get((size, provider))
            line += ("%12.2f%12.1f" % (min(found)[0], max(rate for _, rate in found)) if found
                     else "%24s" % "failed")
        lines.append(line)
    return "\n".join(lines)
