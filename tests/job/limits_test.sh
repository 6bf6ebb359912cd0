#!/bin/sh
# Jobs that cannot start, and programs that never join one, say why, soon, and with a status.
#   limits_test.sh WEFTRUN JOB_PROBE STORM
set -eu
weftrun=$1
probe=$2
storm=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work/err"; exit 1; }
# expect STATUS REGEX COMMAND...: what it prints on standard error, within 20 s.
expect() {
  wanted=$1 regex=$2
  shift 2
  status=0
  timeout 20 "$@" >"$work/out" 2>"$work/err.file" || status=$?
  cp "$work/err.file" "$work/err"
  [ "$wanted" = any ] && [ $status -ne 0 ] && [ $status -ne 124 ] || [ "$status" = "$wanted" ] ||
    fail "status $status, not $wanted: $*"
  grep -Eq "$regex" "$work/err" || fail "no '$regex': $*"
}

# The loopback interface is down.
if unshare -n true 2>/dev/null; then
  expect any 'rank [01] on .* 127\.0\.0\.1:[0-9]+: Network is unreachable.*ip link set lo up' \
    unshare -n "$weftrun" -n 2 "$probe" exchange
else
  echo "skipped: no network namespaces"
fi

# Nothing listens there.
expect any 'rank 1 on [^ ]+ found no rendezvous server at 127\.0\.0\.1:9 within 300 ms: Connection refused' \
  env WEFT_RENDEZVOUS=127.0.0.1:9 WEFT_RANK=1 WEFT_SIZE=2 WEFT_JOB_KEY=k WEFT_START_TIMEOUT_MS=300 \
  "$probe" exchange

# Files may have no bytes, and memory that processes share counts as such. Standard error is a pipe
# here, which does not.
for program in "$probe exchange" "$storm --threads 1 --messages 10"; do
  prlimit --fsize=0:0 "$weftrun" -n 2 $program 2>&1 >/dev/null | cat >"$work/err"
  if grep -q "signal 25" "$work/err"; then fail "killed by SIGXFSZ: $program"; fi
done
grep -q 'ulimit -f' "$work/err" || fail "no word about ulimit -f"
# A program that goes over the limit itself.
expect 153 'signal 25 .*: see ulimit -f' \
  "$weftrun" -n 1 prlimit --fsize=10:10 sh -c 'echo "more than ten bytes" > '"$work/file"

# A program of another MPI is a job of one for each process, and no success.
cat >"$work/hello.c" <<'END'
#include <mpi.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  return MPI_Finalize();
}
END
for library in openmpi mpich; do
  if ! command -v mpicc.$library >/dev/null; then
    echo "skipped: no mpicc.$library"
    continue
  fi
  mpicc.$library "$work/hello.c" -o "$work/hello_$library"
  expect 1 "no process of hello_$library joined the job: it is linked to libmpi" \
    env PATH="$work:$PATH" "$weftrun" -n 2 hello_$library
done
# What has been put in a program's place meanwhile is not waited for.
printf '#!/bin/sh\nrm "$0" && mkfifo "$0"\n' >"$work/becomes_pipe"
chmod +x "$work/becomes_pipe"
status=0
timeout -k 1 15 "$weftrun" -n 1 "$work/becomes_pipe" 2>"$work/err" || status=$?
[ $status = 0 ] || fail "status $status: a pipe in a program's place"
# One that is no MPI program at all may be started.
expect 0 '^' "$weftrun" -n 2 sh -c 'echo fine >&2'
echo "as expected"
