"""The MPI libraries that are compared: how each is found, and how a program is started with it.

Every library runs with the settings an informed user would choose on the machine at hand, and
with the same placement:

- Not more processes than cores: each process is bound to a core of its own, in all libraries.
- More processes than cores: no binding. Open MPI gets --oversubscribe, as it would refuse otherwise,
  and is set to yield when idle: by itself it does so only where it counts fewer cores than
  processes, not where fewer are allowed. MPICH has no such setting: by strace its ch4 device
  never yields, whatever MPIR_CVAR_POLLS_BEFORE_YIELD says, so it is no measure there.
- Programs with several threads per process: no binding, or the threads would share a core. Open
  MPI is set to yield when idle, because there are more threads than it counts processes.
- Large messages: Open MPI's shared-memory transport copies directly between processes with CMA
  (btl_vader_single_copy_mechanism=cma) and MPICH over UCX does the same by default. Nothing
  switches that off here; `process_copy_allowed` checks whether the machine lets them.
- Between hosts: no binding (the hosts may be network namespaces of one machine), and Open MPI by its
  tcp btl, inside each by shared memory, as MPICH does by itself. With one process on each host it
  also runs over libfabric and over UCX (`ways`), of which each is the fastest at some sizes; with
  several, UCX would share memory between hosts that are namespaces, and libfabric's mtl none
  inside a host. With more processes on a machine than cores Open MPI is set to yield when idle:
  --oversubscribe alone does not, as it takes the number that a host is given for that of its cores.
- Over RDMA devices: Weft by verbs also inside a host, Open MPI by its tcp btl, which is no peer (what
  Weft is measured by is perftest), and with --ucx by UCX's rc, which is.
- Weft runs with its default settings; its launcher places processes in the same way by itself.
"""

import copy
import ctypes
import glob
import json
import os
import re
import shutil
import subprocess

from comparing import pair

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.dirname(os.path.abspath(__file__)))))
KNOWN_PEERS = {
    "openmpi": ("mpicc.openmpi", "mpirun.openmpi", "Debian package openmpi-bin libopenmpi-dev"),
    "mpich": ("mpicc.mpich", "mpirun.mpich", "Debian package mpich libmpich-dev"),
}


BETWEEN_HOSTS = ("weft", "openmpi", "mpich")  # kinds
OVER_VERBS = ("weft", "openmpi")
TCP_OF_OPENMPI = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
# The same by other libraries; "any" because pml ucx else declines what it knows no device of.
UCX_OF_OPENMPI = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca",
                  "pml_ucx_devices", "any"]
WAYS_BETWEEN_HOSTS = {
    "ofi": ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include",
            "net", "-x", "FI_PROVIDER=net"],
    "ucx": UCX_OF_OPENMPI + ["-x", "UCX_TLS=tcp,self"],
}
WAYS_OVER_VERBS = {"ucx": UCX_OF_OPENMPI + ["-x", "UCX_TLS=rc,self"]}
TCP_AND_SHM_OF_OPENMPI = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self"]


class Missing(Exception):
    """A library that was asked for is not on this machine."""


class Library:
    """One MPI library: a compiler wrapper and a launcher."""

    def __init__(self, name, compiler, launcher):
        self.name = name
        self.compiler = _executable(compiler, name)
        self.launcher = _executable(launcher, name)
        self.kind, self.version = _identify(self.launcher)
        self.way = None  # options of Open MPI's launcher for another transport than the tcp btl

    def ways(self, hosts, over_verbs):
        """The library, and again for each other transport that it has there: what Weft is compared
        with is the best of them at each size."""
        others = {}
        if self.kind == "openmpi" and over_verbs:
            others = WAYS_OVER_VERBS
        elif self.kind == "openmpi" and hosts and max(hosts.values()) == 1:
            others = WAYS_BETWEEN_HOSTS
        found = [self]
        for name, way in others.items():
            other = copy.copy(self)
            other.name, other.way = self.name + "-" + name, way
            found.append(other)
        return found

    def command(self, program, num_processes, threaded=False, hosts=None, over_verbs=False):
        """The command line that runs `program` (a list) with `num_processes` processes. `hosts`:
        how many of them each host gets, by name, in order."""
        if hosts:
            return [self.launcher] + self._between(hosts) + ["-n", str(num_processes)] + program
        way = self.way or (TCP_OF_OPENMPI if over_verbs and self.kind == "openmpi" else [])
        bind = num_processes <= num_cores() and not threaded
        if self.kind == "openmpi":
            placement = ["--bind-to", "core" if bind else "none"]
            if num_processes > num_cores():
                placement.append("--oversubscribe")
            if num_processes > num_cores() or threaded:
                placement += ["--mca", "mpi_yield_when_idle", "1"]
        elif self.kind == "mpich":
            placement = ["-bind-to", "core"] if bind else []
        elif self.kind == "weft":
            placement = ["--bind", "none"] if threaded else []
        else:
            placement = []
        return [self.launcher] + way + placement + ["-n", str(num_processes)] + program

    def _between(self, hosts):
        names = ",".join("%s:%d" % item for item in hosts.items())
        if self.kind == "weft":
            return ["--bind", "none", "--hosts", names]
        agent = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_host")
        if self.kind == "mpich":
            # The name of this side may mean nothing over there.
            return ["-launcher", "rsh", "-launcher-exec", agent, "-localhost",
                    pair.address_towards(next(iter(hosts))), "-hosts", names]
        most = max(hosts.values())
        is_one_machine = "/netns/on " in os.environ.get("WEFT_LAUNCH", "")
        is_crowded = (sum(hosts.values()) if is_one_machine else most) > num_cores()
        return ["--mca", "plm_rsh_agent", agent,
                *(self.way or (TCP_OF_OPENMPI if most == 1 else TCP_AND_SHM_OF_OPENMPI)),
                "--bind-to", "none",
                *(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if is_crowded else []),
                "-H", names]

    def environment(self, over_verbs=False):
        environment = dict(os.environ)
        if self.kind == "weft" and over_verbs:
            environment["WEFT_FABRIC"] = "verbs"
        if self.kind == "openmpi" and os.geteuid() == 0:
            environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        return environment


def num_cores():
    return len(os.sched_getaffinity(0))


def find_weft(folder=None):
    """Weft's wrappers from `folder` (its bin), else from $WEFT, PATH or this checkout's builds."""
    if folder is None:
        folder = os.environ.get("WEFT")
    if folder is None and shutil.which("weftrun"):
        folder = os.path.dirname(os.path.realpath(shutil.which("weftrun")))
    if folder is None:
        built = [path for build in glob.glob(os.path.join(CHECKOUT, "build*")) if is_for_use(build)
                 for path in glob.glob(os.path.join(build, "**", "bin", "weftrun"), recursive=True)]
        if not built:
            raise Missing("Weft is not installed: give its bin folder with --weft, or build it with"
                          " meson setup build --prefix=P && meson install -C build")
        folder = os.path.dirname(max(built, key=os.path.getmtime))
    return Library("weft", os.path.join(folder, "weftcc"), os.path.join(folder, "weftrun"))


def is_for_use(build):
    """Whether a build folder is none of those with a sanitizer, which are slow and run only tests."""
    try:
        with open(os.path.join(build, "meson-info", "intro-buildoptions.json"),
                  encoding="utf-8") as file:
            return all(option["value"] == "none" for option in json.load(file)
                       if option["name"] == "b_sanitize")
    except (OSError, ValueError):
        return True  # not a build of Meson's


def find_peer(text):
    """A library from --against: a known name, or NAME=COMPILER,LAUNCHER."""
    match = re.fullmatch(r"([\w.+-]+)=([^,]+),([^,]+)", text)
    if match:
        return Library(*match.groups())
    if text not in KNOWN_PEERS:
        raise Missing("'%s' is neither one of %s nor of the form NAME=COMPILER,LAUNCHER" %
                      (text, ", ".join(KNOWN_PEERS)))
    compiler, launcher, package = KNOWN_PEERS[text]
    try:
        return Library(text, compiler, launcher)
    except Missing:
        raise Missing("%s is not installed (%s)" % (text, package)) from None


def process_copy_allowed():
    """Whether one process may read another's memory (CMA), as large messages want to."""
    class Span(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    source, target = ctypes.create_string_buffer(b"weft", 8), ctypes.create_string_buffer(8)
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        local = Span(ctypes.addressof(target), 8)
        remote = Span(ctypes.addressof(source), 8)
        # A child reads its parent here: the direction that Yama's ptrace_scope 1 refuses.
        count = libc.process_vm_readv(os.getppid(), ctypes.byref(local), 1, ctypes.byref(remote),
                                      1, 0)
        os._exit(0 if count == 8 else 1)
    return os.waitpid(child, 0)[1] == 0


def _executable(name, library):
    path = shutil.which(name)
    if path is None:
        raise Missing("%s: there is no program %s" % (library, name))
    return path


def _identify(launcher):
    text = _output([launcher, "--version"])
    version = re.search(r"\d+\.\d+(\.\d+)*\S*", text)
    number = version.group(0) if version else ""
    if "Weft" in text:
        return "weft", "Weft " + number
    if "Open MPI" in text or "OpenRTE" in text:
        return "openmpi", "Open MPI " + number
    if "HYDRA" in text:
        return "mpich", "MPICH " + number
    return "other", os.path.basename(launcher) + " " + number


def _output(command):
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode(errors="replace")
