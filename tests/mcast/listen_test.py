#!/usr/bin/env python3
"""weft-copy --listen: receivers that wait. Files arrive below their folder and nowhere else, who lacks
the secret gets nothing, ends of senders, receivers and listeners are seen, and nothing stays.

listen_test.py WEFT_COPY"""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

COPY = os.path.abspath(sys.argv[1])
ENVIRONMENT = dict(os.environ, WEFT_FABRIC="shm", WEFT_LAUNCH="env COPY_TEST_HOST={host}")
LIMIT_S = 60


def wait_for(what, condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                fields = file.read().rsplit(b")", 1)[1].split()
                if name.isdigit() and int(fields[1]) == pid and fields[0] != b"Z":
                    found.append(int(name))
        except OSError:
            pass
    return found


class Listener:
    def __init__(self, folder, address, secret):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.address = folder, address
        self.process = subprocess.Popen([COPY, "--listen", address, "--secret-file", secret],
                                        cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert address.encode() in line, line

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_S) == 0
        self.process.stdout.close()


def copy(paths, *words, expect=0):
    done = subprocess.run([COPY, *paths, *words], env=ENVIRONMENT, capture_output=True, timeout=100,
                          check=False)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout.decode(), done.stderr.decode()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(folder):
    at = lambda name: os.path.join(folder, name)
    for name, text in (("secret", "open sesame"), ("other", "open barley")):
        with open(os.open(at(name), os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(text + "\nsecond line\n")
    os.makedirs(at("tree/sub"))
    data = {"tree/big": os.urandom(9_000_000), "tree/sub/small": b"x", "tree/empty": b""}
    for name, content in data.items():
        with open(at(name), "wb") as file:
            file.write(content)

    def check_same(place):
        for name, content in data.items():
            with open(os.path.join(place, name), "rb") as file:
                assert file.read() == content, (place, name)

    listeners = [Listener(at("a"), "127.0.0.1:%d" % free_port(), at("secret")),
                 Listener(at("b"), "unix:" + at("socket"), at("secret"))]
    where = ",".join(item.address for item in listeners)
    known = ["--listening", where, "--secret-file", at("secret")]

    copy([at("tree")], *known)
    copy([at("tree")], *known, "--into", "deep/er")
    out, _ = copy([at("tree")], *known)
    assert out.startswith("0 of "), out
    # Beside a host that a launcher starts.
    copy([at("tree")], *known, "--hosts", "c:" + at("c"))
    for item in listeners:
        check_same(item.folder)
        check_same(item.folder + "/deep/er")
    check_same(at("c"))

    # Nothing is written outside of the listener's folder, neither by name nor by a link.
    os.makedirs(at("outside"))
    os.symlink(at("outside"), at("a/link"))
    for into in ("../outside", at("outside"), "link", "link/more", "x/../../outside", ""):
        words = ["--into", into] if into else ["--into", "/"]
        _, err = copy([at("tree")], "--listening", listeners[0].address, "--secret-file",
                      at("secret"), *words, expect=1)
        assert listeners[0].address in err, err
    assert not os.listdir(at("outside"))

    # Another secret, none, and one that others may read.
    _, err = copy([at("tree")], "--listening", where, "--secret-file", at("other"), expect=1)
    assert "secret" in err, err
    copy([at("tree")], "--listening", where, expect=2)
    os.chmod(at("other"), 0o644)
    _, err = copy([at("tree")], "--listening", where, "--secret-file", at("other"), expect=2)
    assert "others" in err, err
    for item in listeners:
        wait_for("receivers end", lambda item=item: not children(item.process.pid))

    # A sender that dies ends its receivers, and the listener goes on.
    for name in os.listdir(at("a")):
        if name != "link":
            subprocess.run(["rm", "-rf", at("a/" + name)], check=True)
    running = subprocess.Popen([COPY, at("tree"), *known, "--rate", "1"], env=ENVIRONMENT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for("the copy begins", lambda: os.path.exists(at("a/tree/sub")))
    assert children(listeners[0].process.pid)
    running.kill()
    running.wait(LIMIT_S)
    for item in listeners:
        wait_for("receivers end with their sender", lambda item=item: not children(item.process.pid))

    # A receiver that dies is named; the other host gets everything.
    running = subprocess.Popen([COPY, at("tree"), *known, "--rate", "4", "--into", "again"],
                               env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for("the copy begins", lambda: os.path.exists(at("b/again/tree/sub")))
    for pid in children(listeners[1].process.pid):
        os.kill(pid, signal.SIGKILL)
    out, err = running.communicate(timeout=100)
    assert running.returncode == 1 and listeners[1].address.encode() in err, (out, err)
    check_same(at("a/again"))

    copy([at("tree")], *known)
    for item in listeners:
        check_same(item.folder)
        item.end()
    assert not os.path.exists(at("socket"))
    _, err = copy([at("tree")], *known, expect=1)
    assert listeners[0].address in err, err

    # A job of Slurm.
    environment = dict(ENVIRONMENT, SLURM_JOB_NODELIST="n[1-1],%s" % socket.gethostname())
    done = subprocess.run([COPY, at("tree"), "--into", at("slurm")], env=environment,
                          capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done
    check_same(at("slurm"))


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
