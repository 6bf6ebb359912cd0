#!/bin/sh
# find_package(Weft): each target compiles and runs from an installed tree that was moved; versions
# and components are checked. find_package(MPI) takes Weft whole, wrappers and mpiexec, by MPI_HOME
# alone, though another MPI comes first in PATH.
#   cmake_test.sh BUILD
set -eu
command -v cmake > /dev/null || { echo "skipped: there is no cmake"; exit 77; }
here=$(dirname "$(readlink -f "$0")")
. "$here/installed.sh"
plain=$PATH
export PATH="$prefix/bin:$PATH"
cd "$work"

mkdir all
cp "$here"/mpi.c "$here"/node.c "$here"/*.cpp "$here/../mcast_routing/installed.cpp" all
cat > all/CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.16)
project(uses_weft C CXX)
find_package(Weft 0.1 REQUIRED COMPONENTS weft mpi graph objstore multicast mcast_routing)
foreach(example mpi:mpi.c weft:node.c graph:graph.cpp objstore:objstore.cpp
    multicast:multicast.cpp mcast_routing:installed.cpp)
  string(REPLACE ":" ";" example ${example})
  list(GET example 0 name)
  list(GET example 1 source)
  add_executable(use_${name} ${source})
  target_link_libraries(use_${name} PRIVATE Weft::${name})
endforeach()
message(STATUS "Weft ${Weft_VERSION} in ${Weft_PREFIX}")
END
# The prefix is found by bin in PATH; Weft_ROOT names it where it is not.
PATH=$plain Weft_ROOT=$prefix cmake -S all -B all/rooted > log 2>&1 || { cat log; fail "Weft_ROOT"; }
grep -q "Weft [0-9.]* in $prefix" log || { cat log; fail "Weft_ROOT: another Weft was found"; }
cmake -S all -B all/build > log 2>&1 || { cat log; fail "find_package(Weft)"; }
grep -q "Weft [0-9.]* in $prefix" log || { cat log; fail "another Weft was found"; }
cmake --build all/build > log 2>&1 || { cat log; fail "building with the targets"; }
expect "2 ranks" weftrun -n 2 all/build/use_mpi
expect "a Node" all/build/use_weft
expect "a word" weftrun -n 2 all/build/use_multicast
printf '0 1\n1 2\n2 0\n' > ring.el
expect "3 vertices, 1 triangle" weftrun -n 2 all/build/use_graph ring.el
with_store expect "an object" all/build/use_objstore "$work/socket"
expect "" all/build/use_mcast_routing

# refused WORDS TEXT: find_package with these words fails, and says the text.
mkdir other
refused() {
  printf 'cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(Weft %s REQUIRED)\n' "$1" \
    > other/CMakeLists.txt
  rm -rf other/build
  if cmake -S other -B other/build > log 2>&1; then fail "find_package(Weft $1) succeeds"; fi
  tr -s ' \n' ' ' < log | grep -qF "$2" || { cat log; fail "find_package(Weft $1) does not say $2"; }
}
refused 99.0 "99.0"
refused 0.0.1 "0.0.1"
refused "COMPONENTS nothing" "has no component 'nothing'"

# Another MPI, first in PATH: what finds it fails.
mkdir -p another/bin mpi
for name in mpicc mpicxx mpic++ mpiexec mpirun mpifort; do
  printf '#!/bin/sh\necho another MPI\nexit 1\n' > another/bin/$name
  chmod +x another/bin/$name
done
cp "$here/mpi.c" mpi/program.c
cat > mpi/CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.16)
project(uses_mpi C)
find_package(MPI REQUIRED COMPONENTS C)
add_executable(program program.c)
target_link_libraries(program MPI::MPI_C)
message(STATUS "mpiexec: ${MPIEXEC_EXECUTABLE}")
END
# found NAME [VARIABLE=VALUE...] -- [OPTION...]: configures and builds with them, and is Weft's.
found() {
  name=$1
  shift
  variables="PATH=$work/another/bin:$PATH"
  while [ "$1" != -- ]; do
    variables="$variables $1"
    shift
  done
  shift
  # shellcheck disable=SC2086  # several words
  env $variables cmake -S mpi -B "mpi/$name" "$@" > log 2>&1 || { cat log; fail "FindMPI, $name"; }
  grep -q "mpiexec: $prefix/" log || { cat log; fail "FindMPI, $name: another mpiexec"; }
  cmake --build "mpi/$name" > log 2>&1 || { cat log; fail "building, $name"; }
  ldd "mpi/$name/program" | grep -q "$prefix/.*libmpi_abi" || fail "$name: another library"
  run=$(sed -n 's/^MPIEXEC_EXECUTABLE:FILEPATH=//p' "mpi/$name/CMakeCache.txt")
  expect "2 ranks" "$run" -n 2 "mpi/$name/program"
}
found by_variable MPI_HOME="$prefix" --
found by_option -- "-DMPI_HOME=$prefix"
found by_prefix_path CMAKE_PREFIX_PATH="$prefix" MPI_HOME="$work/another" --
found by_wrappers_folder MPI_HOME="$prefix/libexec/weft" --
found by_compiler MPI_HOME="$prefix" CC="$prefix/bin/weftcc" --
echo "CMake finds Weft"
