// `tree`: turns under the turn that they continue, with the sessions that point at them. It must never write to the ledger.

import type { Ledger, TurnSummary } from '../../../index.d.ts'
import { number } from '../arguments.ts'
import { type Context, pages, type Run, usingLedger } from '../context.ts'
import { CommandError, EXIT } from '../exit-codes.ts'
import { count, counted, time } from '../output/format.ts'

const LIMIT = 50
const PAGE = 200
/** So many turns are read for a tree at most. */
const MOST = 100_000

const tree: Run = (context) => {
  const limit = number(context.values, 'limit', LIMIT)
  const [label] = context.operands
  return usingLedger(context, async (ledger) => {
    const turns =
      label === undefined ? await newest(ledger, limit) : await around(ledger, label, limit)
    if (context.json) for (const turn of turns) context.out.json(turn)
    else await draw(context, ledger, turns)
    return EXIT.ok
  })
}

/** The newest turns of the ledger, oldest first. */
async function newest(ledger: Ledger, limit: number): Promise<TurnSummary[]> {
  const all = await pages((after: string | undefined) => ledger.turns({ limit: PAGE, after }), MOST)
  return all.slice(-limit)
}

/** The turns of a session, newest first, and those that branch off from them. */
async function around(ledger: Ledger, label: string, limit: number): Promise<TurnSummary[]> {
  const session = await ledger.session(label)
  if (session === null) {
    throw new CommandError(EXIT.notFound, `there is no session \`${label.slice(0, 100)}\``)
  }
  if (session.threadId === null) return []
  const head = session.threadId
  const found = new Map<string, TurnSummary>()
  const thread = await pages(
    (after: string | undefined) => ledger.ancestry(head, { limit: Math.min(limit, PAGE), after }),
    limit,
  )
  for (const turn of thread) found.set(turn.id, turn)
  const open = [...thread]
  for (let turn = open.shift(); turn !== undefined && found.size < limit; turn = open.shift()) {
    if (!turn.hasChildren) continue
    const { id } = turn
    const children = await pages(
      (after: string | undefined) => ledger.children(id, { limit: PAGE, after }),
      limit,
    )
    for (const child of children) {
      if (found.has(child.id)) continue
      found.set(child.id, child)
      open.push(child)
    }
  }
  return [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

async function draw({ out }: Context, ledger: Ledger, turns: readonly TurnSummary[]) {
  const sessions = await pages(
    (after: string | undefined) => ledger.sessions({ limit: PAGE, after }),
    MOST,
  )
  const heads = grouped(sessions, ({ threadId }) => threadId)
  const shown = new Set(turns.map(({ id }) => id))
  const children = grouped(turns, ({ parentTurnId }) =>
    parentTurnId !== null && shown.has(parentTurnId) ? parentTurnId : null,
  )
  const describe = (turn: TurnSummary) => {
    const { id, turnType, status, model, startedAt, usage, toolCallCount } = turn
    const what = turnType === 'compaction' ? 'compaction' : (model ?? '-')
    const calls = toolCallCount === 0 ? '' : `, ${counted(toolCallCount, 'call')}`
    const names = (heads.get(id) ?? []).map(({ label }) => label)
    return [
      id,
      out.style('dim', time(startedAt)),
      status === 'completed' ? status : out.style('red', status),
      out.safe(what),
      out.style('dim', `${count(usage.totalTokens)} tokens${calls}`),
      ...(names.length === 0 ? [] : [out.style('green', out.safe(`<- ${names.join(', ')}`))]),
    ].join('  ')
  }
  // A thread has no limit: a loop, and no recursion along it.
  const draws = (children.get(null) ?? []).map((turn) => ({ turn, first: '', below: '' })).reverse()
  for (let each = draws.pop(); each !== undefined; each = draws.pop()) {
    const { turn, first, below } = each
    out.line(`${first}${describe(turn)}`)
    const next = children.get(turn.id) ?? []
    const branches = next.map((child, at) => {
      if (next.length === 1) return { turn: child, first: below, below }
      const isLast = at === next.length - 1
      return {
        turn: child,
        first: `${below}${isLast ? '└─ ' : '├─ '}`,
        below: `${below}${isLast ? '   ' : '│  '}`,
      }
    })
    draws.push(...branches.reverse())
  }
}

function grouped<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string | null,
): Map<string | null, Item[]> {
  const groups = new Map<string | null, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [item])
    else group.push(item)
  }
  return groups
}

export { tree }
