#!/bin/bash
# kv_test.sh SERVER CLIENT PYTHON_CLIENT PYTHON_FOLDER: examples/node/kv with clients of both languages.
set -eu
server=$1 client=$2 python_client=$3
export PYTHONPATH=$4
folder=$(mktemp -d)
trap 'kill $pid 2>/dev/null; wait $pid || true; rm -rf "$folder"' EXIT
address=unix:$folder/kv.sock
coproc timeout 60 "$server" "$address" secret
pid=$COPROC_PID
read -r line <&"${COPROC[0]}"
[ "$line" = ready ]
# A library with a sanitizer wants the sanitizer's own loaded first, which python3 does not know.
sanitizer=$(ldd "$server" | awk '/lib[at]san/ {print $3}' | paste -sd:)
python() {
  timeout 30 env ${sanitizer:+"LD_PRELOAD=$sanitizer" ASAN_OPTIONS=detect_leaks=0} \
    python3 "$python_client" "$@"
}
"$client" "$address" secret set colour green
[ "$(python "$address" secret get colour)" = green ]
python "$address" secret set colour blue
[ "$("$client" "$address" secret get colour)" = blue ]
python "$address" secret get shape 2>/dev/null && exit 1
"$client" "$address" guess get colour 2>"$folder/error" && exit 1
grep -q 'secret is not the same' "$folder/error"
python "$address" guess get colour 2>"$folder/error" && exit 1
grep -q 'secret is not the same' "$folder/error"
# Of clients that die at any moment the server keeps nothing.
for i in 1 2 3 4 5 6 7 8; do
  timeout -s KILL 0.0$i "$client" "$address" secret get colour >/dev/null 2>&1 || true
done
[ "$("$client" "$address" secret get colour)" = blue ]
echo as expected
