#!/bin/sh
# The compiler wrappers in a moved installation: compile, link and run from another folder.
#   wrappers_test.sh WEFTCC WEFTCXX   (as configured, not installed)
# The library is a stand-in of one function: what is tested is how it is found.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

mkdir -p "$work/first/bin" "$work/first/lib" "$work/first/include" "$work/first/libexec/weft/bin" \
  "$work/first/libexec/weft/lib"
cp "$1" "$2" "$work/first/bin"
chmod +x "$work/first/bin/"*  # as installing does
ln -s ../../../bin/weftcc "$work/first/libexec/weft/bin/mpicc"
echo 'int answer(void) { return 7; }' > "$work/library.c"
cc -shared -fPIC -Wl,-soname,libmpi_abi.so.1 "$work/library.c" -o "$work/first/lib/libmpi_abi.so.1"
ln -s libmpi_abi.so.1 "$work/first/lib/libmpi_abi.so"
ln -s ../../../lib/libmpi_abi.so "$work/first/libexec/weft/lib/libmpi.so"
printf '#ifdef __cplusplus\nextern "C"\n#endif\nint answer(void);\n' > "$work/first/include/mpi.h"
mv "$work/first" "$work/moved to"
prefix="$work/moved to"
printf '#include <mpi.h>\nint main() { return answer(); }\n' > "$work/program.c"
cp "$work/program.c" "$work/program.cpp"
cd "$work"

for compiler in weftcc weftc++; do
  source=program.c
  [ $compiler = weftcc ] || source=program.cpp
  "$prefix/bin/$compiler" -O2 $source -o one || fail "$compiler in one step"
  "$prefix/bin/$compiler" -c $source -o two.o || fail "$compiler -c"
  "$prefix/bin/$compiler" -o two two.o || fail "$compiler links"
  for program in one two; do
    status=0
    (cd / && env -u LD_LIBRARY_PATH "$work/$program") || status=$?
    [ $status = 7 ] || fail "$compiler: $program ends with $status"
  done
  "$prefix/bin/$compiler" --version > /dev/null || fail "$compiler --version"
done

mpicc="$prefix/libexec/weft/bin/mpicc"
"$mpicc" program.c -o three || fail "mpicc through its link"
expect() {
  wanted=$1
  shift
  got=$("$@") || fail "$*"
  [ "$got" = "$wanted" ] || fail "$*: $got"
}
expect "$prefix/include" "$mpicc" -showme:incdir
expect "$prefix/lib" "$mpicc" -showme:libdir
expect mpi_abi "$mpicc" -showme:libs
expect "-I$prefix/include" "$mpicc" -showme:compile
"$mpicc" program.c -lmpi -o four || fail "mpicc with -lmpi"
status=0
./four || status=$?
[ $status = 7 ] || fail "a program linked with -lmpi ends with $status"
expect "other -I$prefix/include" "$mpicc" -cc=other -compile-info
expect "other $("$mpicc" -showme:link)" "$mpicc" -cc=other -link-info
for variable in WEFT_CC MPICH_CC OMPI_CC; do
  expect "other -I$prefix/include -c x.c" env $variable=other "$mpicc" -c x.c -show
done
expect "-L$prefix/lib -L$prefix/libexec/weft/lib -Wl,-rpath,$prefix/lib -lmpi_abi" "$mpicc" -showme:link
expect "other -I$prefix/include -c x.c" "$mpicc" -cc=other -show -c x.c
expect "other -I$prefix/include -c x.c" env MPI_CC=other "$mpicc" -c x.c -show
expect "other -I$prefix/include x.cc $("$mpicc" -showme:link)" \
  env MPI_CXX=other "$prefix/bin/weftc++" -show x.cc
"$prefix/bin/weftcc" --help | grep -q "^weftcc: the C compiler" || fail "weftcc --help"
if "$prefix/bin/weftcc" -c missing.c 2> /dev/null; then fail "a missing file compiles"; fi
echo "the wrappers find their installation"
