// The names of all options of an engine. A test must never list them again: it would miss a new one.

export const ENGINE_OPTIONS = [
  'providers',
  'authProfiles',
  'models',
  'ledger',
  'toolTimeoutMs',
  'compaction',
  'failover',
  'rateGovernor',
  'contextGuard',
  'pruning',
  'budgets',
  'memory',
  'onRequest',
  'recovery',
  'toolsFor',
]
