# What the tests of this folder share: an installed tree in $prefix, which was moved there, a folder
# $work that is removed at the end, and these functions. Sourced with the build folder as $1.
work=$(mktemp -d)
store=
trap '[ -z "$store" ] || kill "$store" 2>/dev/null || true; rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH  # which Meson sets, so that nothing would be found by the programs themselves
fail() { echo "FAILED: $*"; exit 1; }

if [ -n "${PREFIX:-}" ]; then
  prefix=$PREFIX
else
  meson install -C "$1" --no-rebuild --quiet --destdir "$work/tree" > "$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
  }
  found=$(find "$work/tree" -name weft.pc)
  [ -n "$found" ] || fail "weft.pc was not installed"
  mv "${found%/*/*/*}" "$work/moved"
  prefix=$work/moved
fi

# expect TEXT COMMAND...: what the command prints.
expect() {
  text=$1
  shift
  out=$(timeout 60 "$@") || fail "$* ended with status $?"
  [ "$out" = "$text" ] || fail "$* printed '$out' instead of '$text'"
}

# with_store COMMAND...: while a store is there at $work/socket.
with_store() {
  weft-store --memory 8MiB --socket "$work/socket" > "$work/store.log" 2>&1 &
  store=$!
  i=0
  until [ -S "$work/socket" ] || [ $i -eq 300 ]; do
    kill -0 "$store" 2>/dev/null || { cat "$work/store.log"; fail "weft-store ended"; }
    i=$((i + 1))
    sleep 0.1
  done
  "$@"
  kill "$store"
  wait "$store" || true
  store=
}
