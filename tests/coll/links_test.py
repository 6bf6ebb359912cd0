"""What collectives over hosts move over the hosts' links, by the interfaces' own counters.

Within tests/netns/run --hosts 3: two processes on each host run examples/osu/coll with -l, and the
busiest direction of a link must carry at most 1.1 times what no algorithm can do without.

  links_test.py WEFTRUN COLL
"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(CHECKOUT, "examples", "osu"))
from comparing import links, programs  # noqa: E402

HOSTS = {"h1": 2, "h2": 2, "h3": 2}
SIZES = (links.FROM, 4 * links.FROM)
# What the kernel sends twice, as nobody read for long, counts as well.
TRIES = 3


def busiest(weftrun, coll, name):
    """Bytes of the busiest link in an iteration, by size."""
    command = [weftrun, "--bind", "none", "--hosts",
               ",".join("%s:%d" % item for item in HOSTS.items()), "-n", str(sum(HOSTS.values())),
               coll, name, "-m", "%d:%d" % SIZES, "-i", "20", "-l", "eth0"]
    run = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True)
    return programs.parse_column(run.stdout.decode(), programs.PROGRAMS[name].link_column)


def main():
    weftrun, coll = sys.argv[1:]
    failed = False
    for name in programs.COLLECTIVES:
        if name == "barrier":
            continue
        for attempt in range(TRIES):
            moved = busiest(weftrun, coll, name)
            ratios = {size: moved[size] / links.least_bytes(name, size, list(HOSTS.values()))
                      for size in moved}
            if max(ratios.values()) <= links.GOAL:
                break
            print("%s, try %d: %s" % (name, attempt + 1, ratios))
        else:
            failed = True
        print(name, {size: round(ratio, 3) for size, ratio in ratios.items()}, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
