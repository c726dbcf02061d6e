#!/usr/bin/env bash
# Owns the proof by the protocol's own scenarios for MCP clients: installs them beside the package, and runs each with an engine as the
# client. Left out are extensions of the protocol: a client that signs its own statement (`client-credentials-jwt`), and access through another
# application (`cross-app-access`). It must never run anything that the packages would run when they are installed.
set -euo pipefail
cd "$(dirname "$0")/../../.."
(cd scripts/runtimes/mcp && npm ci --no-audit --no-fund --ignore-scripts)
node=$(node scripts/nodes.mjs | awk '$1 >= 22 { print $2; exit }')
if [ -z "$node" ]; then
  echo 'The scenarios need Node.js 22: run `npm ci` in scripts/nodes' >&2
  exit 1
fi
auth='metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate scope-from-scopes-supported
  scope-omitted-when-undefined scope-step-up scope-retry-limit token-endpoint-auth-basic token-endpoint-auth-post token-endpoint-auth-none
  pre-registration 2025-03-26-oauth-metadata-backcompat 2025-03-26-oauth-endpoint-fallback resource-mismatch offline-access-scope
  offline-access-not-supported'
for scenario in initialize tools_call elicitation-sep1034-client-defaults sse-retry $(printf 'auth/%s ' $auth); do
  "$node" scripts/runtimes/mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js client \
    --scenario "$scenario" --command "$node __test__/children/mcp/conformance.mjs"
done
# A client that logs in as itself, without a user.
CONFORMANCE_USER=0 "$node" scripts/runtimes/mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js client \
  --scenario auth/client-credentials-basic --command "$node __test__/children/mcp/conformance.mjs"
