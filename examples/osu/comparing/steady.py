"""Repeats what the machine's own host disturbs. Hosts of virtual machines move the cores apart, and
let others compute on the second threads of the cores, and every library slows down."""

import os
import time

from comparing import running

NEAR_NS = 80  # a line between cores that share a last-level cache takes 20 to 70
TRIES = 60
DISTURBED = 0.3  # the most of a run's looks
LOOKED_AT = 4  # runs, of which the least disturbed counts


class Distance:
    """Repeats runs during which a line between two cores took longer than it does at its best.

    most: how many runs in all are repeated or put off, before the rest is taken as it comes; 0: as
    many as it takes.
    """

    def __init__(self, folder, most=0):
        self.most = most
        source = os.path.join(running.SOURCES, "line.c")
        self.binary = os.path.join(folder, "line")
        if (not os.path.exists(self.binary) or
                os.path.getmtime(self.binary) < os.path.getmtime(source)):
            os.makedirs(folder, exist_ok=True)
            running.run(["cc", "-O2", "-pthread", source, "-o", self.binary], None, 60,
                        "building line.c")
        self.repeated = 0

    def line_ns(self):
        """The way of a line from core to core, in ns."""
        return float(running.run([self.binary], None, 30, "line"))

    def is_tired(self):
        """Whether runs are taken as they come from now on."""
        return self.most > 0 and self.repeated >= self.most

    def run(self, run):
        """What `run` returns from the first call before and after which the cores were near."""
        for _ in range(TRIES):
            if self.is_tired():
                return run()
            if self.line_ns() < NEAR_NS:
                result = run()
                if self.line_ns() < NEAR_NS:
                    return result
            else:
                time.sleep(1)  # it lasts
            self.repeated += 1
        raise running.Failed("a line between two cores took %d ns and more before or after each "
                             "of %d runs" % (NEAR_NS, TRIES))

    def summary(self):
        return ("%d runs were repeated or put off because the cores were apart%s" %
                (self.repeated, ", the rest was taken as it came" if self.is_tired() else ""))


class Looks:
    """Repeats runs by what `watch` counts into a file meanwhile, outside of the virtual machine that
    this may run in."""

    def __init__(self, file):
        self.file = file
        self.repeated = 0
        self.looks()

    def looks(self):
        """So far, and those that saw the cores disturbed."""
        with open(self.file, encoding="utf-8") as file:
            words = file.read().split()
        return (int(words[0]), int(words[1])) if len(words) == 2 else (0, 0)

    def run(self, run):
        """What `run` returns from the least disturbed of a few calls."""
        best = None
        for attempt in range(LOOKED_AT):
            self.repeated += attempt > 0
            before = self.looks()
            result = run()
            looks, disturbed = (now - then for now, then in zip(self.looks(), before))
            share = disturbed / max(looks, 1)
            if best is None or share < best[0]:
                best = (share, result)
            if share <= DISTURBED:
                break
        return best[1]

    def summary(self):
        return "%d runs were repeated because the host disturbed them" % self.repeated


class AsItComes:
    """Repeats nothing."""

    @staticmethod
    def run(run):
        return run()

    @staticmethod
    def summary():
        return ""
