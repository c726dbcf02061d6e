// The sessions of pi: every version is imported, version 3 is exported, with the tree, compactions and branch summaries of pi. An
// oracle (support/ledger/pi-session.ts) computes the context of a session by pi's own rule. It must never share code with the import.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { AgentEngine, ScriptedReply } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import {
  assistant,
  call,
  type Entry,
  header,
  piContext,
  randomSession,
  text,
  time,
  toolResult,
  user,
  wholeSession,
} from '../../support/ledger/pi-session.js'
import { thinkingCall } from '../../support/ledger/scripted-ledger.js'
import { refusal } from '../../support/ledger/sqlite3.js'

function open(path: string, script: ScriptedReply[] = []): AgentEngine {
  return closing(scriptedEngine(script, { ledger: { path } }).engine)
}

function write(path: string, entries: (Entry | string)[]): string {
  const lines = entries.map((entry) => (typeof entry === 'string' ? entry : JSON.stringify(entry)))
  writeFileSync(path, `${lines.join('\n')}\n`)
  return path
}

const read = (path: string): Entry[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

async function historyOf(engine: AgentEngine, label: string): Promise<[string, string][]> {
  return (await engine.ledger.history(label)).map(({ role, content }) => [role, content])
}

describe('a session of pi', () => {
  test('has a row for each call, with its result or without one', async () => {
    const { path, file } = folder()
    const engine = open(file)
    const said = [
      user('go', 1),
      assistant([call('c1'), call('c2')], 2),
      toolResult('c1', 'seen', 3),
      user('go on', 4),
    ]
    const entries = said.map((message, at) => {
      const parentId = at === 0 ? null : `e${at - 1}`
      return { type: 'message', id: `e${at}`, parentId, timestamp: time(at), message }
    })
    await engine.ledger.import(write(join(path, 'calls.jsonl'), [header(3), ...entries]), {
      format: 'pi',
    })
    const { items } = await engine.ledger.toolCalls({ sessionLabel: `pi:${header().id}` })
    expect(items.map(({ id, status, error }) => [id, status, error]).sort()).toEqual([
      ['c1', 'completed', undefined],
      ['c2', 'failed', 'interrupted'],
    ])
  })

  test('has the same context as in pi, its origin, and its turns', async () => {
    const { path, file } = folder()
    const engine = open(file)
    const from = write(join(path, 'pi.jsonl'), wholeSession())
    const label = `pi:${header().id}`
    expect(await engine.ledger.import(from, { format: 'pi' })).toMatchObject({
      sessions: [label],
      turns: 7,
      messages: 16,
      toolCalls: 2,
      problems: [],
      leftOut: {},
    })
    expect(await historyOf(engine, label)).toEqual(piContext(wholeSession()))
    expect(await engine.ledger.session(label)).toMatchObject({
      origin: 'pi',
      originSessionId: header().id,
      createdAt: Date.parse(header().timestamp),
    })
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
    const { rows } = await engine.ledger.query('SELECT id FROM turns WHERE depth = 0')
    const first = await engine.ledger.turn(String(rows[0]?.id))
    expect(first).toMatchObject({
      status: 'completed',
      stopReason: 'end_turn',
      model: 'claude-sonnet-4-5',
      provider: 'anthropic',
      workspacePath: '/work/space',
      usage: {
        inputTokens: 6,
        outputTokens: 382,
        cachedInputTokens: 20,
        cacheWriteTokens: 3368,
        totalTokens: 3776,
      },
      cost: 0.6,
      contextTokens: 1888,
      toolCalls: [
        {
          id: 'toolu_1',
          toolName: 'read',
          params: { path: 'a.md', limit: 5 },
          result: 'of a',
          status: 'completed',
        },
        { id: 'toolu_2', error: 'no such file', status: 'failed' },
      ],
    })
    expect(first?.messages[1]?.blocks[0]).toEqual({
      type: 'thinking',
      thinking: 'hm',
      signature: 'c2ln',
    })
    const { rows: last } = await engine.ledger.query(
      'SELECT t.status, t.stop_reason FROM sessions s JOIN turns t ON t.id = s.thread_id',
    )
    expect(last).toEqual([{ status: 'aborted', stop_reason: 'aborted' }])
  })

  test('continues here, and the model receives what pi would have sent', async () => {
    const { path, file } = folder()
    const { engine, provider } = scriptedEngine(['on'], { ledger: { path: file } })
    closing(engine)
    await engine.ledger.import(write(join(path, 'pi.jsonl'), wholeSession()), {
      format: 'pi',
      session: 'mine',
    })
    const { persisted } = await engine.run(context({ sessionLabel: 'mine' })).result
    expect(persisted).toBe(true)
    const requested = JSON.stringify(provider.requests[0])
    for (const [, words] of piContext(wholeSession()))
      expect(requested).toContain(JSON.stringify(words).slice(1, -1))
    expect(requested).not.toContain('first question')
  })

  test('is exported as it was imported, entry by entry', async () => {
    const { path, file } = folder()
    const engine = open(file)
    const entries = wholeSession()
    await engine.ledger.import(write(join(path, 'in.jsonl'), entries), {
      format: 'pi',
      session: 's',
    })
    const to = join(path, 'out.jsonl')
    expect(await engine.ledger.export(to, { format: 'pi', session: 's' })).toMatchObject({
      sessions: 1,
      turns: 7,
      lines: entries.length,
      leftOut: {},
      problems: [],
    })
    const out = read(to)
    expect(out[0]).toEqual(entries[0])
    const byId = (list: Entry[]) =>
      Object.fromEntries(list.slice(1).map((entry) => [entry.id, entry]))
    expect(byId(out)).toEqual(byId(entries))
    expect(out.at(-1)).toEqual(entries.at(-1))
    expect(piContext(out)).toEqual(piContext(entries))
    // Each is after its parent.
    const seen = new Set([null])
    for (const { id, parentId } of out.slice(1)) {
      expect(seen.has(parentId)).toBe(true)
      seen.add(id)
    }
  })

  test('of version 1 is a list of entries without ids; of version 2 it has hook messages', async () => {
    const { path, file } = folder()
    const engine = open(file)
    const v1: Entry[] = [
      header(),
      { type: 'message', timestamp: time(1), message: user('one', 1) },
      { type: 'message', timestamp: time(2), message: assistant([text('two')], 2) },
      { type: 'message', timestamp: time(3), message: user('three', 3) },
      { type: 'message', timestamp: time(4), message: assistant([text('four')], 4) },
      {
        type: 'compaction',
        timestamp: time(5),
        summary: 'one and two',
        firstKeptEntryIndex: 3,
        tokensBefore: 9,
      },
      { type: 'message', timestamp: time(6), message: user('five', 6) },
    ]
    await engine.ledger.import(write(join(path, 'v1.jsonl'), v1), { format: 'pi', session: 'v1' })
    expect((await historyOf(engine, 'v1')).map(([, words]) => words)).toEqual([
      '[Previous conversation summary]:\n\none and two',
      'three',
      'four',
      'five',
    ])
    const v2: Entry[] = [
      header(2),
      {
        type: 'message',
        id: 'aaaaaaa1',
        parentId: null,
        timestamp: time(1),
        message: user('one', 1),
      },
      {
        type: 'message',
        id: 'aaaaaaa2',
        parentId: 'aaaaaaa1',
        timestamp: time(2),
        message: {
          role: 'hookMessage',
          customType: 'x',
          content: 'hooked',
          display: true,
          timestamp: 2,
        },
      },
    ]
    await engine.ledger.import(write(join(path, 'v2.jsonl'), v2), { format: 'pi', session: 'v2' })
    expect(await historyOf(engine, 'v2')).toEqual([
      ['user', 'one'],
      ['user', 'hooked'],
    ])
    await engine.ledger.export(join(path, 'v3.jsonl'), { format: 'pi', session: 'v2' })
    const [first, , hooked] = read(join(path, 'v3.jsonl'))
    expect(first).toEqual(header(3))
    expect(hooked?.message.role).toBe('custom')
    await engine.ledger.export(join(path, 'v1-3.jsonl'), { format: 'pi', session: 'v1' })
    expect(piContext(read(join(path, 'v1-3.jsonl'))).length).toBe(4)
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  })

  test('signatures of other services stay on their part', async () => {
    const { path, file } = folder()
    const engine = open(file)
    const item = JSON.stringify({
      type: 'reasoning',
      id: 'rs_1',
      encrypted_content: 'gAAA',
      summary: [],
    })
    const messages = [
      user('q', 1),
      assistant(
        [{ type: 'thinking', thinking: '', thinkingSignature: item }, call('call_1|fc_1')],
        2,
        { api: 'openai-responses', provider: 'openai' },
      ),
      toolResult('call_1|fc_1', 'r', 3),
      assistant(
        [text('g', { textSignature: 'Zw==' }), call('c', { thoughtSignature: 'dA==' })],
        4,
        { api: 'google-generative-ai', provider: 'google' },
      ),
      toolResult('c', 'r', 5),
      assistant(
        [{ type: 'thinking', thinking: 'x', thinkingSignature: 'reasoning_content' }, text('d')],
        6,
        { api: 'openai-completions', provider: 'deepseek' },
      ),
      user('q2', 7),
      assistant(
        [
          { type: 'thinking', thinking: '', thinkingSignature: 'ZGF0YQ==', redacted: true },
          { type: 'odd', of: 1 },
        ],
        8,
      ),
    ]
    const entries = [
      header(3),
      ...messages.map((message, n) => ({
        type: 'message',
        id: `0000000${n}`,
        parentId: n === 0 ? null : `0000000${n - 1}`,
        timestamp: time(n),
        message,
      })),
    ]
    await engine.ledger.import(write(join(path, 'in.jsonl'), entries), {
      format: 'pi',
      session: 's',
    })
    const blocks = (await engine.ledger.history('s')).map(({ blocks }) => blocks)
    expect(blocks[1]?.[0]).toEqual({ type: 'thinking', thinking: '', providerData: item })
    expect(blocks[3]).toMatchObject([
      { type: 'text', text: 'g', providerData: '{"thoughtSignature":"Zw=="}' },
      { type: 'tool_call', id: 'c', providerData: '{"thoughtSignature":"dA=="}' },
    ])
    expect(blocks[5]?.[0]).toEqual({ type: 'thinking', thinking: 'x' })
    expect(blocks[7]).toEqual([{ type: 'redacted_thinking', data: 'ZGF0YQ==' }])
    await engine.ledger.export(join(path, 'out.jsonl'), { format: 'pi', session: 's' })
    expect(read(join(path, 'out.jsonl'))).toEqual(entries)
  })

  test('random trees have the same context as in pi, and are exported as they were imported', async () => {
    const { path, file } = folder()
    const engine = open(file)
    for (let seed = 1; seed <= 40; seed++) {
      const entries = randomSession(seed)
      const label = `s${seed}`
      const from = write(join(path, `${seed}.jsonl`), entries)
      const { problems } = await engine.ledger.import(from, { format: 'pi', session: label })
      expect({ seed, problems, historyOf: await historyOf(engine, label) }).toEqual({
        seed,
        problems: [],
        historyOf: piContext(entries),
      })
      const to = join(path, `${seed}-out.jsonl`)
      await engine.ledger.export(to, { format: 'pi', session: label })
      const sorted = (list: Entry[]) => list.slice(1).sort((a, b) => (a.id < b.id ? -1 : 1))
      expect(sorted(read(to))).toEqual(sorted(entries))
      expect({ seed, context: piContext(read(to)) }).toEqual({ seed, context: piContext(entries) })
    }
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  })
})

test('a session of the engine has the same history after an export to pi and an import', async () => {
  const { path, file } = folder()
  const add = { name: 'add', run: () => 'done' }
  const engine = open(file, [thinkingCall, 'answered', 'again', 'branched'])
  const first = (await engine.run(context({ tools: [add] })).result).turnId
  await engine.run(context()).result
  await engine.ledger.fork(first, 'branch')
  await engine.run(context({ sessionLabel: 'branch' })).result
  for (const session of ['agent:main:main', 'branch']) {
    const to = join(path, `${session.replaceAll(':', '-')}.jsonl`)
    await engine.ledger.export(to, { format: 'pi', session })
    const other = open(join(path, `${session.replaceAll(':', '-')}.db`))
    const { problems } = await other.ledger.import(to, { format: 'pi', session })
    expect(problems).toEqual([])
    const historyTexts = async (engine: AgentEngine) =>
      (await engine.ledger.history(session)).map(({ role, blocks, createdAt }) => ({
        role,
        blocks,
        createdAt,
      }))
    expect(await historyTexts(other)).toEqual(await historyTexts(engine))
    expect(await other.ledger.verify()).toMatchObject({ ok: true })
  }
})

describe('damage', () => {
  test('of any one line loses only that line', async () => {
    const { path, file } = folder()
    const engine = open(file)
    const entries = wholeSession()
    for (let at = 0; at < entries.length; at++) {
      const lines: (Entry | string)[] = [...entries]
      lines[at] = JSON.stringify(entries[at]).slice(0, 30)
      const from = write(join(path, `${at}.jsonl`), lines)
      const label = `s${at}`
      const { problems } = await engine.ledger.import(from, { format: 'pi', session: label })
      expect(problems[0]).toMatchObject({ line: at + 1, code: 'damaged_line' })
      await engine.ledger.export(join(path, `${at}-out.jsonl`), { format: 'pi', session: label })
      const left = new Set(
        read(join(path, `${at}-out.jsonl`))
          .slice(1)
          .map(({ id }) => id),
      )
      expect({
        at,
        lost: entries
          .slice(1)
          .filter(({ id }) => !left.has(id))
          .map(({ id }) => id),
      }).toEqual({
        at,
        lost: at === 0 ? [] : [entries[at]?.id],
      })
    }
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  })

  test('an invalid file is refused, and so is an existing label', async () => {
    const { path, file } = folder()
    const { ledger } = open(file)
    const none = { code: 'invalid_import', field: 'path' }
    const pi = { format: 'pi' } as const
    expect(await refusal(ledger.import(write(join(path, 'a'), ['no', 'json']), pi))).toEqual(none)
    expect(
      await refusal(ledger.import(write(join(path, 'b'), [{ ...header(), version: 4 }]), pi)),
    ).toEqual(none)
    const from = write(join(path, 'c'), wholeSession())
    await ledger.import(from, pi)
    expect(await refusal(ledger.import(from, pi))).toEqual({ code: 'storage_constraint' })
    expect(await refusal(ledger.import(from, { ...pi, session: 'a\nb' }))).toEqual({
      code: 'invalid_label',
      field: 'session',
    })
    expect(await ledger.stats()).toMatchObject({ sessions: 1 })
  })
})
