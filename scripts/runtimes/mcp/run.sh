#!/usr/bin/env bash
# Owns the proof by the protocol's own scenarios for MCP clients: installs them beside the package, and runs each with an engine as the
# client. Those of `auth/` are left out: an engine has no OAuth flow, the host gives the token. It must never run anything that the
# packages would run when they are installed.
set -euo pipefail
cd "$(dirname "$0")/../../.."
(cd scripts/runtimes/mcp && npm ci --no-audit --no-fund --ignore-scripts)
node=$(node scripts/nodes.mjs | awk '$1 >= 22 { print $2; exit }')
if [ -z "$node" ]; then
  echo 'The scenarios need Node.js 22: run `npm ci` in scripts/nodes' >&2
  exit 1
fi
for scenario in initialize tools_call elicitation-sep1034-client-defaults sse-retry; do
  "$node" scripts/runtimes/mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js client \
    --scenario "$scenario" --command "$node __test__/children/mcp/conformance.mjs"
done
