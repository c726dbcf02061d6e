// The engine's own JSONL: an export is imported unchanged, a damaged line loses only itself, and existing rows never move. Other
// formats are in ledger/transfer/pi.spec.ts and ledger/transfer/myclaw.spec.ts. It must never read a table.

import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { AgentEngine, AgentResultInput, ScriptedReply } from '../../../index.js'
import { pending } from '../../support/approvals.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { dump, histories } from '../../support/ledger/dump.js'
import { refusal } from '../../support/ledger/sqlite3.js'
import { compactedTurn, noUsage } from '../../support/ledger/turn-input.js'

function open(path: string, script: ScriptedReply[] = []): AgentEngine {
  return closing(scriptedEngine(script, { ledger: { path } }).engine)
}

const add = {
  name: 'add',
  parameters: { type: 'object', properties: { a: { type: 'number' } } },
  run: ({ a }: { a: number }) => ({ sum: a + 1 }),
}

/** Every kind of row of runs: tools, signatures, a failure, a fork, a session without a turn. */
async function everyKind(engine: AgentEngine): Promise<void> {
  const run = async (changes = {}) =>
    (await engine.run(context({ tools: [add], ...changes })).result).turnId
  const first = await run()
  await run()
  await run({ sessionLabel: 'other' })
  await engine.ledger.fork(first, 'branch')
  await run({ sessionLabel: 'branch' })
  await run({ sessionLabel: 'fails' })
  const head = (await engine.ledger.session('agent:main:main'))?.threadId as string
  await engine.ledger.writeTurn(context({ parentTurnId: head }), compacted(first, head))
}

const script: ScriptedReply[] = [
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
  'branched',
  { error: { status: 400, message: 'no' } } as ScriptedReply,
]

const someUsage = { ...noUsage, inputTokens: 1, outputTokens: 2, totalTokens: 3 }

const compacted = (through: string, firstKept: string) =>
  compactedTurn(through, firstKept, { usage: someUsage })

/** The lines of an export, with the path of a copy in which some are others. */
function changed(from: string, to: string, change: (lines: string[]) => void): string {
  const lines = readFileSync(from, 'utf8').trimEnd().split('\n')
  change(lines)
  writeFileSync(to, `${lines.join('\n')}\n`)
  return to
}

describe('export and import', () => {
  test('give the same ledger, row for row', async () => {
    const { path, file } = folder()
    const engine = open(file, script)
    await everyKind(engine)
    const to = join(path, 'all.jsonl')
    const { bytes, lines, ...reported } = await engine.ledger.export(to)
    expect(reported).toEqual({
      path: to,
      sessions: 4,
      turns: 7,
      openTurns: 0,
      problems: [],
      truncated: false,
      leftOut: {},
    })
    const text = readFileSync(to, 'utf8')
    expect({ bytes, lines }).toEqual({
      bytes: statSync(to).size,
      lines: text.split('\n').length - 1,
    })
    if (process.platform !== 'win32') expect(statSync(to).mode & 0o777).toBe(0o600)
    const other = open(join(path, 'other.db'))
    expect(await other.ledger.import(to)).toEqual({
      sessions: ['agent:main:main', 'branch', 'fails', 'other'],
      turns: 7,
      messages: (await engine.ledger.stats()).messages,
      toolCalls: 2,
      skippedTurns: 0,
      problems: [],
      truncated: false,
      leftOut: {},
    })
    expect(await dump(other)).toEqual(await dump(engine))
    expect(await histories(other)).toEqual(await histories(engine))
    expect(await other.ledger.verify()).toMatchObject({ ok: true, problems: [] })
    // A second import adds nothing.
    expect(await other.ledger.import(to)).toMatchObject({ turns: 0, skippedTurns: 7, problems: [] })
    expect(await dump(other)).toEqual(await dump(engine))
    // A second export has the same lines, except for the time and the author.
    await other.ledger.export(join(path, 'again.jsonl'))
    const again = readFileSync(join(path, 'again.jsonl'), 'utf8')
    expect(again.split('\n').slice(1)).toEqual(text.split('\n').slice(1))
  })

  test('have the decisions about the calls of a turn, with nothing left to decide', async () => {
    const { path, file } = folder()
    const calls = [1, 2, 3].map((n) => ({ name: 'pay', arguments: { n } }))
    const engine = open(file, [{ toolCalls: calls }, 'done'])
    const pay = { name: 'pay', permission: 'ask' as const, run: () => 'paid' }
    const run = engine.run(context({ tools: [pay] }))
    const [first, second, third] = await pending(engine, 3)
    await engine.deny(first?.id as string, { reason: 'no', by: 'eve' })
    await engine.approve(second?.id as string, { params: { n: 5 }, by: 'bob' })
    await engine.abortSession('agent:main:main')
    expect((await run.result).stopReason).toBe('aborted')
    const { items } = await engine.approvals()
    expect(items.map(({ status }) => status)).toEqual(['denied', 'approved', 'cancelled'])
    const to = join(path, 'all.jsonl')
    await engine.ledger.export(to)
    const other = open(join(path, 'other.db'))
    expect((await other.ledger.import(to)).problems).toEqual([])
    expect((await other.approvals()).items).toEqual(items)
    expect(await dump(other)).toEqual(await dump(engine))
    // A file in which one is still pending makes nobody decide about it.
    const again = open(join(path, 'again.db'))
    const lines = changed(to, join(path, 'changed.jsonl'), (lines) => {
      const last = lines.length - 1
      lines[last] = (lines[last] as string).replace('"cancelled"', '"pending"')
    })
    expect((await again.ledger.import(lines)).problems).toEqual([])
    expect((await again.approvals()).items).toEqual(items)
    expect((await again.ledger.verify()).problems).toEqual([])
    await expect(again.approve(third?.id as string)).rejects.toMatchObject({
      code: 'already_decided',
    })
  })

  test('an imported session continues', async () => {
    const { path, file } = folder()
    const engine = open(file, script)
    await everyKind(engine)
    await engine.ledger.export(join(path, 'all.jsonl'))
    const { engine: other, provider } = scriptedEngine(['on'], {
      ledger: { path: join(path, 'o.db') },
    })
    closing(other)
    await other.ledger.import(join(path, 'all.jsonl'))
    const { persisted, turnId } = await other.run(context({ sessionLabel: 'branch' })).result
    expect(persisted).toBe(true)
    const before = await engine.ledger.session('branch')
    expect((await other.ledger.turn(turnId))?.parentTurnId).toBe(before?.threadId)
    expect(JSON.stringify(provider.requests[0])).toContain('branched')
  })

  test('random ledgers are exported and imported unchanged, and whole', async () => {
    const { path } = folder()
    for (let seed = 1; seed <= 6; seed++) {
      const engine = open(join(path, `from-${seed}.db`))
      await randomLedger(engine, seed, 25)
      const to = join(path, `${seed}.jsonl`)
      await engine.ledger.export(to)
      const other = open(join(path, `to-${seed}.db`))
      const { problems } = await other.ledger.import(to)
      expect({ seed, problems, dump: await dump(other) }).toEqual({
        seed,
        problems: [],
        dump: await dump(engine),
      })
      expect(await histories(other)).toEqual(await histories(engine))
      expect(await other.ledger.verify()).toMatchObject({ ok: true })
      await Promise.all([engine.close(), other.close()])
    }
  })

  test('of one session, with the turns of its origin', async () => {
    const { path, file } = folder()
    const engine = open(file, script)
    await everyKind(engine)
    const to = join(path, 'branch.jsonl')
    expect(await engine.ledger.export(to, { session: 'branch' })).toMatchObject({
      sessions: 2,
      turns: 2,
    })
    const other = open(join(path, 'other.db'))
    expect(await other.ledger.import(to)).toMatchObject({ turns: 2, problems: [] })
    expect(await other.ledger.history('branch')).toEqual(await engine.ledger.history('branch'))
    expect(await other.ledger.session('branch')).toEqual(await engine.ledger.session('branch'))
    expect(await other.ledger.session('agent:main:main')).toMatchObject({ threadId: null })
    expect(await other.ledger.verify()).toMatchObject({ ok: true })
  })

  test('a running turn is not in it', async () => {
    const { path, file } = folder()
    const { engine, provider } = scriptedEngine(['done', { gate: 'go', text: 'x' }], {
      ledger: { path: file },
    })
    closing(engine)
    await engine.run(context()).result
    const run = engine.run(context())
    await expect.poll(() => provider.requests.length).toBe(2)
    expect(await engine.ledger.export(join(path, 'a.jsonl'))).toMatchObject({
      turns: 1,
      openTurns: 1,
    })
    provider.open('go')
    await run.result
    expect(await engine.ledger.export(join(path, 'b.jsonl'))).toMatchObject({
      turns: 2,
      openTurns: 0,
    })
  })
})

describe('damage', () => {
  test.each([
    ['noise', (line: string) => `${line.slice(0, line.length / 2)}`, 'damaged_line'],
    ['another shape', () => '{"type":"turn","id":5}', 'invalid_line'],
    ['an unknown type', () => '{"type":"secret-word"}', 'invalid_line'],
  ])('of any one line (%s) costs that line alone', async (_name, damage, code) => {
    const { path, file } = folder()
    const engine = open(file, script)
    await everyKind(engine)
    const whole = join(path, 'all.jsonl')
    const { lines } = await engine.ledger.export(whole)
    const all = new Map((await dump(engine)).turns?.map((turn: any) => [turn.id, turn]))
    for (let at = 0; at < lines; at++) {
      const hurt = changed(whole, join(path, `hurt-${at}.jsonl`), (lines) => {
        lines[at] = damage(lines[at] ?? '')
      })
      const other = open(join(path, `hurt-${at}.db`))
      const { problems, turns } = await other.ledger.import(hurt)
      expect(
        problems.filter(({ line }) => line === at + 1).map((reported) => reported.code),
      ).toEqual([code])
      expect(JSON.stringify(problems)).not.toContain('secret-word')
      // One header, four sessions, seven turns.
      expect({ at, turns }).toEqual({ at, turns: at < 5 ? 7 : 6 })
      const { turns: left } = await dump(other)
      for (const turn of left as any[]) {
        const was = all.get(turn.id)
        expect({ ...turn, parent_turn_id: 0, depth: 0, thread_tokens: 0, has_children: 0 }).toEqual(
          {
            ...was,
            parent_turn_id: 0,
            depth: 0,
            thread_tokens: 0,
            has_children: 0,
          },
        )
      }
      expect({ at, ...(await other.ledger.verify()) }).toMatchObject({ at, ok: true, problems: [] })
      await other.close()
    }
  })

  test('a lost turn in the middle: its children follow its parent', async () => {
    const { path, file } = folder()
    const engine = open(file, ['a', 'b', 'c'])
    const ids: string[] = []
    for (let i = 0; i < 3; i++) ids.push((await engine.run(context()).result).turnId)
    await engine.ledger.export(join(path, 'all.jsonl'))
    const hurt = changed(join(path, 'all.jsonl'), join(path, 'hurt.jsonl'), (lines) => {
      lines[3] = '\u0000'
    })
    const other = open(join(path, 'other.db'))
    const { problems } = await other.ledger.import(hurt)
    expect(problems.map(({ line, code }) => ({ line, code }))).toEqual([
      { line: 4, code: 'damaged_line' },
      { line: 5, code: 'reattached' },
    ])
    expect(await other.ledger.turn(ids[2] as string)).toMatchObject({
      parentTurnId: ids[0],
      depth: 1,
    })
    expect((await other.ledger.history('agent:main:main')).map(({ content }) => content)).toEqual([
      'hi',
      'a',
      'hi',
      'c',
    ])
  })

  test('an unreadable turn is reported, and the others are exported', async () => {
    const { path, file } = folder()
    const first = open(file, ['the first', 'the second'])
    const one = (await first.run(context()).result).turnId
    await first.run(context()).result
    await first.close()
    const bytes = readFileSync(file)
    bytes[bytes.indexOf('the first')] = 0x54
    writeFileSync(file, bytes)
    const engine = open(file)
    const { turns, problems } = await engine.ledger.export(join(path, 'all.jsonl'))
    expect({ turns, problems }).toEqual({
      turns: 1,
      problems: [{ line: null, code: 'unreadable', message: expect.stringContaining(one) }],
    })
    const other = open(join(path, 'other.db'))
    expect(await other.ledger.import(join(path, 'all.jsonl'))).toMatchObject({ turns: 1 })
    expect(await other.ledger.verify()).toMatchObject({ ok: true })
  })

  test('an existing session retains its head, and the report has the head in the file', async () => {
    const { path, file } = folder()
    const engine = open(file, ['theirs'])
    const theirs = (await engine.run(context()).result).turnId
    await engine.ledger.export(join(path, 'all.jsonl'))
    const other = open(join(path, 'other.db'), ['mine'])
    const mine = (await other.run(context()).result).turnId
    const { turns, sessions, problems } = await other.ledger.import(join(path, 'all.jsonl'))
    expect({ turns, sessions, problems }).toEqual({
      turns: 1,
      sessions: [],
      problems: [{ line: 2, code: 'session_exists', message: expect.stringContaining(theirs) }],
    })
    expect((await other.ledger.session('agent:main:main'))?.threadId).toBe(mine)
    expect((await other.ledger.fork(theirs)).threadId).toBe(theirs)
  })
})

describe('refusals', () => {
  test('an invalid file is refused, and nothing is written', async () => {
    const { path, file } = folder()
    const { ledger } = open(file)
    const none = { code: 'invalid_import', field: 'path' }
    const make = (name: string, text: string) => {
      writeFileSync(join(path, name), text)
      return join(path, name)
    }
    expect(await refusal(ledger.import(join(path, 'missing')))).toEqual(none)
    expect(await refusal(ledger.import(path))).toEqual(none)
    expect(await refusal(ledger.import(make('empty', '')))).toEqual(none)
    expect(await refusal(ledger.import(make('html', '<html>\n</html>\n')))).toEqual(none)
    expect(await refusal(ledger.import(make('json', '{"a":1}\n[]\n5\n')))).toEqual(none)
    const newer = '{"type":"ledger","format":"nexus-agent-ledger","version":2}\n'
    expect(await refusal(ledger.import(make('newer', newer)))).toEqual(none)
    const foreign = '{"type":"ledger","format":"hledger","version":1}\n'
    expect(await refusal(ledger.import(make('foreign', foreign)))).toEqual(none)
    const pi = '{"type":"session","version":3,"id":"x","timestamp":"","cwd":"/"}\n'
    expect(await refusal(ledger.import(make('pi', pi)))).toEqual(none)
    expect(await ledger.stats()).toMatchObject({ sessions: 0 })
  })

  test('wrong options and arguments are named', async () => {
    const { path, file } = folder()
    const { ledger } = open(file)
    const to = join(path, 'x')
    expect(await refusal(ledger.export(1 as never))).toEqual({
      code: 'invalid_options',
      field: 'path',
    })
    expect(await refusal(ledger.export(to, { format: 'csv' as never }))).toEqual({
      code: 'invalid_options',
      field: 'format',
    })
    expect(await refusal(ledger.export(to, { format: 'pi' }))).toEqual({
      code: 'invalid_options',
      field: 'session',
    })
    expect(await refusal(ledger.export(to, { label: 'x' } as never))).toEqual({
      code: 'invalid_options',
      field: 'label',
    })
    expect(await refusal(ledger.import(to, { session: 'x' }))).toEqual({
      code: 'invalid_options',
      field: 'session',
    })
    expect(await refusal(ledger.export(to, { session: 'none' }))).toEqual({
      code: 'unknown_session',
    })
    expect(readdirSync(path).filter((name) => name.startsWith('x'))).toEqual([])
    writeFileSync(to, 'mine')
    expect(await refusal(ledger.export(to))).toEqual({ code: 'storage_exists', field: 'path' })
    expect(readFileSync(to, 'utf8')).toBe('mine')
  })
})

/** Turns in a random tree: sessions, forks, roots, calls, compactions, texts of every kind. */
async function randomLedger(engine: AgentEngine, seed: number, turns: number): Promise<void> {
  let state = seed
  const pick = (below: number) => {
    // A linear congruential generator: random enough, and the same everywhere.
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  const texts = ['', 'a', 'ü\n"\\', '🙂', '\u0000', 'x'.repeat(5000), '{"json":1}', '\ufffd']
  const text = () => texts[pick(texts.length)] as string
  const written: string[] = []
  const labels: string[] = []
  for (let i = 0; i < turns; i++) {
    let label = labels[pick(labels.length + 1)]
    if (label === undefined) {
      label = `s${labels.length}:${text().slice(0, 3).replaceAll('\u0000', '').replaceAll('\n', '')}`
      const from = written[pick(written.length + 1)]
      if (from !== undefined) await engine.ledger.fork(from, label)
      labels.push(label)
    }
    const head = (await engine.ledger.session(label))?.threadId ?? null
    const parent = head === null ? null : await engine.ledger.turn(head)
    const calls = pick(3)
    const result: AgentResultInput = {
      messages: [
        { id: `q${i}`, role: 'user', content: text(), sequence: 0, createdAt: i },
        {
          id: `a${i}`,
          role: 'assistant',
          content: text(),
          thinking: text(),
          sequence: 1,
          createdAt: i,
        },
        ...Array.from({ length: calls }, (_, n) => ({
          id: `r${i}-${n}`,
          role: 'tool' as const,
          content: text(),
          toolCallId: 'call_0',
          sequence: 2 + n,
          createdAt: i,
        })),
      ],
      toolCalls: Array.from({ length: calls }, (_, n) => ({
        id: 'call_0',
        toolName: 'read',
        params: { of: text() },
        result: text(),
        status: 'completed' as const,
        startedAt: i,
        completedAt: i + 1,
        sequence: n,
      })),
      usage: { ...someUsage, inputTokens: pick(100) },
      stopReason: (['end_turn', 'aborted', 'error'] as const)[pick(3)] as 'end_turn',
      durationMs: pick(10),
    }
    if (parent?.parentTurnId && pick(3) === 0) {
      const { compaction } = compacted(parent.parentTurnId, parent.id)
      if (compaction) result.compaction = compaction
    }
    written.push(
      await engine.ledger.writeTurn(context({ sessionLabel: label, parentTurnId: head }), result),
    )
  }
}
