#!/bin/sh
# Nothing is lost by a program that ends well, as valgrind sees it with the suppressions that are
# installed: valgrind_test.sh WEFTRUN PROGRAM SUPPRESSIONS, with WEFT_FABRIC set. Skipped (77) without valgrind.
set -u
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
WEFT_PEER_TIMEOUT_MS=60000 exec "$1" -n 2 --timeout 250 valgrind -q --leak-check=full \
  --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect --error-exitcode=9 \
  --suppressions="$3" "$2"
