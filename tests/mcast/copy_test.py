#!/usr/bin/env python3
"""weft-copy to several "hosts" of this machine: trees arrive as they are, what is there is left out,
hosts that fail or die are named and stop no other, nothing leaves the folder: copy_test.py WEFT_COPY
[FABRIC]."""
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import time

COPY = sys.argv[1]
# The host's name is only a variable of the receiver.
ENVIRONMENT = dict(os.environ, WEFT_LAUNCH="env COPY_TEST_HOST={host}",
                   WEFT_FABRIC=(sys.argv[2:] or ["shm"])[0])


def copy(paths, targets, *more, data=None, expect=0):
    done = subprocess.run([COPY, *paths, "--hosts", ",".join(targets), *more], input=data,
                          env=ENVIRONMENT, capture_output=True, timeout=100, check=False)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def make_tree(path):
    os.makedirs(os.path.join(path, "sub", "deep"))
    random.seed(1)

    def write(name, data):
        with open(os.path.join(os.fsencode(path), name), "wb") as file:
            file.write(data)

    for i in range(30):
        write(b"sub/f %d" % i, random.randbytes(i * 997))
    write(b"big", random.randbytes(20_000_000))
    write(b"empty", b"")
    write(b"odd\nname\xff%", b"x")
    # Names with any byte, of files, folders and links.
    for byte in set(range(1, 256)) - {ord("/")}:
        odd = b"%c odd%c" % (byte, byte)
        write(b"sub/" + odd, odd)
        if byte % 16 in (1, 10, 15):
            below = os.path.join(os.fsencode(path), b"sub", b"d" + odd)
            os.mkdir(below)
            os.symlink(odd, os.path.join(below, odd))
    with open(os.path.join(path, "sparse"), "wb") as file:
        file.truncate(30_000_000)
        file.seek(15_000_000)
        file.write(b"island")
    os.symlink("../big", os.path.join(path, "sub", "link"))
    os.symlink("/nowhere", os.path.join(path, "dangling"))
    os.link(os.path.join(path, "big"), os.path.join(path, "sub", "hard"))
    os.chmod(os.path.join(path, "sub", "f 1"), 0o4750)
    os.utime(os.path.join(path, "big"), ns=(10**18, 10**18 + 123456789))
    os.utime(os.path.join(path, "sub"), ns=(10**18, 10**18))


def check_same(source, target):
    found = {}
    for top, folders, files in os.walk(os.fsencode(source)):
        there = os.path.join(os.fsencode(target), os.path.relpath(top, os.fsencode(source)))
        assert sorted(os.listdir(top)) == sorted(os.listdir(there)), (top, os.listdir(there))
        for name in folders + files + [b"."]:
            a, b = os.path.join(top, name), os.path.join(there, name)
            left, right = os.lstat(a), os.lstat(b)
            assert left.st_mode == right.st_mode, (a, left, right)
            assert left.st_mtime_ns == right.st_mtime_ns, (a, left, right)
            if stat.S_ISLNK(left.st_mode):
                assert os.readlink(a) == os.readlink(b)
            elif stat.S_ISREG(left.st_mode):
                with open(a, "rb") as one, open(b, "rb") as other:
                    assert one.read() == other.read(), a
                found.setdefault(left.st_ino, set()).add(right.st_ino)
    for copies in found.values():
        assert len(copies) == 1  # hard links are links of one file again


def main(folder):
    source = os.path.join(folder, "tree")
    make_tree(source)
    at = lambda name: os.path.join(folder, name)
    targets = ["%s:%s" % (name, at(name)) for name in "abcd"]

    out, _ = copy([source], targets, "--dry-run")
    assert "tree/big" in out and not os.path.exists(at("a/tree")), out
    out, _ = copy([source], targets)
    assert out.endswith((", copied by the network\n", ", forwarded by the hosts\n")), out
    for name in "abcd":
        check_same(source, at(name + "/tree"))
    assert os.stat(at("a/tree/sparse")).st_blocks < 1000

    # What is there is left out; what differs is not.
    out, _ = copy([source], targets)
    assert out.startswith("0 of "), out
    os.utime(at("b/tree/empty"), ns=(1, 1))
    os.unlink(at("c/tree/sub/f 7"))
    out, _ = copy([source], targets)
    assert out.startswith("2 of "), out
    for name in "abcd":
        check_same(source, at(name + "/tree"))

    # --delete, only in copied folders.
    os.makedirs(at("a/tree/sub/extra/more"))
    with open(at("a/tree/sub/extra/more/file"), "w", encoding="ascii") as file:
        file.write("x")
    with open(at("a/beside"), "w", encoding="ascii") as file:
        file.write("x")
    copy([source], targets, "--delete")
    check_same(source, at("a/tree"))
    assert os.path.exists(at("a/beside"))

    # Standard input.
    data = random.randbytes(9_000_001)
    copy(["-"], targets, "--name", "input", data=data)
    for name in "abcd":
        with open(at(name + "/input"), "rb") as file:
            assert file.read() == data

    # A host whose folder can't be made fails alone, by name.
    with open(at("file"), "w", encoding="ascii") as file:
        file.write("x")
    _, err = copy([source], ["e:" + at("e"), "f:" + at("file")], expect=1)
    assert "copy: f: " in err and "copy: e: " not in err, err
    check_same(source, at("e/tree"))

    # A link there that leads elsewhere is not followed.
    os.makedirs(at("outside"))
    os.makedirs(at("g/tree"))
    os.symlink(at("outside"), at("g/tree/sub"))
    _, err = copy([source], ["g:" + at("g"), "h:" + at("h")], expect=1)
    assert "copy: g: " in err and "copy: h: " not in err, err
    assert not os.listdir(at("outside"))
    check_same(source, at("h/tree"))

    # A host that dies in the middle is named; the others get everything; nothing half stays.
    running = subprocess.Popen(
        [COPY, source, "--rate", "8", "--hosts",
         ",".join("%s:%s" % (name, at(name)) for name in ("i", "j", "k"))],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    limit = time.monotonic() + 60
    victim = None
    while victim is None and time.monotonic() < limit:
        assert running.poll() is None
        if os.path.exists(at("j/tree/sub")):
            victim = receiver_of(running.pid, "j")
        time.sleep(0.01)
    os.kill(victim, signal.SIGKILL)
    out, err = running.communicate(timeout=90)
    assert running.returncode == 1 and b"j: its receiver has ended" in err, (out, err)
    assert b"copy: i: " not in err and b"copy: k: " not in err, err
    check_same(source, at("i/tree"))
    check_same(source, at("k/tree"))
    for top, _, files in os.walk(at("j")):
        assert not [name for name in files if name.startswith(".weft-copy-")], top

    # When the sender dies, its receivers end.
    running = subprocess.Popen([COPY, source, "--rate", "1", "--hosts", "l:" + at("l")],
                               env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while not os.path.exists(at("l/tree/sub")) and time.monotonic() < limit + 60:
        time.sleep(0.01)
    receiver = receiver_of(running.pid, "l")
    running.kill()
    running.wait(timeout=30)
    end = time.monotonic() + 30
    while is_alive(receiver) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_alive(receiver)

    resume(folder)
    changing(folder)

    for wrong in (["--hosts", "a"], [source], [source, "--hosts", "a,a"], [source, "--hosts", "-x"],
                  ["-", "--hosts", "a"]):
        done = subprocess.run([COPY, *wrong], env=ENVIRONMENT, capture_output=True, timeout=30,
                              check=False)
        assert done.returncode != 0 and done.stderr, wrong
    _, err = copy([at("nothing")], ["a:" + at("a")], expect=1)
    assert "nothing" in err, err


def partial_bytes(folder):
    """Of what is there of an unfinished file."""
    if not os.path.isdir(folder):
        return 0
    return sum(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder)
               if name.startswith(".weft-copy-part-"))


def sent_megabytes(out):
    return float(out.split(" files, ")[1].split(" MB")[0])


def resume(folder):
    """--resume goes on in the middle of a large file, whoever died."""
    at = lambda name: os.path.join(folder, name)
    source = at("large")
    data = bytearray(random.randbytes(40_000_001))

    def write():
        with open(source, "wb") as file:
            file.write(data)

    def check(*names):
        for name in names:
            with open(at(name + "/large"), "rb") as file:
                assert file.read() == data, name
            assert os.listdir(at(name)) == ["large"], os.listdir(at(name))

    def begin(names):
        """Runs until all have a good part of the file."""
        running = subprocess.Popen(
            [COPY, source, "--resume", "--rate", "16", "--hosts",
             ",".join("%s:%s" % (name, at(name)) for name in names)],
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        limit = time.monotonic() + 60
        while any(partial_bytes(at(name)) < 14_000_000 for name in names):
            assert running.poll() is None and time.monotonic() < limit
            time.sleep(0.01)
        return running

    def end(receiver):
        limit = time.monotonic() + 30
        while is_alive(receiver):
            assert time.monotonic() < limit
            time.sleep(0.02)

    # A receiver dies.
    write()
    running = begin("mn")
    os.kill(receiver_of(running.pid, "n"), signal.SIGKILL)
    out, err = running.communicate(timeout=90)
    assert running.returncode == 1 and b"n: its receiver has ended" in err, (out, err)
    check("m")
    assert partial_bytes(at("n")) > 14_000_000 and not os.path.exists(at("n/large"))
    targets = ["%s:%s" % (name, at(name)) for name in "mn"]
    out, _ = copy([source], targets, "--resume")
    assert 0 < sent_megabytes(out) < 28, out
    check("m", "n")

    # The sender dies, and then the file changes: blocks that are still its own are not sent.
    data[5_000_000:5_000_100] = random.randbytes(100)
    write()
    running = begin("op")
    receivers = [receiver_of(running.pid, name) for name in "op"]
    running.kill()
    running.communicate(timeout=30)
    for receiver in receivers:
        end(receiver)
    data[2_000_000:2_000_100] = random.randbytes(100)
    data[30_000_000:30_000_010] = random.randbytes(10)
    write()
    targets = ["%s:%s" % (name, at(name)) for name in "op"]
    out, _ = copy([source], targets, "--resume")
    assert 1 < sent_megabytes(out) < 29, out
    check("o", "p")

    # It shrinks and gets a hole where there was something; one of two has nothing of it.
    running = begin("q")
    receiver = receiver_of(running.pid, "q")
    running.kill()
    running.communicate(timeout=30)
    end(receiver)
    data[3_000_000:] = bytes(6_000_000) + data[9_000_000:12_000_000]
    with open(source, "wb") as file:
        file.write(data[:3_000_000])
        file.seek(9_000_000)
        file.write(data[9_000_000:])
    out, _ = copy([source], ["q:" + at("q")], "--resume")
    assert sent_megabytes(out) < 5, out
    check("q")

    # What lies under the name of a part, and is none, harms nothing; without --resume it goes.
    data[:] = random.randbytes(30_000_000)
    write()
    running = begin("r")
    receiver = receiver_of(running.pid, "r")
    running.kill()
    running.communicate(timeout=30)
    end(receiver)
    part = [name for name in os.listdir(at("r")) if name.startswith(".weft-copy-part-")][0]
    os.makedirs(at("s"))
    with open(at("precious"), "wb") as file:
        file.write(b"mine")
    os.symlink(at("precious"), at("s/" + part))
    copy([source], ["s:" + at("s")], "--resume")
    copy([source], ["r:" + at("r")])
    check("r", "s")
    with open(at("precious"), "rb") as file:
        assert file.read() == b"mine"


def changing(folder):
    """A tree that changes while it is copied: what arrives is a file as it was at some time, whole,
    what did not change is all there, and who could not be copied is named."""
    at = lambda name: os.path.join(folder, name)
    source = at("moving")
    os.makedirs(os.path.join(source, "still"))
    versions = {}
    for i in range(12):
        name = "f%d" % i
        versions[name] = [random.randbytes(1_500_000)]
        with open(os.path.join(source, name), "wb") as file:
            file.write(versions[name][0])
        with open(os.path.join(source, "still", name), "wb") as file:
            file.write(versions[name][0])
    running = subprocess.Popen(
        [COPY, source, "--rate", "12", "--hosts",
         ",".join("%s:%s" % (name, at(name)) for name in ("t", "u"))],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    limit = time.monotonic() + 60
    # Receivers make folders once the sender knows what there is.
    while running.poll() is None and not os.path.exists(at("t/moving/still")):
        assert time.monotonic() < limit
        time.sleep(0.005)
    round = 0
    while running.poll() is None:
        assert time.monotonic() < limit
        round += 1
        for i in range(0, 12, 2):
            path = os.path.join(source, "f%d" % i)
            what = (round + i // 2) % 6
            if what == 0 and os.path.isfile(path):
                os.unlink(path)
            elif what == 1 and not os.path.exists(path):
                os.mkdir(path)
            elif what == 2 and os.path.isdir(path):
                os.rmdir(path)
            elif what == 3 and os.path.isfile(path):
                os.truncate(path, 1000)
                versions["f%d" % i].append(open(path, "rb").read())
            elif not os.path.isdir(path):
                # By another name, so that every version is one that was there.
                data = random.randbytes(1_500_000 + round % 7)
                versions["f%d" % i].append(data)
                with open(path + ".new", "wb") as file:
                    file.write(data)
                os.replace(path + ".new", path)
        time.sleep(0.01)
    out, err = running.communicate(timeout=30)
    assert running.returncode in (0, 1), (out, err)
    assert (running.returncode == 1) == (err != b""), (running.returncode, err)
    num_whole = 0
    for host in "tu":
        for i in range(12):
            name = "f%d" % i
            with open(os.path.join(at(host), "moving", "still", name), "rb") as file:
                assert file.read() == versions[name][0]
            there = os.path.join(at(host), "moving", name)
            if not os.path.isfile(there):
                assert i % 2 == 0 and name.encode() in err, (name, err)
                continue
            with open(there, "rb") as file:
                assert file.read() in versions[name], name
            num_whole += 1
        for name in os.listdir(os.path.join(at(host), "moving")):
            assert not name.startswith(".weft-copy-"), name
    assert num_whole >= 12
    # At rest, another run brings all, also what was a file there and is a folder here, and the
    # other way round.
    for name, is_folder in (("f1", True), ("f3", False)):
        os.unlink(os.path.join(source, name))
        if is_folder:
            os.mkdir(os.path.join(source, name))
        else:
            for host in "tu":
                os.unlink(os.path.join(at(host), "moving", name))
                os.mkdir(os.path.join(at(host), "moving", name))
            with open(os.path.join(source, name), "wb") as file:
                file.write(b"a file")
    copy([source], ["t:" + at("t"), "u:" + at("u")], "--delete")
    check_same(source, at("t/moving"))
    check_same(source, at("u/moving"))


def receiver_of(parent, host):
    """The process that this sender started for the host."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                if int(file.read().rsplit(b")", 1)[1].split()[1]) != parent:
                    continue
            with open("/proc/%s/environ" % name, "rb") as file:
                if b"COPY_TEST_HOST=" + host.encode() + b"\0" in file.read():
                    return int(name)
        except OSError:
            pass
    return None


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] != b"Z"
    except OSError:
        return False


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
