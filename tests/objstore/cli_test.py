#!/usr/bin/env python3
"""weft-store for the shell and its Python client: cli_test.py WEFT_STORE FOLDER_OF_LIBRARY PYTHON_CLIENT."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

weft_store, library, client = sys.argv[1:]
folder = tempfile.mkdtemp(prefix="weft-store-cli-")
path = os.path.join(folder, "socket")


def start(*arguments):
    store = subprocess.Popen([weft_store, "--socket", path, *arguments], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    line = store.stdout.readline()
    assert line == f"ready {path}\n", (line, store.stderr.read())
    return store


def run(*arguments, code=0, data=None):
    result = subprocess.run([weft_store, "--socket", path, *arguments], input=data,
                            capture_output=True, timeout=60)
    assert result.returncode == code, (arguments, result)
    return result.stdout if code == 0 else result.stderr.decode()


def end(store, number=signal.SIGTERM):
    store.send_signal(number)
    store.wait(timeout=20)
    store.stdout.close()
    store.stderr.close()
    return store.returncode


assert "not there" in run("status", code=1)
store = start("--memory", "64MiB")
assert os.stat(path).st_mode & 0o777 == 0o600
payload = os.urandom(3_000_000)
run("put", "big", "-", data=payload)
assert run("get", "big") == payload
assert run("get", "big", "--offset", "1000", "--length", "70000") == payload[1000:71000]
assert run("get", "big", "--offset", "2999990") == payload[-10:]
assert run("get", "big", "--length", "1KiB") == payload[:1024]
assert run("get", "big", "--offset", "3000000") == b""
assert "has 3000000 bytes" in run("get", "big", "--offset", "4000000", code=1)
with open(os.path.join(folder, "file"), "wb") as file:
    file.write(payload[:1000])
run("put", "--pin", "small", file.name)
assert run("get", "small") == payload[:1000]
assert "already" in run("put", "small", file.name, code=1)
rows = run("ls").decode().split("\n")
assert any(row.split()[:3] == ["big", "3000000", "0"] for row in rows if row), rows
assert any(row.split()[3:] == ["pinned"] for row in rows if row.startswith("small")), rows
run("unpin", "small")
run("pin", "small")
assert run("wait", "small", "none", "--least", "1") == b"small\n"
assert "in time" in run("wait", "none", "--timeout", "0.05", code=1)
run("delete", "big")
assert "not" in run("get", "big", "--timeout", "0", code=1)
assert "id is 1 to 255 bytes" in run("get", "x" * 256, code=1)
for name in ("kv/llama-3-70b/layer.12/block-000123", "a name with blanks", "x" * 255, "0x6100ff", "0x6"):
    run("put", name, file.name)
    assert run("get", name) == payload[:1000]
assert {"kv/llama-3-70b/layer.12/block-000123", "x" * 255, "0x6100ff", "0x6"} < \
    {row.split()[0] for row in run("ls").decode().splitlines()}
for name in ("kv/llama-3-70b/layer.12/block-000123", "a name with blanks", "x" * 255, "0x6100ff", "0x6"):
    run("delete", name)
status = json.loads(run("status", "--json"))
assert status["objects"] == 1 and status["deleted"] == 6, status
assert status["memory"]["capacity_bytes"] == 64 << 20
for line in run("status", "--prometheus").decode().splitlines():
    if line.startswith("#"):
        continue
    name, value = line.rsplit(None, 1)
    assert name.startswith("weft_store_") and float(value) >= 0
assert b"capacity_bytes" in run("status")
# A second store finds the first.
second = subprocess.run([weft_store, "--socket", path], capture_output=True, text=True, timeout=60)
assert second.returncode == 1 and "another store" in second.stderr, second
for wrong in (["--memory", "many"], ["--socket", "x" * 200], ["nonsense"]):
    result = subprocess.run([weft_store, *wrong], capture_output=True, timeout=60)
    assert result.returncode != 0, wrong

# Python, in this process.
code = f"""
import sys, gc
sys.path.insert(0, {client!r})
from weft import store as w
a, b = w.ObjectStore({path!r}), w.ObjectStore({path!r})
a.put("one", bytearray(b"hello"), b"meta")
a.put("two", b"read-only")
view = b.get("one")
assert bytes(view) == b"hello" and view.readonly and view.nbytes == 5
try:
    view[0] = 1
    raise SystemExit("a view was written to")
except TypeError:
    pass
(data, metadata), = b.get_with_metadata(["one"])
assert bytes(metadata) == b"meta"
with a.create("three", 1 << 20) as buffer:
    buffer.data[:] = bytes(range(256)) * 4096
assert "three" in b and "four" not in b
third = b.get("three", timeout=10)
made = b.allocate(300)
assert b.get_into("three", made, 1) == 300 and bytes(made[:255]) == bytes(range(1, 256))
assert b.get_into("three", made, (1 << 20) - 10) == 10
other = bytearray(100)
assert b.get_into("three", other, 256) == 100 and other == bytes(range(100))
assert bytes(b.get_range("three", 5, 10)) == bytes(range(5, 15))
assert bytes(third[:256]) == bytes(range(256)) and third.nbytes == 1 << 20
assert b.wait(["one", "four"], least=1) == ["one"]
assert b.wait(["one", "four"], timeout=0.05) == ["one"]
try:
    b.get("four", timeout=0.05)
    raise SystemExit("got what is not there")
except w.Error as error:
    assert error.code == "timed out", error.code
try:
    a.put("one", b"again")
    raise SystemExit("put twice")
except w.Error as error:
    assert error.code == "exists already", error.code
# The view keeps the object: deleted, evicted or not, its bytes are the same.
a.delete("three")
assert bytes(third[-256:]) == bytes(range(256))
b.subscribe()
a.put("five", b"x" * 10)
assert b.next_event(timeout=20) == ("five", 10)
assert b.next_event(timeout=0.01) is None
assert ("two", 9, 0) in a.list()
assert a.status()["clients_so_far"] >= 2
del view, data, metadata, third, made
gc.collect()
a.close(); b.close()
print("as expected")
"""
result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                        env={**os.environ, "LD_LIBRARY_PATH": library})
assert result.stdout == "as expected\n", result
assert end(store) == 0
assert not os.path.exists(path)
# A store that was killed leaves a socket that the next one takes over.
store = start()
assert end(store, signal.SIGKILL) == -signal.SIGKILL
assert os.path.exists(path)
store = start()
assert json.loads(run("status", "--json"))["objects"] == 0
assert end(store, signal.SIGINT) == 0
# Objects on disk come back, and nothing of them is left, however the store ends; two share a folder.
spill = os.path.join(folder, "spill")
os.mkdir(spill)


def spill_bytes():
    return sum(os.stat(f"/proc/{store.pid}/fd/{fd}").st_blocks * 512
               for fd in os.listdir(f"/proc/{store.pid}/fd")
               if os.readlink(f"/proc/{store.pid}/fd/{fd}").startswith(spill))


for number in (signal.SIGTERM, signal.SIGKILL):
    store = start("--memory", "8MiB", "--spill", spill)
    other = subprocess.Popen([weft_store, "--socket", path + "2", "--memory", "8MiB", "--spill",
                              spill], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == f"ready {path}2\n"
    for i in range(12):
        run("put", f"spilled-{i}", "-", data=payload[i:])
    assert b"spilled\n" in run("ls")
    assert spill_bytes() > 20 << 20, spill_bytes()
    other.kill()
    other.wait()
    other.stdout.close()
    os.unlink(path + "2")
    for i in range(12):
        assert run("get", f"spilled-{i}") == payload[i:]
    assert json.loads(run("status", "--json"))["spill"]["restored"] > 0
    assert os.listdir(spill) == []
    end(store, number)
    assert os.listdir(spill) == []
# A disk that is full: a small one, where this process may mount one.
small = subprocess.Popen(
    ["unshare", "--mount", "sh", "-c",
     f'mount -t tmpfs -o size=8m none {spill} && exec {weft_store} --socket {path} --memory 8MiB '
     f'--spill {spill}'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
if small.stdout.readline() == f"ready {path}\n":
    for i in range(12):
        run("put", f"spilled-{i}", "-", data=payload[i:])
    status = json.loads(run("status", "--json"))
    assert "No space left" in status["spill"]["trouble"] and status["evicted"] > 0, status
    kept = [row.split()[0] for row in run("ls").decode().splitlines()]
    assert len(kept) >= 2
    for name in kept:
        # One that comes back may drive out another, which has no place on disk.
        if name not in [row.split()[0] for row in run("ls").decode().splitlines()]:
            continue
        assert run("get", name) == payload[int(name.split("-")[1]):]
    small.send_signal(signal.SIGTERM)
    assert "No space left" in small.communicate(timeout=20)[1]
else:
    print("no full disk: no tmpfs can be mounted here", file=sys.stderr)
    small.communicate(timeout=20)
os.rmdir(spill)
# From which size on to read, measured with another store and kept.
secret, thresholds = os.path.join(folder, "secret"), os.path.join(folder, "thresholds")
with open(secret, "w") as out:
    out.write("of the calibration\n")
node = f"unix:{folder}/node"
store = start("--memory", "64MiB", "--listen", node, "--secret-file", secret, "--bind", "numa",
              "--verify", "--register", "object")
table = run("calibrate", node, "--secret-file", secret, "--thresholds", thresholds).decode()
assert table.count("\n") == 1 + 13 + 1 and "noted in" in table, table
with open(thresholds) as kept:
    fabric, value = kept.read().split()
assert fabric == "shm" and int(value) > 0
for line in table.splitlines()[1:-1]:
    size, sent, read = line.split()
    assert int(size) >= 1024 and float(sent) > 0 and float(read) > 0
# What it measured with is gone.
deadline = time.monotonic() + 20
while json.loads(run("status", "--json"))["objects"] != 0:
    assert time.monotonic() < deadline
assert "not" in run("calibrate", f"unix:{folder}/nobody", "--thresholds", thresholds, code=1)
assert end(store) == 0
for name in (secret, thresholds, f"{folder}/node"):
    if os.path.exists(name):
        os.unlink(name)
os.unlink(file.name)
os.rmdir(folder)  # nothing else is left
print("as expected")
