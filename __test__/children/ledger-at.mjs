// The ledger that a name means, for specs and their processes: a path, or the URL of a server with a schema
// (`postgres://…#schema`). It must never open one.

/** The option `ledger` of an engine. */
export function ledgerAt(name, options = {}) {
  if (!name.startsWith('postgres')) return { path: name, ...options }
  const [url, schema] = name.split('#')
  // The sessions of a killed process are free after that time.
  const leaseMs = Number(process.env.LEASE_MS ?? 2_000)
  return { url, schema, pool: 4, leaseMs, ...options }
}
