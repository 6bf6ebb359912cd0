#!/bin/bash
# hard_limit_test.sh EXCHANGE_TEST: a process that may never have the descriptors that its ranks
# need says so, and no rank waits for another one or calls it lost.
set -eu
text=$(mktemp)
trap 'rm -f "$text"' EXIT
export WEFT_FABRIC=tcp WEFT_INTERFACE=lo
for limit in 256 1024; do
  if timeout 30 prlimit --nofile=$limit:$limit "$1" \
    'all messages arrive once*' > "$text" 2>&1; then
    echo "64 ranks have the descriptors that they need, of $limit"
    exit 1
  fi
  # Catch breaks long lines.
  tr -s ' \n' ' ' < "$text" | grep -q "may open $limit, of which .* raise the hard limit (ulimit -Hn)" || {
    cat "$text"
    exit 1
  }
  if grep -q 'is lost\|too long' "$text"; then
    cat "$text"
    exit 1
  fi
done
echo as expected
