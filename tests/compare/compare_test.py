"""Tests of examples/osu/compare and report: order of runs, statistics, limits, output.

The libraries measured here are two scripts: a "compiler" that writes a program printing a canned
table, and a "launcher" that notes that it ran. What compare does with them is checked against
numbers computed by hand.
"""

import contextlib
import csv
import html
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock
from xml.etree import ElementTree

sys.dont_write_bytecode = True
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OSU = os.path.join(CHECKOUT, "examples", "osu")
sys.path.insert(0, OSU)
from comparing import (baseline, libraries, links, overview, pair, perftest, pictures, programs,  # noqa: E402
                       running, tables, verdict)
from weft_page import chart  # noqa: E402


class Named:
    def __init__(self, name):
        self.name = name


def script(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + textwrap.dedent(text))
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


class StatisticsTest(unittest.TestCase):
    def points(self, unit_program, values):
        points = tables.Points()
        for library, rounds in values.items():
            for value in rounds:
                points.add(unit_program, 2, Named(library), {8: value})
        return points

    def test_ratio_uses_medians_and_the_fastest_peer(self):
        latency = programs.PROGRAMS["latency"]
        points = self.points(latency, {"weft": [1, 9, 2], "a": [4, 4, 4], "b": [5, 3, 80]})
        self.assertEqual(points.ratio(latency, 2, 8, ["a", "b"]), 2 / 4)

    def test_ratio_of_bandwidth_takes_the_largest_peer(self):
        bandwidth = programs.PROGRAMS["bw"]
        points = self.points(bandwidth, {"weft": [30], "a": [10], "b": [20]})
        self.assertEqual(points.ratio(bandwidth, 2, 8, ["a", "b"]), 1.5)

    def test_no_ratio_without_a_peer(self):
        latency = programs.PROGRAMS["latency"]
        self.assertIsNone(self.points(latency, {"weft": [1]}).ratio(latency, 2, 8, ["a"]))

    def test_worst_point_and_goal(self):
        latency = programs.PROGRAMS["latency"]
        points = tables.Points()
        points.add(latency, 2, Named("weft"), {8: 0.5, 16: 1.0})
        points.add(latency, 2, Named("a"), {8: 2.0, 16: 1.0})
        text = tables.summary(points, latency, [2], ["a"])
        self.assertIn("geometric mean 0.50, worst 1.00 at 16 B", text)
        self.assertIn("mean <= 0.65 met, each <= 0.85 missed at 1 of 2", text)

    def test_no_word_about_goals_after_little(self):
        latency = programs.PROGRAMS["latency"]
        for rounds, time_ms, words in ((2, 50, "2 rounds of 50 ms"), (1, 100, "1 round of 100 ms"),
                                       (3, 10, "3 rounds of 10 ms"), (3, 15, ""), (5, 50, "")):
            points = tables.Points(too_short=tables.too_short(rounds, time_ms))
            points.add(latency, 2, Named("weft"), {8: 0.5})
            points.add(latency, 2, Named("a"), {8: 2.0})
            text = tables.summary(points, latency, [2], ["a"])
            self.assertIn("geometric mean 0.25", text)
            self.assertEqual("goal: " in text, words == "")
            self.assertEqual("no word about goals after " + words in text, words != "")
            # The report is made of files.
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "points.json")
                points.write_json(path, {"latency": "us"})
                again, _ = tables.read_json([path])
            self.assertEqual(again.too_short, words)

    def test_goal_at_one_size(self):
        rate = programs.PROGRAMS["mbw_mr"]
        points = tables.Points()
        points.add(rate, 2, Named("weft"), {8: 2.7e7, 16: 1.0e7})
        points.add(rate, 2, Named("a"), {8: 2.0e7, 16: 2.0e7})
        self.assertIn("goal: >= 1.3 at 8 B met", tables.summary(points, rate, [2], ["a"]))
        points.add(rate, 2, Named("b"), {8: 2.2e7})
        self.assertIn("goal: >= 1.3 at 8 B missed", tables.summary(points, rate, [2], ["a", "b"]))

    def test_ratio_to_a_reference_that_is_no_library(self):
        bandwidth = programs.PROGRAMS["bw"]
        points = self.points(bandwidth, {"weft": [30], "a": [100], "tool": [40], "other": [20]})
        rows = tables.table(points, bandwidth, 2, ["weft", "a"], ["tool", "other"],
                            "tool").splitlines()
        self.assertIn("weft/tool", rows[1])
        self.assertEqual(rows[2].split(), ["8", "B", "30.000", "100.00", "0.75", "slower",
                                           "40.000", "1.00", "20.000", "0.50"])
        self.assertIn("worst 0.75", rows[3])
        self.assertEqual([row.split(":")[0] for row in rows[4:]], ["other"])

    def test_best_is_the_smallest_time(self):
        latency = programs.PROGRAMS["latency"]
        points = tables.Points(best=True)
        for value in (3, 1, 2):
            points.add(latency, 2, Named("a"), {8: value})
        self.assertEqual(points.value(latency, 2, 8, "a"), 1)


class ParsingTest(unittest.TestCase):
    def test_takes_the_column_of_the_program(self):
        text = "# head\n# Size  MB/s  Messages/s\n8   16.0   2000000.0\n16  20.0  1250000.0\n"
        self.assertEqual(programs.parse_output(programs.PROGRAMS["mbw_mr"], text),
                         {8: 2e6, 16: 1.25e6})

    def test_wrong_data_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "wrong data at 16 bytes"):
            programs.parse_output(programs.PROGRAMS["latency"], "8 1.0 Pass\n16 1.0 Fail\n")

    def test_no_rows_is_an_error(self):
        with self.assertRaises(ValueError):
            programs.parse_output(programs.PROGRAMS["latency"], "# Size  Latency\n")


class LinksTest(unittest.TestCase):
    def test_hosts_say_how_many_processes(self):
        self.assertEqual(links.parse_hosts("a:4,b,c:12"), {"a": 4, "b": 1, "c": 12})
        self.assertEqual(links.parse_hosts(""), {})
        for wrong in ("a:0", "a:x", "a,a", "a,,b"):
            with self.assertRaisesRegex(ValueError, "hosts are HOST or HOST:N"):
                links.parse_hosts(wrong)

    def test_least_bytes_of_the_busiest_link(self):
        counts = [4, 4, 4, 4]
        for collective, least in (("bcast", 1000), ("reduce", 1000), ("allreduce", 1500),
                                  ("reduce_scatter", 750), ("gather", 12000), ("scatter", 12000),
                                  ("allgather", 12000), ("alltoall", 48000)):
            self.assertEqual(links.least_bytes(collective, 1000, counts), least, collective)
        self.assertEqual(links.least_bytes("gather", 10, [1, 5]), 50)
        self.assertEqual(links.least_bytes("allgather", 10, [1, 5]), 50)
        self.assertEqual(links.least_bytes("alltoall", 10, [1, 5, 2]), 150)

    def test_table_divides_by_the_least_and_counts_from_64_kib(self):
        moved = tables.Points()
        bcast = programs.PROGRAMS["bcast"]
        text = ("# head\n1024 1 1 1 2 4096\n65536 1 1 1 2 70000\n")
        moved.add(bcast, 4, Named("weft"), programs.parse_column(text, bcast.link_column))
        rows = links.table(moved, bcast, 4, ["weft", "a"], {"x": 2, "y": 2}).splitlines()
        self.assertEqual(rows[2].split(), ["1", "KiB", "1024", "4.000", "-"])
        self.assertIn("most 1.068 from 64 KiB on; goal: <= 1.1 met", rows[4])


class BetweenHostsTest(unittest.TestCase):
    HOSTS = {"x": 4, "y": 2}

    def library(self, kind):
        library = libraries.Library.__new__(libraries.Library)
        library.name = library.kind = kind
        library.compiler, library.launcher, library.way = "cc", "run", None
        return library

    def command(self, kind):
        with unittest.mock.patch.object(pair, "address_towards", lambda host: "to " + host), \
             unittest.mock.patch.object(libraries, "num_cores", lambda: 2):
            return self.library(kind).command(["program"], 6, hosts=self.HOSTS)

    def test_every_library_places_processes_alike(self):
        for kind, option in (("weft", "--hosts"), ("openmpi", "-H"), ("mpich", "-hosts")):
            command = self.command(kind)
            self.assertEqual(command[command.index(option) + 1], "x:4,y:2")
            self.assertEqual(command[-3:], ["-n", "6", "program"])

    def test_openmpi_shares_memory_and_yields_where_hosts_are_crowded(self):
        self.assertIn("tcp,vader,self", self.command("openmpi"))
        self.assertIn("--oversubscribe", self.command("openmpi"))

    def test_openmpi_goes_every_way_that_it_has(self):
        def ways(kind, hosts, over_verbs=False):
            return {way.name: way for way in self.library(kind).ways(hosts, over_verbs)}
        self.assertEqual(list(ways("openmpi", {"x": 1, "y": 1})),
                         ["openmpi", "openmpi-ofi", "openmpi-ucx"])
        self.assertEqual(list(ways("openmpi", self.HOSTS)), ["openmpi"])
        self.assertEqual(list(ways("openmpi", None)), ["openmpi"])
        self.assertEqual(list(ways("weft", {"x": 1, "y": 1})), ["weft"])
        over_verbs = ways("openmpi", None, True)
        self.assertIn("UCX_TLS=rc,self", over_verbs["openmpi-ucx"].command(["p"], 2, over_verbs=True))
        self.assertIn("tcp,self", over_verbs["openmpi"].command(["p"], 2, over_verbs=True))
        between = ways("openmpi", {"x": 1, "y": 1})["openmpi-ofi"]
        command = between.command(["p"], 2, hosts={"x": 1, "y": 1})
        self.assertIn("ofi", command)
        self.assertNotIn("ob1", command)

    def test_openmpi_yields_where_fewer_cores_are_allowed_than_it_counts(self):
        with unittest.mock.patch.object(libraries, "num_cores", lambda: 2):
            self.assertIn("mpi_yield_when_idle", self.library("openmpi").command(["p"], 4))
            self.assertNotIn("mpi_yield_when_idle", self.library("openmpi").command(["p"], 2))

    def test_mpich_hears_of_an_address_that_the_hosts_reach(self):
        command = self.command("mpich")
        self.assertEqual(command[command.index("-localhost") + 1], "to x")


WEFT_INFO = """\
  shm: processes of this host; direct copies between them: allowed
  verbs: mlx5_0:1 InfiniBand, 100 Gbit/s, address 10.0.0.1
  verbs: mlx5_1:2 RoCE, 25 Gbit/s, address 10.1.0.1 (GID 3, RoCE v2) <- chosen unless WEFT_DEVICE says otherwise
  verbs: mlx5_2:1 RoCE, 25 Gbit/s, the port is down
  ofi: net on eth0 10.1.0.1
"""


class PerftestTest(unittest.TestCase):
    def test_device_is_the_one_that_weft_uses(self):
        self.assertEqual(perftest.device_options(WEFT_INFO), ["-d", "mlx5_1", "-i", "2", "-x", "3"])
        for wanted in ("mlx5_0", "mlx5_0:1"):
            self.assertEqual(perftest.device_options(WEFT_INFO, wanted), ["-d", "mlx5_0", "-i", "1"])

    def test_no_usable_device_is_said_with_what_is_there(self):
        for wanted in ("mlx5_2", "mlx5_0:2", "other"):
            with self.assertRaisesRegex(libraries.Missing, wanted + "(.|\n)*the port is down"):
                perftest.device_options(WEFT_INFO, wanted)
        with self.assertRaisesRegex(libraries.Missing, "verbs: no RDMA device"):
            perftest.device_options("  verbs: no RDMA device (rdma link shows them)\n")

    def test_row_of_the_size(self):
        text = (" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
                " 8          100            1.5                2.5                  0.000004\n"
                " 65536      512            60.03              57.59                0.000921\n")
        self.assertEqual(perftest.parse_row(text, 65536), [65536, 512, 60.03, 57.59, 0.000921])
        with self.assertRaisesRegex(running.Failed, "no row for 16 bytes(.|\n)*57.59"):
            perftest.parse_row(text, 16)


class PairTest(unittest.TestCase):
    # Says its own number to whoever connects, and stays.
    SERVER = ("import os, socket, sys\n"
              "listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
              "while True: listener.accept()[0].sendall(b'%d' % os.getpid())\n")
    CLIENT = ("import socket, sys\n"
              "print(socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(99).decode())\n")

    @staticmethod
    def free_port():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return listener.getsockname()[1]

    def test_client_asks_once_the_server_listens_which_then_ends(self):
        port = self.free_port()
        server, client = ([sys.executable, "-c", text, str(port)]
                          for text in (self.SERVER, self.CLIENT))
        pid = int(pair.run([], server, client, port))
        self.assertFalse(os.path.exists("/proc/%d" % pid))

    def test_server_that_ends_is_named(self):
        with self.assertRaisesRegex(running.Failed, "false does not wait for a connection"):
            pair.run([], ["false"], ["true"], self.free_port())

    def test_other_hosts_by_the_launcher_this_one_without(self):
        with unittest.mock.patch.dict(os.environ, WEFT_LAUNCH="go {host} now"):
            self.assertEqual(pair.on_host("far", ["tool", "-x"]), ["go", "far", "now", "tool", "-x"])
            self.assertEqual(pair.on_host(socket.gethostname(), ["tool"]), ["tool"])


class RunningTest(unittest.TestCase):
    def test_limit_ends_processes_that_hide_and_ignore(self):
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "pid")
            launcher = os.path.join(folder, "launcher")
            script(launcher, """\
                setsid sh -c 'trap "" TERM; echo $$ >%s; while :; do sleep 1; done' &
                wait
                """ % note)
            started = time.monotonic()
            with self.assertRaisesRegex(running.Failed, "did not end within 1 s"):
                running.run([launcher], dict(os.environ), 1, "it")
            self.assertLess(time.monotonic() - started, 10)
            with open(note, encoding="utf-8") as file:
                pid = int(file.read())
            deadline = time.monotonic() + 10
            while self.is_alive(pid) and time.monotonic() < deadline:
                os.sched_yield()
            self.assertFalse(self.is_alive(pid))

    @staticmethod
    def is_alive(pid):
        with contextlib.suppress(OSError):
            with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        return False

    def test_failure_shows_status_and_output(self):
        with self.assertRaises(running.Failed) as caught:
            running.run(["sh", "-c", "echo rank 1 broke >&2; exit 3"], dict(os.environ), 10, "it")
        self.assertIn("it ended with status 3", str(caught.exception))
        self.assertIn("rank 1 broke", str(caught.exception))


class CompareTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.log = os.path.join(self.folder, "log")

    def library(self, name, microseconds, launch=""):
        """Wrappers of a library with this latency at 8 and 16 bytes."""
        compiler = os.path.join(self.folder, name + "cc")
        launcher = os.path.join(self.folder, name + "run")
        # The compiler finds the output's name after -o, wherever it stands.
        script(compiler, """\
            while [ "$1" != -o ]; do shift; done
            printf '#!/bin/sh\\necho 8 %s\\necho 16 %s\\n' >"$2" && chmod +x "$2"
            """ % (microseconds, 2 * microseconds))
        script(launcher, """\
            if [ "$1" = --version ]; then echo "%s 1.2"; exit 0; fi
            echo %s >>%s
            %s
            while [ "$1" != -n ]; do shift; done
            shift 2
            exec "$@"
            """ % ("weftrun (Weft)" if name == "weft" else name, name, self.log, launch))
        return "%s=%s,%s" % (name, compiler, launcher)

    def compare(self, *arguments):
        command = [sys.executable, os.path.join(OSU, "compare"), "--weft", self.folder,
                   "--build-dir", os.path.join(self.folder, "build"), "--programs", "latency"]
        return subprocess.run(command + list(arguments), capture_output=True, text=True,
                              timeout=60, check=False)

    def runs(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read().split()

    def test_runs_in_turn_and_writes_every_point(self):
        self.library("weft", 1.0)
        slow, slower = self.library("slow", 4.0), self.library("slower", 5.0)
        path = os.path.join(self.folder, "points.json")
        result = self.compare("--against", slow, "--against", slower, "--rounds", "2", "--json",
                              path)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.runs(), ["weft", "slow", "slower"] * 2)
        self.assertIn("geometric mean 0.25, worst 0.25", result.stdout)
        with open(path, encoding="utf-8") as file:
            points = json.load(file)
        self.assertEqual(len(points), 6)
        self.assertIn({"program": "latency", "processes": 2, "bytes": 16, "library": "slow",
                       "median": 8.0, "minimum": 8.0, "maximum": 8.0, "rounds": 2, "unit": "us",
                       "values": [8.0, 8.0], "command": "examples/osu/compare --programs latency "
                       "--np 2 --rounds 2 --time 50 --against %s --against %s" % (slow, slower),
                       "too_short": "2 rounds of 50 ms"},
                      points)

    def test_failing_library_is_named_and_the_others_go_on(self):
        self.library("weft", 1.0)
        broken = self.library("broken", 1.0, launch="echo it broke >&2; exit 7")
        result = self.compare("--against", broken, "--rounds", "3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("latency with 2 processes over broken ended with status 7", result.stdout)
        self.assertIn("it broke", result.stdout)
        self.assertEqual(self.runs(), ["weft", "broken", "weft", "weft"])

    def test_help_says_which_tools_are_beside(self):
        text = self.compare("--help").stdout
        self.assertIn("ib_write_lat and ib_send_lat beside latency", " ".join(text.split()))

    def test_compiles_and_runs_nothing(self):
        self.library("weft", 1.0)
        result = self.compare("--against", "none", "--compile")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "build", "weft", "latency")))
        self.assertFalse(os.path.exists(self.log))
        script(os.path.join(self.folder, "weftcc"), "echo no such header >&2; exit 1")
        os.unlink(os.path.join(self.folder, "build", "weft", "latency"))
        result = self.compare("--against", "none", "--compile")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no such header", result.stderr)

    def test_verbs_without_a_device_says_so_and_runs_nothing(self):
        self.library("weft", 1.0)
        script(os.path.join(self.folder, "weft-info"), "echo '  verbs: no RDMA device (why)'")
        result = self.compare("--against", "none", "--verbs")
        self.assertEqual(result.returncode, 1)
        self.assertIn("verbs: no RDMA device (why)", result.stderr)
        self.assertFalse(os.path.exists(self.log))

    def test_missing_library_is_named(self):
        self.library("weft", 1.0)
        result = self.compare("--against", "gone=no-such-cc,no-such-run")
        self.assertEqual(result.returncode, 1)
        self.assertIn("gone: there is no program no-such-cc", result.stderr)

    def test_says_what_got_worse_than_a_baseline(self):
        self.library("weft", 1.0)
        words = ["--against", self.library("slow", 4.0), "--rounds", "3"]
        path = os.path.join(self.folder, "before.json")
        self.assertEqual(self.compare(*words, "--json", path).returncode, 0)
        result = self.compare(*words, "--baseline", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("of 2 points 0 are worse, 0 better, and 2 as they were", result.stdout)
        self.library("weft", 2.0)
        os.unlink(os.path.join(self.folder, "build", "weft", "latency"))
        result = self.compare(*words, "--baseline", path)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("of 2 points 2 are worse, 0 better, and 0 as they were", result.stdout)
        self.assertIn("worse  latency, 2 processes, 8 B: 0.50 (0.50 to 0.50) of the best peer's time, was "
                      "0.25 (0.25 to 0.25)", result.stdout)
        # Without a peer in common there is no ratio.
        result = self.compare("--against", self.library("other", 1.0), "--rounds", "3", "--baseline", path)
        self.assertIn("no point is in both", result.stdout)

    def test_what_is_no_baseline_is_said_before_anything_runs(self):
        self.library("weft", 1.0)
        path = os.path.join(self.folder, "file.json")
        for content, why in ((None, "No such file"), ("[", "not what compare --json writes"), ("[]", "no points"),
                             ("[7]", "not what compare --json writes"), ("{}", "no points"),
                             ('[{"program": "latency", "processes": 2, "bytes": 8, "library": "weft", '
                              '"values": ["x"]}]', "not what compare --json writes"),
                             ('[{"program": "latency", "processes": 2, "bytes": 8, "library": "weft", '
                              '"values": [1], "beside": 2}]', "give --beside 2")):
            if content is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            result = self.compare("--against", "none", "--rounds", "3", "--baseline", path)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(why, result.stderr)
        self.assertEqual(self.compare("--against", "none", "--baseline", path, "--rounds", "2").returncode, 2)
        self.assertFalse(os.path.exists(self.log))

    def test_processes_that_compute_beside_it_end_with_it(self):
        path = os.path.join(self.folder, "points.json")
        self.library("weft", 1.0, launch="ps -eo args | grep -c '[w]hile os.getppid' >%s/spinners" % self.folder)
        result = self.compare("--against", "none", "--rounds", "1", "--beside", "3", "--json", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("beside 3 processes that compute", result.stdout)
        with open(os.path.join(self.folder, "spinners"), encoding="utf-8") as file:
            self.assertEqual(int(file.read()), 3)
        with open(path, encoding="utf-8") as file:
            self.assertEqual({row["beside"] for row in json.load(file)}, {3})
        self.assertEqual(self.compare("--beside", "1", "--hosts", "a,b").returncode, 2)

    def test_processes_that_compute_end_where_compare_is_killed(self):
        code = "import time\nfrom comparing import running\nwith running.spinning(2) as found:\n" \
               " print(*(process.pid for process in found), flush=True)\n time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", code], cwd=OSU, stdout=subprocess.PIPE, text=True) as parent:
            spinners = list(map(int, parent.stdout.readline().split()))
            self.assertEqual(len(spinners), 2)
            parent.kill()
        deadline = time.monotonic() + 20
        while any(map(RunningTest.is_alive, spinners)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(any(map(RunningTest.is_alive, spinners)))

    def test_report_of_what_was_measured(self):
        self.library("weft", 1.0)
        path = os.path.join(self.folder, "points.json")
        page = os.path.join(self.folder, "page.html")
        self.compare("--against", self.library("slow", 4.0), "--rounds", "1", "--json", path)
        result = subprocess.run([sys.executable, os.path.join(OSU, "report"), "--json", path,
                                 "--output", page, "--weft", self.folder, "--note", "a < b"],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("ahead of the best other library at 2, level at 0 and behind at 0.", text)
        self.assertIn("4.00&times;", text)
        self.assertIn("a &lt; b", text)
        self.assertIn("median of 1 round<", text)


class BaselineTest(unittest.TestCase):
    def word(self, name, before, now):
        return baseline.word_of(programs.PROGRAMS[name], before, now)

    def test_beyond_the_rounds_spread_and_five_percent(self):
        self.assertEqual(self.word("latency", [1, 1, 1.1], [1.2, 1.2, 1.3]), "worse")
        self.assertEqual(self.word("latency", [1, 1, 1.25], [1.2, 1.2, 1.3]), "same")
        self.assertEqual(self.word("latency", [1, 1, 1], [1.04, 1.04, 1.04]), "same")
        self.assertEqual(self.word("latency", [1.2, 1.2, 1.3], [1, 1, 1.1]), "better")
        self.assertEqual(self.word("bw", [1, 1, 1.1], [1.2, 1.2, 1.3]), "better")

    def test_the_worst_comes_first_and_few_rounds_say_nothing(self):
        latency, bandwidth = programs.PROGRAMS["latency"], programs.PROGRAMS["bw"]
        before, now = tables.Points(), tables.Points()
        for points, slower in ((before, 1), (now, 2)):
            for _ in range(3):
                points.add(latency, 2, Named("weft"), {8: slower, 16: 1, 32: 1 / slower})
                points.add(latency, 2, Named("a"), {8: 1, 16: 1, 32: 1})
                points.add(bandwidth, 2, Named("weft"), {8: 1 / slower / slower})
                points.add(bandwidth, 2, Named("a"), {8: 1})
            points.add(latency, 4, Named("weft"), {8: slower})
            points.add(latency, 4, Named("a"), {8: 1})
        work = [(latency, 2), (bandwidth, 2), (latency, 4)]
        found, too_few = baseline.changes(now, before, work)
        self.assertEqual(too_few, 1)
        lines = baseline.text(found, too_few, "f").splitlines()
        self.assertEqual(lines[0], "against f: of 4 points 2 are worse, 1 better, and 1 as they were, within the "
                         "rounds' spread or 5 %")
        self.assertIn("1 more have less than 3 rounds", lines[1])
        self.assertEqual([line.split(",")[0].split() for line in lines[2:]],
                         [["worse", "bw"], ["worse", "latency"], ["better", "latency"]])


class VerdictTest(unittest.TestCase):
    """Of latencies: lower is better."""

    def judge(self, weft, **peers):
        points = tables.Points()
        latency = programs.PROGRAMS["latency"]
        for name, values in {"weft": weft, **peers}.items():
            for value in values:
                points.add(latency, 2, Named(name), {8: value})
        return verdict.judge(points, latency, 2, 8, list(peers))

    def test_beside_the_best_peer(self):
        found = self.judge([1, 1.1, 0.9], a=[4, 4, 4], b=[3, 3.2, 2.9])
        self.assertEqual((found.word, found.speedup, found.peer), ("ahead", 3.0, "b"))
        self.assertEqual(self.judge([2, 2.1, 1.9], a=[1, 1, 1.1]).word, "behind")

    def test_level_within_five_percent_or_within_the_spread(self):
        self.assertEqual(self.judge([1, 1, 1], a=[1.04, 1.04, 1.04]).word, "level")
        self.assertEqual(self.judge([1, 1, 1], a=[1.2, 1.2, 0.9]).word, "level")
        self.assertEqual(self.judge([1, 1.3, 0.9], a=[1.2, 1.2, 1.2]).word, "level")
        self.assertEqual(self.judge([1, 1, 1], a=[1.2, 1.2, 1.1]).word, "ahead")

    def test_an_unsteady_point_has_no_ratio(self):
        found = self.judge([1, 1240, 0.9], a=[1.2, 1.3, 1.2])
        self.assertEqual((found.word, found.speedup), ("unsteady", None))
        # Every round is ahead of every round of the other, but by how much is an accident.
        found = self.judge([1, 1, 1], a=[1240, 9, 5])
        self.assertEqual((found.word, found.speedup), ("ahead", None))

    def test_missing(self):
        self.assertIsNone(self.judge([1]))
        self.assertIsNone(self.judge([], a=[1]))

    def test_of_bandwidth_more_is_better(self):
        points = tables.Points()
        bandwidth = programs.PROGRAMS["bw"]
        for name, value in (("weft", 30), ("a", 10), ("b", 20)):
            points.add(bandwidth, 2, Named(name), {8: value})
        found = verdict.judge(points, bandwidth, 2, 8, ["a", "b"])
        self.assertEqual((found.word, found.speedup, found.peer), ("ahead", 1.5, "b"))


class ReportTest(unittest.TestCase):
    """The page of recorded points: 1 B ahead, 8 B level, 64 B behind, 512 B unsteady."""

    VALUES = {1: ([1, 1, 1], [2, 2, 2.2]), 8: ([1, 1, 1.1], [1, 1.1, 1]),
              64: ([3, 3, 3], [2, 2, 2]), 512: ([1, 900, 0.8], [1, 1.1, 1])}

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        points = tables.Points()
        for program, count in (("latency", 2), ("bcast", 4)):
            points.commands[program, count] = "compare --programs %s" % program
            for size, both in cls.VALUES.items():
                for name, values in zip(("weft", "other<1>"), both):
                    for value in values:
                        points.add(programs.PROGRAMS[program], count, Named(name), {size: value})
        for count, value in ((2, 1.0), (4, 2.0)):
            points.add(programs.PROGRAMS["barrier"], count, Named("weft"), {0: value})
        recorded = os.path.join(cls.folder, "points.json")
        points.write_json(recorded, {"latency": "us", "bcast": "us", "barrier": "us"})
        threaded = os.path.join(cls.folder, "threaded.json")
        with open(threaded, "w", encoding="utf-8") as file:
            for what, library, median in (("block_latency", "weft", 1.5), ("rate", "weft", 9.0),
                                          ("block_latency_funnel", "other", 6.25)):
                file.write(json.dumps({"what": what, "library": library, "bytes": 64,
                                       "median": median, "minimum": 1.25, "maximum": median,
                                       "rounds": 7, "unit": "us"}) + "\n")
        cls.output = os.path.join(cls.folder, "out", "index.html")
        result = subprocess.run([sys.executable, os.path.join(OSU, "report"), "--json", recorded,
                                 "--output", cls.output, "--weft", cls.folder, "--transport",
                                 threaded, "--link", "Graphs=graph/index.html"],
                                capture_output=True, text=True, timeout=60, check=False)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        with open(cls.output, encoding="utf-8") as file:
            cls.text = file.read()

    def test_begins_with_three_sentences(self):
        lead = html.unescape(re.search(r'<p class="lead">(.*?)</p>', self.text)[1])
        self.assertIn("3 programs were built with Weft and other<1> and run in turn on this machine, "
                      "3 rounds each.", lead)
        self.assertIn("Of 8 points, each a program with a number of processes and a size, Weft is ahead of "
                      "the best other library at 2, level at 2 and behind at 2; 2 are too unsteady to say.",
                      lead)
        self.assertIn("it is behind in latency with 2 processes at 64 B, bcast with 4 processes at "
                      "64 B.", lead)

    def test_few_steady_points_make_no_mean(self):
        points = tables.Points()
        latency = programs.PROGRAMS["latency"]
        for size, values in {1: [1, 1], 2: [1, 5], 4: [2, 9]}.items():
            for name in ("weft", "a"):
                for value in values:
                    points.add(latency, 2, Named(name), {size: value})
        found = overview.sentences(points, [(latency, [2])], {"weft": "Weft", "a": "A"}, ["a"])
        self.assertEqual(found[2], "Too few points are steady for a mean: the machine was busy.")

    def test_weft_alone(self):
        latency = programs.PROGRAMS["latency"]
        points = tables.Points()
        points.add(latency, 2, Named("weft"), {1: 1.0})
        self.assertIn("Weft was measured alone.",
                      overview.overview(points, [(latency, [2])], {"weft": "Weft"}, []))

    def test_map_has_a_cell_for_each_point(self):
        table = re.search(r'<table class="map">(.*?)</table>', self.text, re.DOTALL)[1]
        rows = re.findall(r"<tr><th>(.*?)</th>(.*?)</tr>", table[table.index("<tbody>"):])
        found = {name: re.findall(r'<td class="(\w+)"', cells) for name, cells in rows}
        words = ["ahead", "level", "behind", "unsteady"]
        self.assertEqual(found, {"Latency, 2": words, "bcast, 4": words, "barrier, 2": [],
                                 "barrier, 4": []})
        self.assertIn("1 B: Weft 1.000 us (1.000 to 1.000), other&lt;1&gt; 2.000 us (2.000 to 2.200); "
                      "2.00 times as fast", table)

    def test_unsteady_points_have_no_ratio(self):
        self.assertNotIn("900.00 times", self.text)
        self.assertNotIn("900.00&times;", self.text)
        self.assertIn('<td class="muted">~ unsteady</td>', self.text)

    def test_figures_say_rounds_spread_and_command(self):
        self.assertIn("microseconds, lower is better; median of 3 rounds", self.text)
        self.assertIn("<code>compare --programs latency</code>", self.text)
        self.assertIn("<td>0.800 to 900.00</td>", self.text)

    def test_a_value_can_be_read_at_each_point(self):
        figure = self.text[self.text.index("<h3>Latency</h3>"):]
        picture = ElementTree.fromstring(figure[figure.index("<svg"):figure.index("</svg>") + 6])
        tips = ["\n".join(line.text for line in tip) for tip in picture.iter("text")
                if tip.get("class") == "tip"]
        self.assertEqual(len(tips), 8)
        self.assertIn("weft: 3.000 us\n3.000 to 3.000, at 64 B", tips)
        self.assertIn("other<1>: 2.000 us\n2.000 to 2.200, at 1 B", tips)

    def test_threads(self):
        self.assertIn("<td>1.500</td><td>6.250</td>", self.text)
        self.assertIn("median of 7 rounds", self.text)

    def test_raw_data_are_beside_it(self):
        self.assertIn('<a href="index.csv">', self.text)
        self.assertIn('<a href="graph/index.html">Graphs</a>', self.text)
        with open(os.path.join(self.folder, "out", "index.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 2 * 8 + 2 + 3)
        row = next(row for row in rows if (row["program"], row["bytes"], row["library"]) ==
                   ("latency", "512", "weft"))
        self.assertEqual((row["values"], row["median"], row["rounds"], row["command"]),
                         ("1 900 0.8", "1", "3", "compare --programs latency"))

    def test_follows_the_theme_and_needs_nothing_else(self):
        self.assertIn("prefers-color-scheme: dark", self.text)
        self.assertIn("var(--series-0)", self.text)
        for outside in ("src=\"http", "href=\"http", "url(", "<script", "@import", "rgb("):
            self.assertNotIn(outside, self.text)
        style, body = self.text.split("</style>", 1)
        self.assertEqual(re.findall(r"#[0-9a-f]{6}", body), [])
        used, defined = (set(re.findall(pattern, text)) for pattern, text in
                         ((r"var\((--[\w-]+)\)", self.text), (r"(--[\w-]+):", style)))
        self.assertEqual(used - defined, set())


class ChartTest(unittest.TestCase):
    def spots(self, *series, **options):
        points = [chart.Series(colour, [chart.Point(x, y, "%g" % y) for x, y in one])
                  for colour, one in enumerate(series)]
        picture = ElementTree.fromstring(chart.lines("a < b", points, **options))
        return [[tuple(map(float, spot.split(","))) for spot in line.get("points").split()]
                for line in picture.iter("polyline")]

    def test_logarithmic_steps_are_equally_long(self):
        (line,) = self.spots([(1, 0.1), (10, 1), (100, 10)], log_x=True, log_y=True)
        self.assertAlmostEqual(line[1][0] - line[0][0], line[2][0] - line[1][0], 0)
        self.assertAlmostEqual(line[1][1] - line[0][1], line[2][1] - line[1][1], 0)
        self.assertGreater(line[0][1], line[2][1])

    def test_all_of_it_is_inside(self):
        for values in ([(1, 0)], [(1, 5), (1, 5)], [(0, 0), (3, 1e9)], [(1, 1e-9), (2, 2e-9)]):
            for line in self.spots(values):
                for x, y in line:
                    self.assertTrue(0 < x < chart.WIDTH and 0 < y < chart.HEIGHT, (values, x, y))
        self.assertEqual(chart.lines("", []), "")

    def test_nothing_below_zero_on_a_logarithmic_axis(self):
        (line,) = self.spots([(1, 0), (2, 5)], log_y=True)
        self.assertEqual(len(line), 1)

    def test_numbers(self):
        self.assertEqual([chart.number(value) for value in (0.01, 20, 3000, 1.5e6, 2e9)],
                         ["0.01", "20", "3k", "1.5M", "2G"])
        self.assertEqual([chart.size(value) for value in (8, 1000, 4096, 1 << 20)],
                         ["8 B", "1000 B", "4 KiB", "1 MiB"])


class PictureTest(unittest.TestCase):
    def test_cut_picture_is_refused(self):
        with tempfile.NamedTemporaryFile(suffix=".pgm") as file:
            file.write(b"P5\n4 4\n255\n1234")
            file.flush()
            with self.assertRaisesRegex(ValueError, "not a binary PGM"):
                pictures.png_of_pgm(file.name)


if __name__ == "__main__":
    unittest.main()
