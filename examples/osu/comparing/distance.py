"""How far apart the cores are: hosts of virtual machines move them, and every library slows down."""

import os
import time

from comparing import running

NEAR_NS = 80  # a line between cores that share a last-level cache takes 20 to 70
TRIES = 60


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

    def run_near(self, run):
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
