"""Makes a wheel of an installed Weft: the package, its libraries and commands, and nothing to compile.
scripts/wheel calls it, and pip by pyproject.toml (PEP 517)."""
import base64
import glob
import hashlib
import os
import runpy
import sysconfig
import zipfile

LIBRARIES = ("libweft.so.0", "libweft_objstore.so.1")
COMMANDS = ("weft-copy", "weft-graph", "weft-store", "weftrun")
# The time of files in a wheel, so that equal contents are an equal wheel.
DATE = (1980, 1, 1, 0, 0, 0)
PLACES = '''"""Where Weft's libraries and commands are, from this folder."""
from __future__ import annotations

VERSION: str = "{version}"
LIBRARIES: str | None = "prefix/lib"
COMMANDS: str | None = "prefix/bin"
'''
METADATA = """Metadata-Version: 2.1
Name: weft
Version: {version}
Summary: Communication between processes and hosts: Nodes, shared objects, graphs, multicast
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: graph
Requires-Dist: numpy; extra == "graph"
"""


def _installed(prefix):
    """The folder of the package that was installed with this prefix."""
    found = sorted(glob.glob(os.path.join(prefix, "lib", "python3*", "*-packages", "weft", "_places.py")))
    if not found:
        raise SystemExit(f"wheel: {prefix} has no lib/python3*/*-packages/weft: meson install there before")
    if len(found) > 1:
        raise SystemExit(f"wheel: {prefix} has several: {', '.join(found)}: delete all but one")
    return os.path.dirname(found[0])


def _named(package, folder, name):
    """A library or command of the package's, whatever libdir is."""
    path = os.path.join(package, folder, name)
    if not os.path.exists(path):
        raise SystemExit(f"wheel: there is no {os.path.normpath(path)}: meson install anew")
    return path


def make(prefix, output):
    """The path of the wheel, in the folder output."""
    package = _installed(os.path.abspath(prefix))
    places = runpy.run_path(os.path.join(package, "_places.py"))
    version = places["VERSION"]
    members = {}  # name: contents and mode
    sources = sorted(glob.glob(os.path.join(package, "**", "*.py"), recursive=True))
    for path in sources + [os.path.join(package, "py.typed")]:
        members[f"weft/{os.path.relpath(path, package)}"] = (open(path, "rb").read(), 0o644)
    members["weft/_places.py"] = (PLACES.format(version=version).encode(), 0o644)
    members["weft_object_store.py"] = (
        open(os.path.join(os.path.dirname(package), "weft_object_store.py"), "rb").read(), 0o644)
    for kind, names, folder in (("lib", LIBRARIES, places["LIBRARIES"]),
                                ("bin", COMMANDS, places["COMMANDS"])):
        for name in names:
            members[f"weft/prefix/{kind}/{name}"] = (
                open(_named(package, folder, name), "rb").read(), 0o755)

    # It loads by ctypes, for any Python; the libraries are of this system and this machine.
    tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    info = f"weft-{version}.dist-info"
    members[f"{info}/METADATA"] = (METADATA.format(version=version).encode(), 0o644)
    members[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: false\n"
                                f"Tag: {tag}\n".encode(), 0o644)
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},"
        f"{len(data)}\n" for name, (data, _) in members.items())
    members[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)

    path = os.path.join(output, f"weft-{version}-{tag}.whl")
    # Under its name once it is whole.
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, (data, mode) in members.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    os.replace(path + ".part", path)
    return path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517. config_settings: prefix."""
    prefix = (config_settings or {}).get("prefix")
    if not prefix:
        raise SystemExit("wheel: where Weft is installed is not given: pip wheel --config-settings "
                         "prefix=FOLDER")
    return os.path.basename(make(prefix, wheel_directory))


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517. There is nothing to build from: the libraries come from an installed Weft."""
    raise SystemExit("wheel: a source distribution has no libraries: make a wheel")
