#!/usr/bin/env python3
"""weft-copy to hosts whose disk is full, or that can't write: each fails alone, by name, and the
others have everything. In a mount namespace (tests/netns/run gives one).

copy_disks_test.py WEFT_COPY"""
import os
import subprocess
import sys
import tempfile

COPY = os.path.abspath(sys.argv[1])
ENVIRONMENT = dict(os.environ, WEFT_LAUNCH="env COPY_TEST_HOST={host}", WEFT_FABRIC="shm")


def mount(folder, options):
    os.makedirs(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)


def main(folder):
    at = lambda name: os.path.join(folder, name)
    data = {"tree/%02d" % i: os.urandom(700_000) for i in range(20)}
    data["tree/large"] = os.urandom(9_000_000)
    os.makedirs(at("tree"))
    for name, content in data.items():
        with open(at(name), "wb") as file:
            file.write(content)
    mount(at("full"), "size=5m")
    mount(at("read"), "size=5m,ro")
    mount(at("spent"), "size=5m,nr_inodes=9")
    hosts = ["good", "full", "read", "spent", "fine"]
    for more in ([], ["--resume"]):
        done = subprocess.run(
            [COPY, at("tree"), *more, "--hosts", ",".join("%s:%s" % (h, at(h)) for h in hosts)],
            env=ENVIRONMENT, capture_output=True, timeout=100, check=False)
        err = done.stderr.decode()
        assert done.returncode == 1, (done.returncode, err)
        named = {line.split(": ")[1] for line in err.splitlines() if line.startswith("weft-copy: ")}
        assert named == {"full", "read", "spent"}, err
        assert "full: tree/large: can't write: No space left on device" in err or \
            "full: large: can't write: No space left on device" in err, err
        assert "read: %s: can't write there: Read-only file system" % at("read") in err, err
        for host in ("good", "fine"):
            for name, content in data.items():
                with open(at(host + "/" + name), "rb") as file:
                    assert file.read() == content, (host, name)
        # What does not fit leaves no part of itself, and what is there is whole.
        for host in ("full", "spent"):
            for name in os.listdir(at(host + "/tree")):
                with open(at(host + "/tree/" + name), "rb") as file:
                    assert file.read() == data["tree/" + name], (host, name)
        for host in ("good", "fine"):
            subprocess.run(["rm", "-r", at(host)], check=True)
    for host in ("full", "read", "spent"):
        subprocess.run(["umount", at(host)], check=True)


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
