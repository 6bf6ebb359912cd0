"""Where Weft's libraries and commands are, from this folder. `meson install` and scripts/wheel put a
module with the places of theirs here; in the source tree the loader and PATH find them."""
from __future__ import annotations

VERSION: str = "0+source"
LIBRARIES: str | None = None
COMMANDS: str | None = None
