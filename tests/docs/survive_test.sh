#!/bin/sh
# The example whose processes are killed ends with the right result, over shared memory and over ofi.
#   survive_test.sh BUILD RUN
# PREFIX in the environment: an installed tree, instead of one that is installed from BUILD.
set -eu
here=$(dirname "$(readlink -f "$0")")
. "$here/../packaging/installed.sh"
PATH=$prefix/bin:$PATH
"$2" --seed 1 --points 256
"$2" --seed 2 --points 256 -n 7 --kill 6 --seconds 0.1
WEFT_FABRIC=tcp WEFT_INTERFACE=lo "$2" --seed 3 --points 256 -n 5 --kill 3
