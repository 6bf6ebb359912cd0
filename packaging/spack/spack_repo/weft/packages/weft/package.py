"""Spack's recipe of Weft, from the clone that it lies in."""
import os

from spack.package import *
from spack_repo.builtin.build_systems.meson import MesonPackage

CLONE = os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))


class Weft(MesonPackage):
    """RDMA communication runtime: MPI on the standard's ABI, a threaded transport, peers that come
    and go, a graph engine, an object store and reliable multicast."""

    git = "file://" + CLONE

    license("Apache-2.0")

    version("main", branch="main")

    provides("mpi@:5.0")

    variant("fortran", default=True, description="MPI for Fortran: mpif.h, mpi, mpi_f08")
    variant("ofi", default=True, description="The fabric between hosts by libfabric")
    variant("verbs", default=True, description="RDMA devices by libibverbs")
    variant("pmix", default=True, description="Starting under launchers with PMIx")
    variant("ibmad", default=True, description="weft-mcroute writes into InfiniBand fabrics")
    variant("uring", default=True, description="Nonblocking reads of files by io_uring")
    variant("zstd", default=True, description="Graphs compressed by zstd")
    variant("lzma", default=True, description="Graphs compressed by xz")
    variant("redis", default=False, description="The object store's directory in Redis")
    variant("vertices", default="32", values=("32", "64"), multi=False,
            description="Bits of a vertex id in the graph engine")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3:", type=("build", "run"))

    depends_on("cli11")
    depends_on("elfutils")
    depends_on("fmt")
    depends_on("hwloc@2:")
    depends_on("libsodium")
    depends_on("nlohmann-json")
    depends_on("tbb")
    depends_on("zlib-api")
    depends_on("libfabric", when="+ofi")
    depends_on("rdma-core", when="+verbs")
    depends_on("rdma-core", when="+ibmad")
    depends_on("pmix@4:", when="+pmix")
    depends_on("liburing", when="+uring")
    depends_on("zstd", when="+zstd")
    depends_on("xz", when="+lzma")
    depends_on("hiredis", when="+redis")

    conflicts("%gcc@:11", msg="Weft is written in C++20, as g++ 12 has it")
    conflicts("platform=darwin", msg="Weft needs Linux: memfd, pidfd, membarrier")
    conflicts("platform=windows", msg="Weft needs Linux: memfd, pidfd, membarrier")

    def meson_args(self):
        def feature(name):
            return "-D%s=%s" % (name, "enabled" if "+" + name in self.spec else "disabled")

        args = [feature(name) for name in ("fortran", "ofi", "verbs", "pmix", "ibmad", "uring",
                                      "zstd", "lzma")]
        args.append("-Dtests=disabled")
        args.append("-Dgraph_vertex_bits=" + self.spec.variants["vertices"].value)
        return args

    # Names that build systems look for; they lie where they hide no other MPI.
    @property
    def wrappers(self):
        return os.path.join(self.prefix, "libexec", "weft", "bin")

    def setup_run_environment(self, env):
        env.prepend_path("PATH", self.wrappers)
        env.set("MPI_HOME", self.prefix)

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.setup_run_environment(env)

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = os.path.join(self.wrappers, "mpicc")
        self.spec.mpicxx = os.path.join(self.wrappers, "mpicxx")
        if "+fortran" in self.spec:
            self.spec.mpifc = os.path.join(self.wrappers, "mpifort")
            self.spec.mpif77 = os.path.join(self.wrappers, "mpif77")
