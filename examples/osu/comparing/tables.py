"""Measured points, and their tables: sizes down, libraries across, the ratio last."""

import json
import math
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools"))
from weft_page.chart import size as size_text  # noqa: E402


class Points:
    """What was measured: for each program, process count, size and library one value a round."""

    def __init__(self, best=False, too_short="", beside=0):
        self._samples = {}
        self._best = best
        self.beside = beside  # processes that spin meanwhile
        self.commands = {}  # by program and process count: what measures it again
        self.too_short = too_short  # for words about goals: how long was measured; empty: long enough

    def add(self, program, num_processes, library, values):
        for size, value in values.items():
            key = (program.name, num_processes, size, library.name)
            self._samples.setdefault(key, []).append(value)

    def sizes(self, program, num_processes):
        return sorted({key[2] for key in self._samples
                       if key[:2] == (program.name, num_processes)})

    def all_samples(self):
        return self._samples.values()

    def libraries(self, program, num_processes, size):
        return [key[3] for key in self._samples if key[:3] == (program.name, num_processes, size)]

    def samples(self, program, num_processes, size, library):
        return self._samples.get((program.name, num_processes, size, library), [])

    def value(self, program, num_processes, size, library):
        """The median of the rounds, or the best of them where that was asked for."""
        samples = self.samples(program, num_processes, size, library)
        if not samples:
            return None
        if self._best:
            return min(samples) if program.lower_is_better else max(samples)
        return statistics.median(samples)

    @property
    def statistic(self):
        return "best" if self._best else "median"

    def ratio(self, program, num_processes, size, peers, library="weft"):
        """Weft's value divided by the best peer's; None if either is missing."""
        ours = self.value(program, num_processes, size, library)
        theirs = [self.value(program, num_processes, size, peer) for peer in peers]
        theirs = [value for value in theirs if value]
        if not ours or not theirs:
            return None
        return ours / (min(theirs) if program.lower_is_better else max(theirs))

    def write_json(self, path, units, moved=None):
        """`moved`: Points of the bytes on the busiest link."""
        rows = []
        for (program, processes, size, library), samples in self._samples.items():
            rows.append({"program": program, "processes": processes, "bytes": size,
                         "library": library, "median": round(statistics.median(samples), 4),
                         "minimum": min(samples), "maximum": max(samples),
                         "rounds": len(samples), "unit": units[program], "values": samples,
                         "command": self.commands.get((program, processes), "")})
            if self.too_short:
                rows[-1]["too_short"] = self.too_short
            if self.beside:
                rows[-1]["beside"] = self.beside
            on_link = moved._samples.get((program, processes, size, library)) if moved else None
            if on_link:
                rows[-1]["link_bytes"] = round(statistics.median(on_link))
        with open(path, "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def too_short(rounds, time_ms):
    """What to say where fewer than 3 rounds, or less than 40 ms in all, were measured a size."""
    if rounds >= 3 and rounds * time_ms >= 40:
        return ""
    return "%d round%s of %d ms" % (rounds, "" if rounds == 1 else "s", time_ms)


def read_json(paths):
    """What write_json wrote, as Points, and as the rows themselves."""
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += json.load(file)
    points = Points(too_short=next((row["too_short"] for row in rows if "too_short" in row), ""))
    for row in rows:
        key = (row["program"], row["processes"], row["bytes"], row["library"])
        points._samples[key] = row.get("values") or [row["minimum"], row["median"], row["maximum"]]
        points.commands[row["program"], row["processes"]] = row.get("command", "")
    return points, rows


def value_text(value):
    if value is None:
        return "-"
    if value >= 1e5:
        return "%.0f" % value
    return "%.2f" % value if value >= 100 else "%.3f" % value


def table(points, program, num_processes, libraries, beside=(), reference=None):
    """The table of one program as text. `libraries` are names, Weft's among them or not; `beside`
    are others, shown on their own, each with its ratio to the best peer. With a `reference`, a name
    of `beside`, ratios are to that one."""
    peers = [reference] if reference else [name for name in libraries if name != "weft"]
    with_ratio = "weft" in libraries and bool(peers)
    sizes = points.sizes(program, num_processes)
    better = "lower" if program.lower_is_better else "higher"
    lines = ["%s, %d processes, %s (%s is better), %s of %d" %
             (program.name, num_processes, program.unit, better, points.statistic,
              max((len(points.samples(program, num_processes, size, name))
                   for size in sizes for name in libraries), default=0))]
    header = "%10s" % "size" + "".join("%14s" % name for name in libraries)
    if with_ratio:
        header += " %15s" % ("weft/" + (reference or "best peer"))
    lines.append(header + "".join("%24s" % name for name in beside))
    for size in sizes:
        line = "%10s" % size_text(size)
        for name in libraries:
            line += "%14s" % value_text(points.value(program, num_processes, size, name))
        if with_ratio:
            ratio = points.ratio(program, num_processes, size, peers)
            line += "%16s" % ("-" if ratio is None else "%.2f" % ratio)
            if ratio is not None and _is_slower(program, ratio):
                line += "  slower"
        for name in beside:
            ratio = points.ratio(program, num_processes, size, peers, name)
            line = line.ljust(26 + 14 * len(libraries)) + "%16s%8s" % (
                value_text(points.value(program, num_processes, size, name)),
                "-" if ratio is None else "%.2f" % ratio)
        lines.append(line)
    if with_ratio:
        lines.append(summary(points, program, [num_processes], peers))
    for name in beside:
        if name != reference:
            lines.append(name + ":" + summary(points, program, [num_processes], peers, name))
    return "\n".join(lines)


def summary(points, program, processes, peers, library="weft"):
    """One line: geometric mean, worst point, and how that stands to the goal."""
    ratios = []
    for num_processes in processes:
        for size in points.sizes(program, num_processes):
            ratio = points.ratio(program, num_processes, size, peers, library)
            if ratio is not None:
                ratios.append((ratio, num_processes, size))
    if not ratios:
        return "  no ratio: no size was measured for both Weft and a peer"
    mean = geometric_mean([ratio for ratio, _, _ in ratios])
    worst = max(ratios) if program.lower_is_better else min(ratios)
    text = "  geometric mean %.2f, worst %.2f at %s" % (mean, worst[0], size_text(worst[2]))
    if len(processes) > 1:
        text += " with %d processes" % worst[1]
    if program.goal_point is None:
        return text
    if points.too_short:
        return text + "; no word about goals after " + points.too_short
    sign = "<=" if program.lower_is_better else ">="
    if program.goal_size is not None:
        there = [ratio for ratio, _, size in ratios if size == program.goal_size]
        if not there:
            return text
        missed = not all(_reaches(program, ratio, program.goal_point) for ratio in there)
        return text + "; goal: %s %g at %s %s" % (sign, program.goal_point,
                                                  size_text(program.goal_size),
                                                  "missed" if missed else "met")
    missed = sum(not _reaches(program, ratio, program.goal_point) for ratio, _, _ in ratios)
    met = _reaches(program, mean, program.goal_mean)
    return text + "; goal: mean %s %g %s, each %s %g %s" % (
        sign, program.goal_mean, "met" if met else "missed", sign, program.goal_point,
        "missed at %d of %d" % (missed, len(ratios)) if missed else "met")


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _reaches(program, ratio, goal):
    return ratio <= goal if program.lower_is_better else ratio >= goal


def _is_slower(program, ratio):
    return ratio > 1 if program.lower_is_better else ratio < 1
