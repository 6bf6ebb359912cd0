#!/usr/bin/env python3
"""The examples of the object store run as they are printed: examples_test.py WEFT_STORE WEFTRUN BENCH
FOLDER_OF_LIBRARY EXAMPLES [python]. With `python` the Python ones too."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

weft_store, weftrun, bench, library, examples, *more = sys.argv[1:]
LIMIT = 120
folder = tempfile.mkdtemp(prefix="weft-store-examples-")
secret = os.path.join(folder, "secret")
with open(secret, "w") as file:
    file.write("of the examples\n")
paths = [os.path.join(folder, f"socket{i}") for i in range(3)]
started = []


def start(path, *words):
    process = subprocess.Popen([weft_store, "--socket", path, "--memory", "256MiB", "--secret-file",
                                secret, "--listen", f"unix:{path}.node", *words],
                               stdout=subprocess.PIPE, text=True)
    started.append(process)
    assert process.stdout.readline() == f"ready {path}\n"


def status(path):
    return json.loads(subprocess.run([weft_store, "--socket", path, "status", "--json"], check=True,
                                     stdout=subprocess.PIPE, timeout=LIMIT).stdout)


def check_bench(redis):
    points = os.path.join(folder, "points")
    words = ["--redis", f"unix:{redis}", "--redis-local", f"unix:{redis}"] if redis else []
    subprocess.run([weftrun, "-n", "3", "--timeout", str(LIMIT), bench, "--sockets", ",".join(paths),
                    "--from", "1KiB", "--to", "64KiB", "--clients", "1,2", "--rounds", "1", "--most",
                    "6", "--batch", "256KiB", "--json", points, *words], check=True,
                   stdout=subprocess.DEVNULL, timeout=2 * LIMIT)
    with open(points) as file:
        result = json.load(file)
    found = {(point["what"], point.get("reads"), point["clients"], point["bytes"])
             for point in result["points"]}
    local = ["put", "get", "read", "delete"]
    names = local + ["fetch", "fetch_list"]
    if redis:
        names += [f"redis_{name}" for name in local] + ["redis_fetch"]
    expected = {(name, None, clients, size) for name in names for clients in (1, 2)
                for size in (1024, 4096, 16384, 65536)}
    expected |= {(name, reads, clients, size) for name in (["mix", "redis_mix"] if redis else ["mix"])
                 for reads in (50, 90, 99) for clients in (1, 2) for size in (1024, 4096, 16384, 65536)}
    assert found == expected, (found - expected, expected - found)
    assert all(point["us"] > 0 and point["per_second"] > 0 for point in result["points"])
    assert result["ranks"] == 3 and set(result["first_fetch_us"]) == {"1024", "1048576"}
    for path in paths:  # nothing stays in the stores
        deadline = time.monotonic() + LIMIT
        while status(path)["objects"] != 0:
            assert time.monotonic() < deadline, status(path)
            time.sleep(0.02)


def python_with_numpy():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def check_python(python):
    environment = {**os.environ, "LD_LIBRARY_PATH": library}
    for words, says in ((["arrays.py", "--rows", "1000"], "4 workers at 3 stores summed 7 MiB\n"),
                        (["shuffle.py", "--numbers", "20000"],
                         "4 map and 3 reduce tasks at 3 stores sorted them\n")):
        result = subprocess.run([python, os.path.join(examples, words[0]), "--sockets",
                                 ",".join(paths), *words[1:]], env=environment, timeout=LIMIT,
                                stdout=subprocess.PIPE, text=True)
        assert result.returncode == 0 and result.stdout == says, result


try:
    start(paths[0])
    for path in paths[1:]:
        start(path, "--peers", f"unix:{paths[0]}.node")
    for path in paths:
        deadline = time.monotonic() + LIMIT
        while len(status(path)["peers"]) != 2:
            assert time.monotonic() < deadline, "the stores do not meet"
            time.sleep(0.02)
    redis = None
    if shutil.which("redis-server") is not None:
        redis = os.path.join(folder, "redis")
        started.append(subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", redis, "--save",
                                         "", "--appendonly", "no", "--dir", folder],
                                        stdout=subprocess.DEVNULL))
        deadline = time.monotonic() + LIMIT
        while not os.path.exists(redis):
            assert time.monotonic() < deadline, "no redis-server"
            time.sleep(0.02)
    check_bench(redis)
    if "python" in more:
        python = python_with_numpy()
        if python is None:
            print("without the Python examples: no numpy on this machine", file=sys.stderr)
        else:
            check_python(python)
finally:
    for process in started:
        process.send_signal(signal.SIGTERM)
    for process in started:
        process.wait(timeout=LIMIT)
assert [process.returncode for process in started] == [0] * len(started)
shutil.rmtree(folder)
print("as expected")
