#!/bin/sh
# The program in docs/use/transport.md, exactly as it stands there, is compiled and started by the
# commands that stand there, and prints what the page says. Arguments: the page, weftrun, the folder
# of the headers, the library.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
page=$(readlink -f "$1") weftrun=$(readlink -f "$2") include=$3 library=$(readlink -f "$4")
sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$page" >"$folder/program.cpp"
test -s "$folder/program.cpp"
expected=$(sed -n 's/^It prints `\(.*\)`\..*/\1/p' "$page")
compile=$(sed -n 's/^    \(g++ .*\)/\1/p' "$page")
start=$(sed -n 's/^    \(weftrun .*\)/\1/p' "$page")
test -n "$expected" && test -n "$compile" && test -n "$start"
# The build folder in place of an installation.
cat >"$folder/weft.pc" <<END
Name: weft
Description: as built
Version: 0
Cflags: -I$include
Libs: $library -Wl,-rpath,$(dirname "$library")
END
cd "$folder"
export PKG_CONFIG_PATH="$folder" PATH="$(dirname "$weftrun"):$PATH"
eval "$compile"
printed=$(eval "timeout 60 $start")
if [ "$printed" != "$expected" ]; then
  echo "the page says '$expected', the program '$printed'" >&2
  exit 1
fi
./program
