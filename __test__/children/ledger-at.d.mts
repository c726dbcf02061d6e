import type { LedgerOptions, PostgresLedgerOptions } from '../../index.js'

export function ledgerAt(
  name: string,
  options?: { leaseMs?: number },
): LedgerOptions | PostgresLedgerOptions
