#!/bin/sh
# The program in docs/transport.md, exactly as it stands there, compiles and prints what the page
# says. Arguments: the page, weftrun, the folder of the headers, the library, the compiler.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$1" >"$folder/program.cpp"
test -s "$folder/program.cpp"
expected=$(sed -n 's/^It prints `\(.*\)`\..*/\1/p' "$1")
shift
weftrun=$1 include=$2 library=$3
shift 3
"$@" -std=c++20 -O2 -I"$include" "$folder/program.cpp" "$library" -pthread \
  -Wl,-rpath,"$(dirname "$library")" -o "$folder/program"
printed=$("$weftrun" -n 4 --timeout 60 "$folder/program")
if [ "$printed" != "$expected" ]; then
  echo "the page says '$expected', the program '$printed'" >&2
  exit 1
fi
"$folder/program"
