#!/bin/sh
# weft-info --tune between two hosts, which are network namespaces: what it prints is a setting.
# Arguments: weftrun, weft-info. Exit status 77: this machine allows no such namespaces.
set -eu
weftrun=$1 info=$2
here=$(dirname "$(realpath "$0")")
"$here/../netns/run" --hosts 2 -- true || exit $?
unset WEFT_COLL_ALGORITHMS || true
printed=$("$here/../netns/run" --hosts 2 -- "$weftrun" --hosts h1,h2 -n 2 --timeout 100 \
  "$info" --tune 8)
echo "$printed"
eval "$(echo "$printed" | grep '^export WEFT_COLL_ALGORITHMS=')"
case "$WEFT_COLL_ALGORITHMS" in
  *bcast=shm+two_level+*scan=shm+two_level+*) ;;
  *) echo "no table: $WEFT_COLL_ALGORITHMS" >&2; exit 1 ;;
esac
"$info" --collectives 8 8
