#!/bin/sh
# weft-info --tune between two hosts, which are network namespaces: what it prints is a setting; with
# a switch that computes, also one of those for that.
# Arguments: weftrun, weft-info, weft-switch. Exit status 77: this machine allows no such namespaces.
set -eu
weftrun=$1 info=$2 switch=$3
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
# The output is a file of settings, too.
file=$(mktemp)
echo "$printed" >"$file"
(unset WEFT_COLL_ALGORITHMS; WEFT_SETTINGS_FILE=$file "$info" --settings) |
  grep '^  WEFT_COLL_ALGORITHMS .* file  ' || { echo "no setting from $file" >&2; exit 1; }
rm "$file"

with_switch=$("$here/../netns/run" --hosts 2 -- sh -c '
  "$3" serve --listen 10.88.0.254:9000 > /dev/null &
  WEFT_OFFLOAD=node WEFT_OFFLOAD_SWITCH=10.88.0.254:9000 WEFT_OFFLOAD_TIMEOUT_MS=30000 \
    "$1" --hosts h1,h2 -n 2 --timeout 100 "$2" --tune 8
  status=$?
  kill $!
  exit $status' sh "$weftrun" "$info" "$switch")
echo "$with_switch"
[ "$(echo "$with_switch" | grep -c '^# [0-9]* bytes: [0-9.]* us by the switch, ')" = 7 ]
setting=$(echo "$with_switch" | grep '^export WEFT_OFFLOAD')
eval "$setting"
export WEFT_OFFLOAD="${WEFT_OFFLOAD:-node}" WEFT_OFFLOAD_SWITCH=127.0.0.1:9 WEFT_OFFLOAD_TIMEOUT_MS=10
"$info" --offload
