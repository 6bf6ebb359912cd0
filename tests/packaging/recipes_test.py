#!/usr/bin/env python3
"""The recipes of packaging/ and the files beside them say what meson.build and the headers say:
version, options, dependencies, versions of protocols.  recipes_test.py SOURCE"""
import os
import re
import shutil
import subprocess
import sys
import types

ROOT = sys.argv[1]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


BUILD = read("meson.build")
VERSION = re.search(r"version: '([^']+)'", BUILD).group(1)
OPTIONS = dict(re.findall(r"option\('(\w+)', type: '(\w+)'", read("meson_options.txt")))
FOUND = set()
for folder in ("", "graph"):
    FOUND |= set(re.findall(r"= dependency\('([^']+)'", read(folder, "meson.build")))
FOUND -= {"threads", "dl", "catch2"}  # the C library's; the tests'
SPACK_NAMES = {"CLI11": "cli11", "libdw": "elfutils", "nlohmann_json": "nlohmann-json", "zlib": "zlib-api",
               "libzstd": "zstd", "liblzma": "xz",
               "libibverbs": "rdma-core", "librdmacm": "rdma-core", "libibmad": "rdma-core",
               "libibumad": "rdma-core"}


class Spack:
    """The directives that the recipe uses, as they are called."""

    def __init__(self):
        self.calls = {}
        self.module = types.ModuleType("spack.package")
        for name in ("license", "version", "provides", "variant", "depends_on", "conflicts"):
            setattr(self.module, name, self.directive(name))

    def directive(self, name):
        return lambda *words, **more: self.calls.setdefault(name, []).append((words, more))

    def load(self):
        class MesonPackage:
            pass

        meson = types.ModuleType("spack_repo.builtin.build_systems.meson")
        meson.MesonPackage = MesonPackage
        names = {"spack.package": self.module, meson.__name__: meson}
        for name in list(names):
            while "." in name:
                name = name.rpartition(".")[0]
                names.setdefault(name, types.ModuleType(name))
        sys.modules.update(names)
        path = os.path.join(ROOT, "packaging/spack/spack_repo/weft/packages/weft/package.py")
        space = {"__file__": path, "__name__": "package"}
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), space)  # pylint: disable=exec-used
        assert issubclass(space["Weft"], MesonPackage)
        return space


def check_spack():
    spack = Spack()
    space = spack.load()
    assert os.path.realpath(ROOT) == space["CLONE"], space["CLONE"]
    needs = {words[0].split("@")[0] for words, _ in spack.calls["depends_on"]}
    for name in FOUND:
        assert SPACK_NAMES.get(name, name) in needs, "Spack's recipe lacks " + name
    variants = {words[0]: more for words, more in spack.calls["variant"]}
    for _, more in spack.calls["depends_on"]:
        when = more.get("when", "")
        assert not when or when[1:] in variants, when

    class Spec(set):
        variants = {"vertices": types.SimpleNamespace(value="64")}

    package = space["Weft"]()
    package.spec = Spec({"+fortran", "+ofi"})
    arguments = package.meson_args()
    assert "-Dfortran=enabled" in arguments and "-Dverbs=disabled" in arguments, arguments
    assert "-Dgraph_vertex_bits=64" in arguments, arguments
    for argument in arguments:
        name = argument[2:].split("=")[0]
        assert name in OPTIONS, "meson_options.txt has no option " + name
    package.prefix = "/prefix"
    package.setup_dependent_package(None, None)
    assert package.spec.mpicc == "/prefix/libexec/weft/bin/mpicc"
    aliases = read("libcomm/mpi/wrappers/meson.build")
    for name in ("mpicc", "mpicxx", "mpifort", "mpif77"):
        assert "'%s':" % name in aliases, name
    repo = read("packaging/spack/spack_repo/weft/repo.yaml")
    assert "namespace: weft" in repo and "api: v2" in repo, repo


def check_rpm():
    spec = read("packaging/rpm/weft.spec")
    assert "Version:        %s\n" % VERSION in spec
    for name in FOUND - {"CLI11"}:
        assert "pkgconfig(%s)" % name in spec, "weft.spec lacks " + name
    assert "weft-%s/" % VERSION in read("packaging/README.md")
    if shutil.which("rpmspec") is None:
        return "rpmspec is missing: weft.spec is not parsed"
    done = subprocess.run(["rpmspec", "--parse", os.path.join(ROOT, "packaging/rpm/weft.spec")],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "%{weft_prefix}" not in done.stdout, done.stderr
    return ""


def check_container():
    stages = []
    text = read("packaging/container/Containerfile").replace("\\\n", " ")
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        assert word in ("FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "CMD"), line
        if word == "FROM":
            assert rest.startswith("debian:12"), line
            stages.append(rest.rpartition(" AS ")[2])
        for script in re.findall(r"\bscripts/[\w-]+", line):
            assert os.access(os.path.join(ROOT, script), os.X_OK), script
        for stage in re.findall(r"--from=(\w+)", line):
            assert stage in stages, line
    assert len(stages) == 2, stages
    assert "--prefix=/usr/lib/weft" in read("scripts/deb") and "MPI_HOME=/usr/lib/weft " in text


def check_citation():
    keys = dict(re.findall(r"^([\w-]+): *(.*)$", read("CITATION.cff"), re.M))
    assert {"cff-version", "message", "title", "authors"} <= set(keys), keys
    assert keys["version"] == VERSION and keys["license"] == "Apache-2.0", keys


def check_versions():
    """The numbers in docs/use/versions.md are those of the headers."""
    places = {"kHandshakeVersion": "libcomm/peer/handshake.hpp",
              "kSessionVersion": "libcomm/peer/messages.hpp",
              "kWireVersion": "mcast/group/wire.hpp", "kCopyVersion": "mcast/copy/records.hpp",
              "kLayoutVersion": "objstore/shared/layout.hpp",
              "kPeerVersion": "objstore/shared/peer_wire.hpp",
              "kLanesVersion": "libcomm/peer/messages.hpp"}
    by_name = {"rendezvous": "libcomm/job/rendezvous_wire.hpp",
               "switches for allreduce": "coll/switch/packet.hpp"}
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| `(\w+)` \|", read("docs/use/versions.md"), re.M)
    assert len(rows) == len(places) + len(by_name), rows
    for name, number, constant in rows:
        path = places.get(constant) or next(by_name[key] for key in by_name if name.endswith(key))
        there = re.search(r"\b%s = (\d+)" % constant, read(path)).group(1)
        assert there == number, "docs/use/versions.md: %s is %s in %s" % (name, there, path)
    header = read("libcomm/include/weft/version.hpp")
    numbers = [re.search(r"VERSION_%s (\d+)" % part, header).group(1)
               for part in ("MAJOR", "MINOR", "PATCH")]
    assert ".".join(numbers) == VERSION, numbers


check_spack()
check_container()
check_citation()
check_versions()
REASON = check_rpm()
print("the recipes agree with the tree" + (", but " + REASON if REASON else ""))
