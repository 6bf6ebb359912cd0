"""Finding Weft's shared libraries and commands: those that this package was installed with, or,
in the source tree, those that the loader and PATH find."""
from __future__ import annotations

import ctypes
import os
import shutil
from typing import Any

from . import _places
from .errors import Error

# Debian's packages with the libraries that Weft's are linked with.
_PACKAGES = ("libfmt9 libdw1 libhwloc15 libpmix2 libsodium23 libibverbs1 librdmacm1 libtbb12 "
             "zlib1g libibmad5 libibumad3 liburing2 libhiredis0.14")
# A link to the package, as of a Debian package's, leads to the prefix that it was installed in.
_HERE = os.path.dirname(os.path.realpath(__file__))


def load(name: str) -> Any:
    """The library of that name, by ctypes. ImportError: it is not there, or one that it needs."""
    path = name if _places.LIBRARIES is None else os.path.join(_HERE, _places.LIBRARIES, name)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        if _places.LIBRARIES is None:
            advice = "set LD_LIBRARY_PATH to the folder that has it"
        elif os.path.exists(path):
            advice = f"install what it needs; on Debian 12: apt install {_PACKAGES}"
        else:
            advice = "install Weft again"
        raise ImportError(f"weft: cannot load {path}: {error}: {advice}", name="weft",
                          path=path) from None


def command(name: str) -> str:
    """The path of a command of Weft's, such as weft-graph. Error ("not found"): it is not there."""
    if _places.COMMANDS is not None:
        path = os.path.normpath(os.path.join(_HERE, _places.COMMANDS, name))
        if os.access(path, os.X_OK):
            return path
        raise Error("not found", f"{name}: there is no {path}: install Weft again")
    found = shutil.which(name)
    if found is None:
        raise Error("not found", f"{name} is not in PATH: add the folder that has it")
    return found
