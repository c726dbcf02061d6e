// What a bundler for browsers and edge runtimes takes in place of the package: one sentence. It must never need anything of a runtime.

throw Object.assign(
  new Error(
    '`@nexus/agent-engine` runs in Node.js, Bun and Deno, not in a browser or an edge runtime: use it in a server and send its runs to the page (`@nexus/agent-engine/web`, `/ai-sdk`). A bundle for a server needs the platform `node`, with the package as an external',
  ),
  { code: 'addon_not_loaded' },
)

export type {}
