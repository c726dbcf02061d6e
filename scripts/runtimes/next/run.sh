#!/usr/bin/env bash
# Owns the proof in Next.js: installs it beside the package, and runs the specs of bundlers. It must never run anything that the packages
# would run when they are installed.
set -euo pipefail
cd "$(dirname "$0")/../../.."
(cd scripts/runtimes/next && npm ci --no-audit --no-fund --ignore-scripts)
exec node node_modules/vitest/vitest.mjs run --project package __test__/package/next.spec.ts __test__/package/bundlers.spec.ts
