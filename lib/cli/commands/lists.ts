// `sessions`, `usage` and `search`: what the ledger has, as tables or JSON lines. It must never write to the ledger.

import type { UsageBy } from '../../../index.d.ts'
import { number, text, wrong } from '../arguments.ts'
import { pages, type Run, usingLedger } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { count, money, time } from '../output/format.ts'

/** How many items a list has where nobody says. */
const LIMIT = 50
const PAGE = 200

const sessions: Run = (context) => {
  const { out, values, json } = context
  const limit = number(values, 'limit', LIMIT)
  return usingLedger(context, async (ledger) => {
    const rows = await pages(
      (after: string | undefined) => ledger.sessions({ limit: Math.min(limit, PAGE), after }),
      limit,
    )
    if (json) for (const row of rows) out.json(row)
    else {
      out.table(
        ['session', 'agent', 'last used', 'status', 'head'],
        rows.map(({ label, agentId, updatedAt, status, threadId }) => [
          label,
          agentId,
          time(updatedAt),
          status,
          threadId ?? '-',
        ]),
      )
    }
    return EXIT.ok
  })
}

const usage: Run = (context) => {
  const { out, values, json } = context
  const limit = number(values, 'limit', LIMIT)
  const by = (text(values, 'by') ?? 'model') as UsageBy
  const since = dateOf(text(values, 'since'))
  return usingLedger(context, async (ledger) => {
    const rows = await pages(
      (after: string | undefined) =>
        ledger.usage({
          by,
          limit: Math.min(limit, PAGE),
          after,
          ...(since !== undefined && { since }),
        }),
      limit,
    )
    if (json) for (const row of rows) out.json(row)
    else {
      out.table(
        [by, 'turns', 'input', 'cached', 'output', 'total', 'cost'],
        rows.map(({ key, turns, usage, cost }) => [
          key,
          count(turns),
          count(usage.inputTokens),
          count(usage.cachedInputTokens + usage.cacheWriteTokens),
          count(usage.outputTokens),
          count(usage.totalTokens),
          money(cost),
        ]),
      )
    }
    return EXIT.ok
  })
}

function dateOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  const at = Date.parse(given)
  if (Number.isNaN(at)) throw wrong('--since is no date, such as 2026-01-31', 'usage')
  return at
}

const search: Run = (context) => {
  const { out, values, operands, json } = context
  const limit = number(values, 'limit', LIMIT)
  const sessionLabel = text(values, 'session')
  const words = operands.join(' ')
  return usingLedger(context, async (ledger) => {
    const hits = await pages(
      (after: number | undefined) =>
        ledger.search(words, { limit: Math.min(limit, PAGE), after, sessionLabel }),
      limit,
    )
    for (const hit of hits) {
      if (json) out.json(hit)
      else {
        const { createdAt, sessionLabel, role, excerpt, turnId } = hit
        const where = `${time(createdAt)}  ${sessionLabel}  ${role}  ${turnId}`
        out.line(out.style('dim', out.safe(where)))
        out.line(`  ${out.short(excerpt, 300)}`)
      }
    }
    return EXIT.ok
  })
}

export { search, sessions, usage }
