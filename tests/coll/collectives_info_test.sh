#!/bin/sh
# weft-info --collectives PROCESSES HOSTS. Argument: the program.
set -eu
info=$1
unset WEFT_COLL_ALGORITHMS || true
fail() { echo "$*" >&2; exit 1; }
# Arguments: processes, hosts, and the algorithms of broadcasts from short to long.
expect() {
  found=$("$info" --collectives "$1" "$2" | awk '$1 == "bcast" {printf "%s ", $3}')
  [ "$found" = "$3 " ] || fail "$1 processes on $2 hosts: $found, not $3"
}
expect 8 1 shm
expect 1000 100 two_level
expect 100 100 'binomial two_trees'
expect 2 2 binomial
"$info" --collectives 8 8 | grep -q '^  allreduce  *any  ring  *rabenseifner' ||
  fail 'nothing of operations that do not commute'
(export WEFT_COLL_ALGORITHMS=bcast=binomial; expect 16 16 binomial)
(export WEFT_COLL_ALGORITHMS=bcast=chain@8+pipeline:64K; expect 16 16 'pipeline two_trees'; expect 8 8 chain)
(export WEFT_COLL_ALGORITHMS=bcast=native; expect 16 16 'binomial two_trees native'; expect 2 2 binomial; expect 16 4 'two_level native')
# One process has no network to measure.
status=0
"$info" --tune 8 >/dev/null 2>&1 || status=$?
[ $status = 2 ] || fail "--tune of one process ends with $status"
for wrong in '1' '4x' '100000'; do
  status=0
  "$info" --tune $wrong >/dev/null 2>&1 || status=$?
  [ $status = 2 ] || fail "--tune $wrong ends with $status"
done
for wrong in '0 1' '4 8' '4x 2' '4'; do
  status=0
  # shellcheck disable=SC2086
  "$info" --collectives $wrong >/dev/null 2>&1 || status=$?
  [ $status = 2 ] || fail "--collectives $wrong ends with $status"
done
# Settings that cannot be are told of, as they are in whatever else is shown.
status=0
WEFT_COLL_ALGORITHMS=bcast=nothing "$info" --collectives 16 16 >/dev/null 2>&1 || status=$?
[ $status = 1 ] || fail "a wrong setting ends with $status"
