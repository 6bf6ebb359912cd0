"""Tests of examples/osu/compare and report: order of runs, statistics, limits, output.

The libraries measured here are two scripts: a "compiler" that writes a program printing a canned
table, and a "launcher" that notes that it ran. What compare does with them is checked against
numbers computed by hand.
"""

import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

sys.dont_write_bytecode = True
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OSU = os.path.join(CHECKOUT, "examples", "osu")
sys.path.insert(0, OSU)
from comparing import drawing, pictures, programs, running, tables  # noqa: E402


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

    def test_goal_at_one_size(self):
        rate = programs.PROGRAMS["mbw_mr"]
        points = tables.Points()
        points.add(rate, 2, Named("weft"), {8: 2.7e7, 16: 1.0e7})
        points.add(rate, 2, Named("a"), {8: 2.0e7, 16: 2.0e7})
        self.assertIn("goal: >= 1.3 at 8 B met", tables.summary(points, rate, [2], ["a"]))
        points.add(rate, 2, Named("b"), {8: 2.2e7})
        self.assertIn("goal: >= 1.3 at 8 B missed", tables.summary(points, rate, [2], ["a", "b"]))

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
                       "median": 8.0, "minimum": 8.0, "maximum": 8.0, "rounds": 2, "unit": "us"},
                      points)

    def test_failing_library_is_named_and_the_others_go_on(self):
        self.library("weft", 1.0)
        broken = self.library("broken", 1.0, launch="echo it broke >&2; exit 7")
        result = self.compare("--against", broken, "--rounds", "3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("latency with 2 processes over broken ended with status 7", result.stdout)
        self.assertIn("it broke", result.stdout)
        self.assertEqual(self.runs(), ["weft", "broken", "weft", "weft"])

    def test_missing_library_is_named(self):
        self.library("weft", 1.0)
        result = self.compare("--against", "gone=no-such-cc,no-such-run")
        self.assertEqual(result.returncode, 1)
        self.assertIn("gone: there is no program no-such-cc", result.stderr)

    def test_report_is_one_file_that_follows_the_theme(self):
        self.library("weft", 1.0)
        path = os.path.join(self.folder, "points.json")
        page = os.path.join(self.folder, "page.html")
        self.compare("--against", self.library("slow", 4.0), "--rounds", "1", "--json", path)
        threaded = os.path.join(self.folder, "threaded.json")
        with open(threaded, "w", encoding="utf-8") as file:
            for what, library, median in (("block_latency", "weft", 1.5), ("rate", "weft", 9.0),
                                          ("block_latency_funnel", "slow", 6.25)):
                file.write(json.dumps({"what": what, "library": library, "bytes": 64,
                                       "median": median}) + "\n")
        result = subprocess.run([sys.executable, os.path.join(OSU, "report"), "--json", path,
                                 "--output", page, "--weft", self.folder, "--note", "a < b",
                                 "--transport", threaded],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("4.00&times;", text)
        self.assertIn("a &lt; b", text)
        self.assertIn("<td>1.500</td><td>6.250</td>", text)
        self.assertIn("prefers-color-scheme: dark", text)
        for outside in ("src=\"http", "href=\"http", "url(", "<script", "@import"):
            self.assertNotIn(outside, text)
        if not drawing.available():
            self.skipTest("gnuplot is not installed: the curves were not checked")
        self.assertIn("var(--series-0)", text)
        self.assertNotIn("rgb(", text)


class PictureTest(unittest.TestCase):
    def test_cut_picture_is_refused(self):
        with tempfile.NamedTemporaryFile(suffix=".pgm") as file:
            file.write(b"P5\n4 4\n255\n1234")
            file.flush()
            with self.assertRaisesRegex(ValueError, "not a binary PGM"):
                pictures.png_of_pgm(file.name)


if __name__ == "__main__":
    unittest.main()
