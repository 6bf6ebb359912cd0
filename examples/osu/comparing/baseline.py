"""What got worse or better than in an earlier run, beyond what its rounds and the new ones differ by.

Times of two runs are not to be compared with each other, but ratios are: the libraries of a run take turns, so
that what changes on the machine meets all of them.
"""

import statistics
from typing import NamedTuple

from . import tables, verdict

LEAST_ROUNDS = 3  # of fewer the spread says nothing


class Change(NamedTuple):
    program: object
    num_processes: int
    size: int
    word: str  # worse, better, or same
    before: list  # ratios of the rounds
    now: list


class Unusable(Exception):
    """The text says why the file is no baseline."""


def read(path):
    """Points, and beside how many processes they were measured."""
    try:
        points, rows = tables.read_json([path])
        if not all(value > 0 for samples in points.all_samples() for value in samples):
            raise ValueError("a value is not above 0")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable("%s: not what compare --json writes: %s" % (path, error)) from None
    beside = {row.get("beside", 0) for row in rows}
    if len(beside) != 1:
        raise Unusable("%s: %s" % (path, "no points" if not rows else
                                   "points measured beside different numbers of processes"))
    return points, beside.pop()


def ratios(points, program, num_processes, size, peers):
    """Of each round: Weft's value divided by that of the peer whose median is best."""
    values = {peer: points.value(program, num_processes, size, peer) for peer in peers}
    if not all(values.values()):
        return []
    best = (min if program.lower_is_better else max)(values, key=values.get)
    pairs = zip(points.samples(program, num_processes, size, "weft"),
                points.samples(program, num_processes, size, best))
    return [ours / theirs for ours, theirs in pairs if theirs]


def word_of(program, before, now):
    """worse or better where all rounds of one are on one side of all of the other, and medians differ."""
    change = statistics.median(now) / statistics.median(before)
    if abs(change - 1) <= verdict.LEVEL or (min(now) <= max(before) and min(before) <= max(now)):
        return "same"
    return "worse" if (change > 1) == program.lower_is_better else "better"


def changes(points, earlier, work):
    """Of all points that both have, with the same peers. Returns them, and how many have too few rounds."""
    found, too_few = [], 0
    for program, num_processes in work:
        for size in points.sizes(program, num_processes):
            names = [set(one.libraries(program, num_processes, size)) for one in (points, earlier)]
            peers = sorted(names[0] & names[1] - {"weft"})
            if not peers or not all("weft" in both for both in names):
                continue
            before, now = (ratios(one, program, num_processes, size, peers) for one in (earlier, points))
            if min(len(before), len(now)) < LEAST_ROUNDS:
                too_few += 1
                continue
            found.append(Change(program, num_processes, size, word_of(program, before, now), before, now))
    return found, too_few


def text(found, too_few, name):
    """Lines about all changes, the worst first."""
    if not found and not too_few:
        return "against %s: no point is in both, with Weft and one of the same peers" % name
    number = {word: sum(one.word == word for one in found) for word in ("worse", "better", "same")}
    lines = ["against %s: of %d points %d are worse, %d better, and %d as they were, within the rounds' spread "
             "or %d %%" % (name, len(found), number["worse"], number["better"], number["same"],
                           round(100 * verdict.LEVEL))]
    if too_few:
        lines.append("  %d more have less than %d rounds, then or now" % (too_few, LEAST_ROUNDS))

    def factor(one):
        change = statistics.median(one.now) / statistics.median(one.before)
        return change if one.program.lower_is_better else 1 / change
    for one in sorted(found, key=factor, reverse=True):
        if one.word == "same":
            continue
        before, now = ("%.2f (%.2f to %.2f)" % (statistics.median(side), min(side), max(side))
                       for side in (one.before, one.now))
        lines.append("  %-7s%s, %d processes%s: %s of the best peer's %s, was %s" %
                     (one.word, one.program.name, one.num_processes,
                      ", " + tables.size_text(one.size) if one.size else "", now,
                      "time" if one.program.lower_is_better else "rate", before))
    return "\n".join(lines)
