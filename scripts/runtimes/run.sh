#!/usr/bin/env bash
# Owns the proof in other runtimes: installs Bun and Deno beside the package, and runs the spec that needs them. It must never run
# anything that the packages would run when they are installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
(cd scripts/runtimes && npm ci --no-audit --no-fund --ignore-scripts)
exec node node_modules/vitest/vitest.mjs run --project package __test__/package/runtimes.spec.ts
