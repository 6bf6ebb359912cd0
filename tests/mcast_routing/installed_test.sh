#!/bin/sh
# installed_test.sh BUILD PROGRAM.CPP COMPILER: installs into a folder of its own, compiles a program
# with nothing but what is there, and runs it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
meson install -C "$1" --no-rebuild --quiet --destdir "$work/tree" > "$work/log" 2>&1 || {
  cat "$work/log"
  exit 1
}
found=$(find "$work/tree" -name weft-mcast-routing.pc)
[ -n "$found" ] || { echo "weft-mcast-routing.pc was not installed"; exit 1; }
export PKG_CONFIG_PATH="${found%/*}"
flags=$(pkg-config --cflags --libs weft-mcast-routing)
# shellcheck disable=SC2086  # several words
"$3" -std=c++20 -Wall -Wextra -Werror -O1 "$2" $flags -o "$work/program"
status=0
"$work/program" || status=$?
[ $status -eq 0 ] || echo "the program ended with status $status"
exit $status
