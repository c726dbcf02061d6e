// Export and import between a file and PostgreSQL: the same lines in both directions, the same repair of a damaged file, and sessions of
// other systems. What a file alone does is in ledger/transfer/jsonl.spec.ts. It must never read a table.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AgentEngine, LedgerOptions, PostgresLedgerOptions } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { histories } from '../../support/ledger/dump.js'
import { hasPostgres, postgresServer } from '../../support/ledger/postgres.js'
import { refusal } from '../../support/ledger/sqlite3.js'
import { compactedTurn } from '../../support/ledger/turn-input.js'

const schema = postgresServer()
const live = test.skipIf(!hasPostgres)

const script = [
  {
    thinking: 'both',
    signature: 'c2ln',
    text: 'asking',
    toolCalls: [
      { id: 'call_0', name: 'add', arguments: { a: 1 } },
      { id: 'call_0', name: 'none' },
    ],
    usage: { inputTokens: 7, outputTokens: 3, reasoningTokens: 1 },
  },
  'grüße 🙂\u2028',
  'again',
  'other',
  { error: { status: 400, message: 'no' } },
]

const open = (ledger: LedgerOptions | PostgresLedgerOptions): AgentEngine =>
  closing(scriptedEngine(script as never, { ledger }).engine)

/** Tools, signatures, a fork, a failure, a compaction. */
async function everyKind(engine: AgentEngine): Promise<void> {
  const add = {
    name: 'add',
    parameters: { type: 'object', properties: { a: { type: 'number' } } },
    run: ({ a }: { a: number }) => ({ sum: a + 1 }),
  }
  const run = async (changes = {}) =>
    (await engine.run(context({ tools: [add], metadata: { k: 1 }, ...changes })).result).turnId
  const first = await run()
  await run()
  await engine.ledger.fork(first, 'branch')
  await run({ sessionLabel: 'branch' })
  await run({ sessionLabel: 'fails' })
  const head = (await engine.ledger.session('agent:main:main'))?.threadId as string
  await engine.ledger.writeTurn(context({ parentTurnId: head }), compactedTurn(first, head))
}

/** The lines of an export without the header, which has the time and the ledger. */
async function lines(engine: AgentEngine, path: string): Promise<string[]> {
  expect((await engine.ledger.export(path)).problems).toEqual([])
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(1)
}

for (const [from, to] of [
  ['a file', 'PostgreSQL'],
  ['PostgreSQL', 'a file'],
]) {
  live(`an export of ${from} is imported by ${to} and exported again unchanged`, async () => {
    const { path } = folder()
    const one = (kind: string | undefined) =>
      open(kind === 'a file' ? { path: join(path, 'a.db') } : schema())
    const source = one(from)
    await everyKind(source)
    const written = await lines(source, join(path, 'one.jsonl'))
    const target = one(to)
    for (const [turns, skippedTurns] of [
      [6, 0],
      [0, 6],
    ]) {
      const report = await target.ledger.import(join(path, 'one.jsonl'))
      expect(report).toMatchObject({ turns, skippedTurns, problems: [] })
    }
    expect(await lines(target, join(path, 'two.jsonl'))).toEqual(written)
    expect(await histories(target)).toEqual(await histories(source))
    expect(await target.ledger.verify()).toMatchObject({ ok: true, problems: [] })
    expect((await target.run(context()).result).stopReason).toBe('end_turn')
    expect((await refusal(target.ledger.export(join(path, 'two.jsonl')))).code).toBe(
      'storage_exists',
    )
    expect(
      (await refusal(target.ledger.export(join(path, 'no.jsonl'), { session: 'no' }))).code,
    ).toBe('unknown_session')
    expect(existsSync(join(path, 'no.jsonl'))).toBe(false)
  })
}

live('a damaged file is repaired as by a ledger in a file', async () => {
  const { path, file } = folder()
  const source = open({ path: file })
  await everyKind(source)
  const all = await lines(source, join(path, 'all.jsonl'))
  const turn = all.findIndex((line) => line.startsWith('{"type":"turn"'))
  // Without a session's line, without the first turn, and with a line that is no JSON.
  const damaged = ['{', ...all.slice(1, turn), ...all.slice(turn + 1)]
  writeFileSync(join(path, 'damaged.jsonl'), damaged.join('\n'))
  const [mended, expected] = [open(schema()), open({ path: join(path, 'b.db') })]
  const [one, two] = [
    await mended.ledger.import(join(path, 'damaged.jsonl')),
    await expected.ledger.import(join(path, 'damaged.jsonl')),
  ]
  expect(one).toEqual(two)
  expect(one.problems.map(({ code }) => code)).toContain('rebuilt')
  expect(await histories(mended)).toEqual(await histories(expected))
  expect((await mended.ledger.verify()).ok).toBe(true)
})

live('a session of another system has the same messages as in a file', async () => {
  const { path, file } = folder()
  const flat = [
    { role: 'user', content: 'hi', timestamp: 1 },
    { role: 'assistant', content: 'hello', timestamp: 2 },
  ]
  writeFileSync(join(path, 'chat.jsonl'), flat.map((line) => JSON.stringify(line)).join('\n'))
  const [one, two] = [open(schema()), open({ path: file })]
  for (const engine of [one, two]) {
    await engine.ledger.import(join(path, 'chat.jsonl'), { format: 'myclaw', session: 'chat' })
  }
  for (const format of ['myclaw', 'pi'] as const) {
    const written: string[] = []
    for (const [name, engine] of [
      ['one', one],
      ['two', two],
    ] as const) {
      const to = join(path, `${name}.${format}`)
      await engine.ledger.export(to, { format, session: 'chat' })
      written.push(readFileSync(to, 'utf8').replaceAll(/"id":"[^"]*"|"parentId":"[^"]*"/g, ''))
    }
    expect(written[0]).toBe(written[1])
  }
})
