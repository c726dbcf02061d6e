// `show`: the messages of a session, or a turn with its calls. It must never write to the ledger.

import type { Block, Ledger, TurnRow } from '../../../index.d.ts'
import { type Context, type Run, usingLedger } from '../context.ts'
import { CommandError, EXIT } from '../exit-codes.ts'
import { count, duration, money, time } from '../output/format.ts'
import type { Output } from '../output/output.ts'

/** The most lines of a tool's result. */
const LINES = 20
const ULID = /^[0-9A-HJKMNP-TV-Z]{26}$/

type Message = Pick<TurnRow['messages'][number], 'role' | 'createdAt' | 'thinking' | 'isError'> & {
  blocks: readonly Block[]
}

const show: Run = (context) =>
  usingLedger(context, async (ledger) => {
    const [name = ''] = context.operands
    if (ULID.test(name)) {
      const turn = await ledger.turn(name)
      if (turn !== null) return showTurn(context, turn)
    }
    return showSession(context, ledger, name)
  })

async function showSession(context: Context, ledger: Ledger, label: string): Promise<number> {
  const { out, json } = context
  const session = await ledger.session(label)
  if (session === null) {
    throw new CommandError(
      EXIT.notFound,
      `there is no session or turn \`${label.slice(0, 100)}\`; list them with nexus-agent sessions`,
    )
  }
  const messages = session.threadId === null ? [] : await ledger.history(session.threadId)
  for (const message of messages) {
    if (json) out.json(message)
    else showMessage(out, message)
  }
  return EXIT.ok
}

function showTurn({ out, json }: Context, turn: TurnRow): number {
  if (json) {
    out.json(turn)
    return EXIT.ok
  }
  const { id, sessionLabel, status, stopReason, startedAt, completedAt, usage, cost, error } = turn
  const took = completedAt === null ? '' : `, ${duration(completedAt - startedAt)}`
  out.table(
    ['', ''],
    [
      ['turn', id],
      ['session', sessionLabel],
      ['after', turn.parentTurnId ?? '-'],
      ['began', `${time(startedAt)}${took}`],
      ['ended', stopReason === null ? status : `${status} (${stopReason})`],
      ['model', turn.model === null ? '-' : `${turn.provider} ${turn.model}`],
      ['tokens', count(usage.totalTokens)],
      ['cost', money(cost)],
      ...(error === null ? [] : [['error', `${error.kind}: ${error.message}`]]),
      ...turn.attempts
        .filter(({ ok }) => !ok)
        .map(({ provider, model, reason, status }) => [
          'failed',
          `${provider} ${model}: ${reason ?? status ?? 'unknown'}`,
        ]),
    ],
  )
  for (const message of turn.messages) showMessage(out, message)
  if (turn.compaction !== null) out.line(`\n${out.safe(turn.compaction.summary)}`)
  return EXIT.ok
}

function showMessage(out: Output, { role, createdAt, thinking, blocks, isError }: Message): void {
  const failed = isError === true ? out.style('red', ' failed') : ''
  out.line(`\n${out.style('bold', role)}${failed} ${out.style('dim', time(createdAt))}`)
  if (thinking !== undefined && thinking !== '') out.line(out.style('dim', out.safe(thinking)))
  for (const block of blocks) {
    const text = textOf(out, block)
    if (text !== undefined) out.line(text)
  }
}

function textOf(out: Output, block: Block): string | undefined {
  switch (block.type) {
    case 'text':
      return block.origin === undefined
        ? out.safe(block.text)
        : out.style('dim', out.safe(block.text))
    case 'tool_call':
      return out.style('cyan', `> ${out.safe(block.name)} ${out.safe(block.argumentsJson)}`)
    case 'tool_result': {
      const texts = block.content.map((part) =>
        part.type === 'text' ? part.text : `[${part.type}]`,
      )
      return shortened(out.safe(texts.join('\n')))
    }
    case 'image':
      return '[image]'
    default:
      return undefined
  }
}

function shortened(text: string): string {
  const lines = text.split('\n')
  if (lines.length <= LINES) return text
  return [
    ...lines.slice(0, LINES),
    `… ${count(lines.length - LINES)} more lines (--json has all)`,
  ].join('\n')
}

export { show }
