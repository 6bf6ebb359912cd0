#!/bin/sh
# beside_mpi with Open MPI's library and its mpirun. Skipped (77) where Open MPI is not installed.
# Arguments: the program's source, the folder of the headers, the library.
set -eu
for tool in mpicxx.openmpi mpirun.openmpi; do
  command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# -idirafter: the mpi.h of this folder is Weft's.
mpicxx.openmpi -std=c++20 -O2 "$1" -idirafter "$2" "$3" -pthread \
  -Wl,-rpath,"$(dirname "$3")" -o "$folder/program"
run() { timeout 60 mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 "$folder/program" $1; }
for way in mpi-first job-first job-before job-after; do
  run $way || { echo "$way failed" >&2; exit 1; }
done
# Several at once: ranks that begin again then meet others that have not ended yet.
pids=
for i in 1 2 3 4 5 6; do
  run job-after & pids="$pids $!"
done
for pid in $pids; do
  wait $pid || { echo "job-after failed, among others" >&2; exit 1; }
done
