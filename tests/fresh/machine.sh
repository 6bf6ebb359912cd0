# tests/fresh/machine.sh: a bare Debian 12, for tests/fresh/run and tests/fresh/deb, which source it.
#
# Everything runs in a mount and a process namespace of its own, so nothing stays mounted or running
# however a run ends.

if [ "$(id -u)" -ne 0 ]; then
  echo "$0: needs root, for chroot and mounts" >&2
  exit 2
fi
command -v debootstrap >/dev/null || "$repository/scripts/install-packages" fresh

# Where apt of this machine finds packages.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
  2>/dev/null | sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\) *bookworm .*/\2/p' \
  | grep -v security | head -1)
mirror=${mirror:-http://deb.debian.org/debian}

# make_machine ROOT: a bare Debian in ROOT/bare, unless there is one, and a copy of it in ROOT/machine.
make_machine() {
  local bare=$1/bare machine=$1/machine
  if [ ! -e "$bare/complete" ]; then
    echo "== a minimal Debian 12 in $bare, from $mirror"
    rm -rf --one-file-system "$bare"
    debootstrap --variant=minbase bookworm "$bare" "$mirror" >"$1/debootstrap.log" 2>&1 || {
      tail -20 "$1/debootstrap.log" >&2
      exit 1
    }
    touch "$bare/complete"
  fi
  rm -rf --one-file-system "$machine"
  cp -a "$bare" "$machine"
  rm "$machine/complete"
  # This machine's way to packages, whatever it is.
  rm -rf "$machine/etc/apt"
  cp -a /etc/apt "$machine/etc/apt"
  cp -a /usr/share/keyrings/. "$machine/usr/share/keyrings/"
  cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
}

# in_machine MACHINE USER HOME FOLDER COMMAND...: runs a command there, in a folder below HOME.
in_machine() {
  unshare --mount --pid --fork --kill-child bash -eu -c '
    machine=$1 who=$2 home=$3
    shift 3
    mount --make-rprivate /
    mount --bind "$machine" "$machine"
    mount -t proc proc "$machine/proc"
    mount -t sysfs -o ro sysfs "$machine/sys"
    mount --rbind /dev "$machine/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$machine/dev/shm"
    exec chroot --userspec="$who:$who" --groups="" "$machine" /usr/bin/env -i HOME="$home" \
      LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      bash -c "cd && cd \"\$0\" && exec \"\$@\"" "$@"
  ' bash "$@" </dev/null
}
