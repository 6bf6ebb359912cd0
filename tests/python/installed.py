"""Weft's Python package, installed by meson for a test of it:

    TEST BUILD SOURCE VERSION PACKAGES LIBDIR

into a prefix of its own, below which PACKAGES and LIBDIR lie. No path but PYTHONPATH is set."""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

BUILD, SOURCE, VERSION, PACKAGES, LIBDIR = sys.argv[1:6]
del sys.argv[1:6]
BUILD, SOURCE = os.path.realpath(BUILD), os.path.realpath(SOURCE)
LIMIT_S = 60
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
FOLDER = tempfile.TemporaryDirectory(prefix="weft-package-")
PREFIX = os.path.join(FOLDER.name, "prefix")


def meson_install(tags):
    """Below a folder of its own; whether the build has everything that it installs."""
    root = os.path.join(FOLDER.name, "root")
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags", tags,
                           "--destdir", root], timeout=LIMIT_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        shutil.rmtree(root, ignore_errors=True)
        return done.stdout
    packages, = glob.glob(os.path.join(root, "**", PACKAGES), recursive=True)
    os.rename(packages[:-len(PACKAGES) - 1], PREFIX)
    return None


for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
    os.environ.pop(name, None)
# A build of this test's targets alone has not all that is installed; they run with a path set then.
INCOMPLETE = meson_install("python,runtime,graph,mcast,objstore,tools")
if INCOMPLETE is not None:
    assert meson_install("python") is None
    for folder, paths in ((LIBDIR, ("libcomm/libweft.so.0", "objstore/libweft_objstore.so.1")),
                          ("bin", ("tools/weft-copy/weft-copy", "tools/weft-graph/weft-graph",
                                   "tools/weft-store/weft-store", "tools/weftrun/weftrun"))):
        os.makedirs(os.path.join(PREFIX, folder), exist_ok=True)
        for path in paths:
            shutil.copy(os.path.join(BUILD, path), os.path.join(PREFIX, folder, os.path.basename(path)))
    os.environ["LD_LIBRARY_PATH"] = os.path.join(PREFIX, LIBDIR)
os.environ["WEFT_FABRIC"] = "shm"
sys.path.insert(0, os.path.join(PREFIX, PACKAGES))
