#!/bin/sh
# CMake's FindMPI finds Weft by its compiler wrappers, for C and for C++, and what it builds runs.
#   findmpi_test.sh MPI_H WEFTRUN LIBRARY WEFTCC WEFTCXX   (as built, not installed)
set -eu
# CMake's absence is a reason to skip, which Meson knows by this status.
command -v cmake > /dev/null || { echo "skipped: there is no cmake"; exit 77; }
unset LD_LIBRARY_PATH  # which Meson sets, so that nothing would be found by the programs themselves
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

prefix=$work/prefix
mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/include" "$prefix/libexec/weft/bin"
cp "$1" "$prefix/include"
cp "$2" "$4" "$5" "$prefix/bin"
chmod +x "$prefix/bin/"*
# The wrappers name the folder of libraries that Weft is configured with.
lib=$(env WEFT_CC=cc "$prefix/bin/weftcc" -showme:libdir)
mkdir -p "$lib"
soname=$(objdump -p "$3" | sed -n 's/^ *SONAME *//p')
cp "$3" "$lib/$soname"
[ "$soname" = libmpi_abi.so ] || ln -s "$soname" "$lib/libmpi_abi.so"
for name in mpicc:weftcc mpicxx:weftc++ mpiexec:weftrun; do
  ln -s "../../../bin/${name#*:}" "$prefix/libexec/weft/bin/${name%:*}"
done

mkdir "$work/project"
cd "$work/project"
cat > CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.13)
project(uses_mpi C CXX)
find_package(MPI REQUIRED COMPONENTS C CXX)
add_executable(in_c program.c)
target_link_libraries(in_c MPI::MPI_C)
add_executable(in_cxx program.cpp)
target_link_libraries(in_cxx MPI::MPI_CXX)
END
cat > program.c << 'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank = 0, one = 1, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks\n", sum);
  return MPI_Finalize();
}
END
cp program.c program.cpp

# Once with the wrappers named, once with the names that CMake looks for in PATH.
cmake -S . -B named "-DMPI_C_COMPILER=$prefix/bin/weftcc" "-DMPI_CXX_COMPILER=$prefix/bin/weftc++" \
  > log 2>&1 || { cat log; fail "FindMPI with the wrappers named"; }
PATH="$prefix/libexec/weft/bin:$PATH" cmake -S . -B searched > log 2>&1 ||
  { cat log; fail "FindMPI by PATH"; }
for build in named searched; do
  cmake --build "$build" > log 2>&1 || { cat log; fail "building ($build)"; }
  for program in in_c in_cxx; do
    out=$("$prefix/bin/weftrun" -n 2 "$build/$program") || fail "$build/$program"
    [ "$out" = "2 ranks" ] || fail "$build/$program writes $out"
    ldd "$build/$program" | grep -q "$lib/libmpi_abi" || fail "$program has another library"
  done
done
echo "FindMPI finds Weft"
