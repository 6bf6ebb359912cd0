#!/bin/sh
# Broadcasts that the network copies (bcast=native), between hosts that are network namespaces: where
# it does, with losses, where it does not, where some hosts have several ranks, and where a rank
# dies. Arguments: weftrun, the program, the library that loses datagrams.
# Exit status 77: this machine allows no such namespaces.
set -eu
weftrun=$1 program=$2 lose=$3
run=$(dirname "$(realpath "$0")")/../netns/run
export WEFT_COLL_ALGORITHMS=bcast=native
unset LOSE_PERCENT WEFT_FABRIC || true
# The library that loses comes before a sanitizer's.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
"$run" --hosts 2 -- true || exit $?
job() { # NAME HOSTS RANKS ARGUMENTS...
  echo "$1: $3 ranks on $2"
  hosts=$2 ranks=$3
  shift 3
  "$run" --hosts 6 -- timeout 200 "$weftrun" --bind none --hosts "$hosts" -n "$ranks" \
    --on-death continue --timeout 180 "$program" "$@"
}
job 'one rank a host' h1,h2,h3,h4,h5 5 native
job 'several ranks on some' h1:2,h2:1,h3:3 6 native
job 'two hosts have nothing to copy' h1:1,h2:2 3 messages
(export LD_PRELOAD="$lose" LOSE_PERCENT=2; job 'losses' h1,h2:2,h3,h4 5 native)
# Most are lost: the calls end, by repairs or by messages.
(export LD_PRELOAD="$lose" LOSE_PERCENT=70; job 'most are lost' h1,h2,h3 3 either)
# Nothing arrives.
printed=$( (export LD_PRELOAD="$lose" LOSE_PERCENT=100; job 'nothing arrives' h1,h2:2,h3 4 messages) 2>&1)
echo "$printed"
[ "$(echo "$printed" | grep -c 'does not copy broadcasts.*heard no datagram')" -ge 1 ] ||
  { echo 'nobody says that the network does not copy' >&2; exit 1; }
# The root, a parent, a leaf.
for victim in 0 2 3; do
  printed=$(job "rank $victim dies" h1,h2,h3,h4,h5 5 native $victim 2>&1 || true)
  echo "$printed" | grep 'has an error' | sort | uniq | wc -l | grep -qx 4 ||
    { echo "not all have an error: $printed" >&2; exit 1; }
done
