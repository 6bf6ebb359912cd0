#!/bin/sh
# The compile line in the page of each library, run as it stands there, with an installed tree that
# was moved: the program compiles by pkg-config alone and runs.
#   pkgconfig_test.sh BUILD SOURCE
# PREFIX in the environment: an installed tree, instead of one that is installed from BUILD.
set -eu
here=$(dirname "$(readlink -f "$0")")
. "$here/installed.sh"
pages=$2/docs/use
export PATH="$prefix/bin:$PATH" PKG_CONFIG_PATH="$prefix/lib/pkgconfig"

# compile PAGE MODULE SOURCE: the one line of the page that compiles with that module.
compile() {
  line=$(sed -n 's/^    //p' "$pages/$1" | grep -E '^(cc|gcc|g\+\+) .*pkg-config --cflags --libs '"$2"'\)' || true)
  [ -n "$line" ] || fail "docs/use/$1 has no line that compiles with pkg-config $2"
  [ "$(printf '%s\n' "$line" | wc -l)" = 1 ] || fail "docs/use/$1 has several lines for $2: $line"
  rm -f program program.c program.cpp
  cp "$3" "program.${3##*.}"
  eval "$line" > log 2>&1 || { cat log; fail "docs/use/$1: $line"; }
  [ -x program ] || fail "docs/use/$1: the line makes no program: $line"
  ldd program > log; grep -q "$prefix/.*lib[a-z_]*\.so" log || { cat log; fail "$2: another library"; }
}

cd "$work"
compile build-systems.md mpi-abi "$here/mpi.c"
expect "2 ranks" weftrun -n 2 ./program
compile build-systems.md weft "$here/node.c"
expect "a Node" ./program
sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$pages/transport.md" > transport.cpp
compile transport.md weft transport.cpp
expect "2 ranks, sum 1999998000000" weftrun -n 2 ./program
compile multicast.md weft-multicast "$here/multicast.cpp"
expect "a word" weftrun -n 2 ./program
compile graph.md weft-graph "$here/graph.cpp"
printf '0 1\n1 2\n2 0\n' > ring.el
expect "3 vertices, 1 triangle" weftrun -n 2 ./program ring.el
compile objstore.md weft-objstore "$here/objstore.cpp"
with_store expect "an object" ./program "$work/socket"
compile mcroute.md weft-mcast-routing "$here/../mcast_routing/installed.cpp"
expect "" ./program

for file in "$prefix"/lib/pkgconfig/*.pc; do
  module=${file##*/}
  pkg-config --validate "${module%.pc}" || fail "$module"
  grep -q "\`${module%.pc}\`" "$pages/build-systems.md" || fail "docs/use/build-systems.md lacks ${module%.pc}"
done
echo "every library is found by pkg-config"
