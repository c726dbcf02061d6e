#!/usr/bin/env bash
# Runs a command (the whole check by default) TIMES times in a row (5), while two loops keep two cores busy: no test may
# depend on how fast the machine is. It must never leave a loop behind.
set -euo pipefail
cd "$(dirname "$0")/.."
loops=()
for _ in 1 2; do
  (while :; do :; done) &
  loops+=($!)
done
trap 'kill "${loops[@]}" 2>/dev/null || true' EXIT
[ $# -gt 0 ] || set -- bash scripts/test.sh
for ((run = 1; run <= ${TIMES:-5}; run++)); do
  printf '== under load, run %d of %d\n' "$run" "${TIMES:-5}"
  "$@"
done
