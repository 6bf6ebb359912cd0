#!/bin/sh
# What pages say, done with an installed tree.
#   pages_test.sh BUILD PAGE...
# PREFIX in the environment: an installed tree, instead of one that is installed from BUILD.
set -eu
here=$(dirname "$(readlink -f "$0")")
. "$here/../packaging/installed.sh"
shift
PYTHONDONTWRITEBYTECODE=1 python3 "$here/pages.py" --prefix "$prefix" "$@"
