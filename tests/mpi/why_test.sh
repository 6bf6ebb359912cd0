#!/bin/sh
# What the ranks of a job that stands still wait for is said on request: why_test.sh WEFTRUN WEFT_INFO PROGRAM,
# where PROGRAM is hang_tag. The ranks may be stopped.
set -eu
weftrun=$1 info=$2 program=$3
folder=$(mktemp -d)
WEFT_HANG_REPORT_MS=0 "$weftrun" -n 3 --timeout 200 sh -c 'echo $$ >"$1.$WEFT_RANK"; exec "$2"' sh "$folder/pid" \
  "$program" 2>"$folder/errors" &
job=$!
trap 'kill "$job" 2>/dev/null || true; rm -rf "$folder"' EXIT

# has TEXT COMMAND...: the command prints the text at some time; after a minute it is an error.
has() {
  text=$1
  shift
  for _ in $(seq 600); do
    printed=$("$@" 2>&1) || true
    case $printed in *"$text"*) return ;; esac
    sleep 0.1
  done
  echo "not printed within a minute: $text; but: $printed"
  exit 1
}

reason='because rank 1 waits for tag 7 from rank 0, but the message that rank 0 has sent it has tag 8'
for rank in 0 1 2; do has written sh -c 'test -s "$1" && echo written' sh "$folder/pid.$rank"; done
pid=$(cat "$folder/pid.1")
has "$reason" "$info" --attach "$(cat "$folder/pid.0")" --why
kill -URG "$job"
has "what the ranks do:" cat "$folder/errors"
has "$reason" cat "$folder/errors"
kill -STOP "$pid"
has "stopped by a signal" "$info" --attach "$pid" --why
has "rank 1: MPI_Recv from rank 0, tag 7, up to 4 bytes, MPI_COMM_WORLD" "$info" --attach "$pid" --why
kill -CONT "$pid"
has "$reason" "$info" --attach "$pid" --why
kill -TERM "$job"
wait "$job" || true
echo "as expected"
