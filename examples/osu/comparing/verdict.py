"""Whether Weft is ahead of the best other library at a point, and by how much; or that it cannot be said."""

from typing import NamedTuple

MOST_SPREAD = 2  # most / least of the rounds of a point, beyond which its median is an accident
LEVEL = 0.05  # medians that differ by less are level


class Verdict(NamedTuple):
    word: str  # ahead, level, behind, or unsteady: the rounds do not say
    speedup: float | None  # how many times as fast as the best peer; None where a point is unsteady
    peer: str


def is_steady(samples):
    return bool(samples) and max(samples) <= MOST_SPREAD * min(samples)


def judge(points, program, num_processes, size, peers):
    """None where Weft or every peer is missing."""
    ours = points.samples(program, num_processes, size, "weft")
    values = {peer: points.value(program, num_processes, size, peer) for peer in peers}
    values = {peer: value for peer, value in values.items() if value}
    mine = points.value(program, num_processes, size, "weft")
    if not mine or not values:
        return None
    best = (min if program.lower_is_better else max)(values, key=values.get)
    theirs = points.samples(program, num_processes, size, best)
    speedup = values[best] / mine if program.lower_is_better else mine / values[best]
    word = "ahead" if speedup > 1 else "behind"
    if is_steady(ours) and is_steady(theirs):
        # Level also where the median of one is within what the other had.
        inside = min(theirs) <= mine <= max(theirs) or min(ours) <= values[best] <= max(ours)
        level = abs(speedup - 1) <= LEVEL or inside
        return Verdict("level" if level else word, speedup, best)
    if min(ours) <= max(theirs) and min(theirs) <= max(ours):
        return Verdict("unsteady", None, best)
    return Verdict(word, None, best)  # every round of one is better than every round of the other
