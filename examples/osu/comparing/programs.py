"""The benchmark programs: source file, arguments, which column counts, and what Weft aims at."""

COLLECTIVES = ("barrier", "bcast", "allreduce", "reduce", "allgather", "alltoall", "gather",
               "scatter", "reduce_scatter")

# Windows: name and what Weft aims at as geometric mean over the sizes.
ONE_SIDED = {"put": 0.8, "get": 0.8, "acc": None, "fop": 0.5, "cas": 0.5, "put_bw": None,
             "get_bw": None, "fence": 0.8, "post": None, "lock": None}
ONE_SIDED_RINGS = ("fence", "post")  # all processes take part


class Program:
    """One benchmark.

    `column` is the place of the measured value in a row of output, counted after the size.
    `whole_column` is that of the time of whole iterations, where a program prints it, `link_column`
    that of the bytes that it counts with -l.
    `goal_point` and `goal_mean` are what Weft aims at: the ratio of its median to the best peer's
    at every size, and as geometric mean over the sizes; with `goal_size` at that size alone.
    """

    def __init__(self, name, source, unit, goal_point, goal_mean, arguments=(), column=0,
                 sizes=(1, 4 << 20), scales=False, threaded=False, whole_column=None,
                 link_column=None, goal_size=None):
        self.name = name
        self.source = source
        self.arguments = list(arguments)
        self.unit = unit
        self.column = column
        self.whole_column = whole_column
        self.link_column = link_column
        self.sizes = sizes
        self.scales = scales
        self.threaded = threaded
        self.goal_point = goal_point
        self.goal_mean = goal_mean
        self.goal_size = goal_size

    @property
    def lower_is_better(self):
        return self.unit == "us"

    def aim(self, point, mean=None, size=None):
        """Other goals than inside a host; with `size` alone there."""
        self.goal_point, self.goal_mean, self.goal_size = point, mean, size

    def processes(self, wanted):
        """The process counts to run with: `wanted` where the program can use more than two."""
        if not self.scales:
            return [2]
        if wanted:
            return wanted
        return [2, 4, 8] if self.name in COLLECTIVES + ("win_fence",) else [2]


def _all():
    programs = [
        Program("latency", "latency.c", "us", 0.85, 0.65),
        Program("latency_vector", "latency.c", "us", 0.6, 0.6, arguments=["-D"],
                sizes=(64 << 10, 4 << 20)),
        Program("bw", "bw.c", "MB/s", 1.1, 1.5),
        Program("bibw", "bibw.c", "MB/s", 1.1, 1.5),
        Program("mbw_mr", "mbw_mr.c", "msg/s", 1.3, None, column=1, sizes=(1, 1 << 16),
                scales=True, goal_size=8),
        Program("multi_lat", "multi_lat.c", "us", None, None, scales=True, sizes=(1, 1 << 16)),
        Program("latency_mt", "latency_mt.c", "us", None, None, threaded=True, sizes=(1, 1 << 16)),
    ]
    for name in COLLECTIVES:
        programs.append(Program(name, "coll.c", "us", 0.9, 0.6, arguments=[name],
                                sizes=(8, 1 << 16), scales=True, whole_column=3,
                                link_column=4))
    for name, goal in ONE_SIDED.items():
        programs.append(Program("win_" + name, "win.c", "MB/s" if name.endswith("_bw") else "us",
                                None, goal, arguments=[name], sizes=(8, 4 << 20),
                                scales=name in ONE_SIDED_RINGS))
    return {program.name: program for program in programs}


PROGRAMS = _all()
GROUPS = {
    "p2p": [name for name in PROGRAMS if name not in COLLECTIVES and not name.startswith("win_")],
    "coll": list(COLLECTIVES),
    "win": [name for name in PROGRAMS if name.startswith("win_")],
    "all": list(PROGRAMS),
}


def select(text):
    """Programs from a list such as "latency,coll"; raises ValueError for an unknown name."""
    chosen = []
    for name in text.split(","):
        if name in GROUPS:
            chosen += GROUPS[name]
        elif name in PROGRAMS:
            chosen.append(name)
        else:
            raise ValueError("there is no program '%s'; there are: %s" %
                             (name, ", ".join(list(GROUPS) + list(PROGRAMS))))
    return [PROGRAMS[name] for name in dict.fromkeys(chosen)]


def parse_output(program, text, whole=False):
    """What the program measured, as {bytes: value}; `whole` asks for the time of whole iterations."""
    return parse_column(text, program.whole_column if whole and program.whole_column
                        else program.column)


def parse_column(text, column):
    """A column of the output as {bytes: value}. Raises ValueError if there is none or data was
    wrong."""
    values = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields or not fields[0].isdigit():
            continue
        if "Fail" in fields:
            raise ValueError("wrong data at %s bytes" % fields[0])
        values[int(fields[0])] = float(fields[1 + column])
    if not values:
        raise ValueError("no results in the output")
    return values
