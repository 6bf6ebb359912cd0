#!/bin/sh
# CMake's FindMPI finds Weft by its compiler wrappers, for C, C++ and Fortran, and what it builds runs.
#   findmpi_test.sh MPI_H WEFTRUN LIBRARY WEFTCC WEFTCXX [WEFTFORT FORTRAN_LIBRARY MPIF_H MODULE...]
# All as built, not installed; without WEFTFORT there is no Fortran.
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
names="mpicc:weftcc mpicxx:weftc++ mpiexec:weftrun"
languages="C CXX"
if [ $# -gt 5 ]; then
  names="$names mpif90:weftfort"
  languages="$languages Fortran"
  cp "$6" "$prefix/bin"
  chmod +x "$prefix/bin/weftfort"
  cp "$7" "$lib/libmpi_fortran.so.0"
  ln -s libmpi_fortran.so.0 "$lib/libmpi_fortran.so"
  ln -s "lib/$soname" "$prefix/$soname"  # where the library looks that is not installed: $ORIGIN/..
  shift 7
  cp "$@" "$prefix/include"
fi
for name in $names; do
  ln -s "../../../bin/${name#*:}" "$prefix/libexec/weft/bin/${name%:*}"
done

mkdir "$work/project"
cd "$work/project"
cat > CMakeLists.txt << END
cmake_minimum_required(VERSION 3.13)
project(uses_mpi $languages)
find_package(MPI REQUIRED COMPONENTS $languages)
add_executable(in_c program.c)
target_link_libraries(in_c MPI::MPI_C)
add_executable(in_cxx program.cpp)
target_link_libraries(in_cxx MPI::MPI_CXX)
END
programs="in_c in_cxx"
case $languages in *Fortran*)
  # One program for each way in which Fortran has MPI; CMake must have found all three.
  cat >> CMakeLists.txt << 'END'
foreach(way F77_HEADER F90_MODULE F08_MODULE)
  if(NOT MPI_Fortran_HAVE_${way})
    message(FATAL_ERROR "there is no ${way}")
  endif()
  add_executable(in_${way} ${way}.f90)
  target_link_libraries(in_${way} MPI::MPI_Fortran)
endforeach()
END
  for way in F77_HEADER F90_MODULE F08_MODULE; do
    programs="$programs in_$way"
    case $way in
      F77_HEADER) use=; include="include 'mpif.h'" ;;
      F90_MODULE) use='use mpi'; include= ;;
      F08_MODULE) use='use mpi_f08'; include= ;;
    esac
    cat > $way.f90 << END
program uses_mpi
  $use
  implicit none
  $include
  integer :: rank, total, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Allreduce(1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(I0, A)', total, ' ranks'
  call MPI_Finalize(ierror)
end program
END
  done ;;
esac
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
cmake -S . -B named "-DMPI_Fortran_COMPILER=$prefix/bin/weftfort" "-DMPI_C_COMPILER=$prefix/bin/weftcc" "-DMPI_CXX_COMPILER=$prefix/bin/weftc++" \
  > log 2>&1 || { cat log; fail "FindMPI with the wrappers named"; }
PATH="$prefix/libexec/weft/bin:$PATH" cmake -S . -B searched > log 2>&1 ||
  { cat log; fail "FindMPI by PATH"; }
for build in named searched; do
  cmake --build "$build" > log 2>&1 || { cat log; fail "building ($build)"; }
  for program in $programs; do
    out=$("$prefix/bin/weftrun" -n 2 "$build/$program") || fail "$build/$program"
    [ "$out" = "2 ranks" ] || fail "$build/$program writes $out"
    ldd "$build/$program" | grep -q "$prefix/.*libmpi_abi" || fail "$program has another library"
  done
done
echo "FindMPI finds Weft"
