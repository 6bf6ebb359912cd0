#!/usr/bin/env python3
"""Senders and receivers of weft-copy of two versions: each names both versions, at once, and copies
nothing; a side that names none speaks version 2."""
import os
import re
import subprocess
import sys
import tempfile

COPY = os.path.abspath(sys.argv[1])
with open(sys.argv[2], encoding="utf-8") as header:
    OWN = int(re.search(r"kCopyVersion = (\d+)", header.read()).group(1))
BOTH = "install one release of Weft on both hosts"


def receive(first):
    """The lines of a receiver whose sender begins with `first`, and its exit status."""
    with tempfile.TemporaryDirectory() as into:
        lines = "%s\ninto %s\nstart\nend\n" % (first, into)
        done = subprocess.run([COPY, "--receive"], input=lines, capture_output=True, text=True,
                              timeout=60, check=False, env=dict(os.environ, WEFT_FABRIC="shm"))
        return done.stdout.replace("%20", " ").replace("%27", "'"), done.returncode


def send(answer):
    """What a sender prints whose receiver answers with `answer`, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        receiver = os.path.join(folder, "receiver")
        with open(receiver, "w", encoding="utf-8") as script:
            # One that refuses ends, as receivers do.
            goes_on = "" if answer.startswith("error") else "cat > /dev/null\n"
            script.write("#!/bin/sh\nread -r first\necho '%s'\n%s" % (answer, goes_on))
        os.chmod(receiver, 0o755)
        with open(os.path.join(folder, "file"), "w", encoding="utf-8") as file:
            file.write("data")
        done = subprocess.run([COPY, os.path.join(folder, "file"), "--hosts", "a:" + folder + "/to"],
                              capture_output=True, text=True, timeout=60, check=False,
                              env=dict(os.environ, WEFT_FABRIC="shm", WEFT_LAUNCH=receiver))
        assert not os.path.exists(folder + "/to")
        return done.stderr, done.returncode


for other in (OWN - 1, OWN + 7):
    out, status = receive("secret 00 %d" % other)
    assert status == 1 and BOTH in out, (out, status)
    assert "sender's weft-copy speaks version %d, and this receiver's version %d" % (other, OWN) \
        in out, out
    assert "weft-copy-address" not in out, out
    err, status = send("weft-copy-address weft:AAAA %d" % other)
    assert status == 1 and BOTH in err, (err, status)
    assert "receiver's weft-copy speaks version %d, and this sender's version %d" % (other, OWN) \
        in err, err

# A newer receiver may refuse first.
err, status = send("error it%20speaks%20version%209")
assert status == 1 and "it speaks version 9" in err, (err, status)
assert "could not be started" not in err, err

out, status = receive("secret 00 %d" % OWN)
assert status == 0 and re.search(r"^weft-copy-address weft:\S+ %d$" % OWN, out, re.M), (out, status)
out, status = receive("secret 00")
assert ("weft-copy-address" in out) == (OWN == 2), out
assert ("speaks version 2," in out) == (OWN != 2), out
print("versions are compared")
