#!/bin/sh
# Launch commands for hosts_test: launch.sh MODE HOST AGENT...
mode=$1 host=$2
shift 2
case $mode in
  noisy) # as a login shell that says something
    printf 'Welcome to %s!\n' "$host"
    echo "and mind the step" >&2
    exec ip netns exec "$host" "$@"
    ;;
  garbage) # something else answers
    printf '\001weftrun agent, version 6\n'
    head -c 100000 /dev/zero | tr '\0' 'x'
    exec cat >/dev/null
    ;;
  bare) # without /proc
    exec ip netns exec "$host" unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$0" "$@"' "$@"
    ;;
  silent) exec sleep 1000 ;;
  one) # only the first host can be reached
    [ "$host" = h1 ] || { echo "no way to $host" >&2; exit 3; }
    exec ip netns exec "$host" "$@"
    ;;
esac
