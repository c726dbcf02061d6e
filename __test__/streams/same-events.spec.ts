// The events of random runs: live, attached, watched, from another process and after a restart they are the same, and the values in
// them are stored once. It must never compare less than whole events.

import { expect, test } from 'vitest'
import { AgentEngine, type ScriptedReply, type StreamEvent } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { begun, context, scriptedEngine } from '../support/engine.js'
import { expectGapless } from '../support/events.js'
import { killable } from '../support/processes/killable.js'
import { noise } from '../support/values/incompressible.js'
import { random } from '../support/values/random.js'

const SEED = 20_261_122

async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = []
  for await (const event of events) seen.push(event)
  return seen
}

/** A tool of each kind: with effects and without, that fails, with a large result, with updates. */
const tools = [
  { name: 'unsafe', run: (params: unknown) => ({ of: params, text: 'ünï "quoted" \u{1F980}' }) },
  { name: 'pure', replay: 'pure', run: () => [1, { two: null }] },
  { name: 'fails', replay: 'pure', run: () => Promise.reject(new Error('no\nsuch place')) },
  { name: 'large', replay: 'idempotent', run: () => noise('large', 40_000) },
  { name: 'nothing', run: () => undefined },
  {
    name: 'parallel',
    replay: 'pure',
    executionMode: 'parallel',
    async *run() {
      yield 'half'
      return 'whole'
    },
  },
] as const
const NAMES = [...tools.map(({ name }) => name), 'unknown']

/** Replies of a run: rounds of tools, retried failures, a gate before the last answer. */
function script(below: (under: number) => number): ScriptedReply[] {
  const replies: ScriptedReply[] = []
  for (let round = below(4); round > 0; round--) {
    if (below(4) === 0) {
      replies.push({ error: { status: 529, kind: 'overloaded', retryAfterMs: 1 } } as ScriptedReply)
    }
    replies.push({
      ...(below(2) === 0 ? { thinking: 'hm' } : {}),
      text: 'r'.repeat(below(12)),
      toolCalls: Array.from({ length: 1 + below(4) }, () => ({
        name: NAMES[below(NAMES.length)] as string,
        arguments: { n: below(100), text: 'a "b" \\ é' },
      })),
      chunkSize: 3,
    } as ScriptedReply)
  }
  const end = below(5)
  const last = end === 0 ? { error: { kind: 'format', message: 'refused' } } : { text: 'the end' }
  replies.push({ steps: [{ text: 'almost ' }, { gate: 'half' }, last] } as ScriptedReply)
  if (end === 1) replies.push({ text: 'and that' })
  return replies
}

test('random runs have the same events for every reader, wherever and whenever it reads', {
  timeout: 180_000,
}, async () => {
  const below = random(SEED)
  const { file } = folder()
  const histories = new Map<string, StreamEvent[]>()
  for (let n = 0; n < 10; n++) {
    const runId = `random-${n}`
    const replies = script(below)
    const { engine, provider } = scriptedEngine(replies, { ledger: { path: file } })
    const run = engine.run(context({ tools: tools as never, runId, sessionLabel: runId }))
    const watching = engine.ledger.watch(runId)
    await begun(run)
    const elsewhere = killable('recovery/events.mjs', [file, 'attach', JSON.stringify({ runId })])
    await elsewhere.line('"attaching"')
    const attached = all(engine.attach(runId))
    const second = all(run.events())
    const live: StreamEvent[] = []
    for await (const event of run) {
      live.push(event)
      if (event.type === 'token' && event.text === 'almost ') {
        // The other process has read up to here while the turn was open.
        await elsewhere.line(JSON.stringify({ ...event }).slice(0, 40))
        if (below(2) === 0) run.steer('and "that"?')
        provider.open('half')
      }
    }
    const stored = live.filter((event) => !('sub' in event))
    const seed = `seed ${SEED}, run ${n}`
    expectGapless(stored)
    expect(await second, seed).toEqual(live)
    expect(await attached, seed).toEqual(stored)
    const watched: StreamEvent[] = []
    for await (const { event } of watching) {
      watched.push(event)
      if (event.seq === stored.length) break
    }
    expect(watched, seed).toEqual(stored)
    await elsewhere.ended
    const lines = elsewhere.lines.map((line) => JSON.parse(line))
    expect(lines, seed).toEqual(['attaching', ...stored, 'over'])
    await engine.close()
    histories.set(runId, stored)
  }
  const again = closing(new AgentEngine({ ledger: { path: file } }))
  for (const [runId, stored] of histories) {
    expect(await all(again.attach(runId)), runId).toEqual(stored)
    expect(await all(again.attach(runId, { events: 'core' })), runId).toEqual(
      stored.filter(({ type }) => /^(stream_.*|token|reasoning|tool_status)$/.test(type)),
    )
  }
  // The scripts had what they are to compare.
  const types = new Set([...histories.values()].flat().map(({ type }) => type))
  expect([...types].sort()).toEqual([
    'reasoning',
    'retry',
    'stream_end',
    'stream_error',
    'stream_start',
    'token',
    'tool_status',
    'usage',
    'user_message',
    'waiting',
  ])
})

test('arguments and results are in the file once, however many events tell them', async () => {
  const { file } = folder()
  const argument = noise('argument', 8_000)
  const result = noise('result', 9_000)
  const { engine } = scriptedEngine(
    [{ toolCalls: [{ name: 'big', arguments: { argument } }] }, 'done'],
    { ledger: { path: file } },
  )
  const big = { name: 'big', run: () => ({ result }) }
  const run = engine.run(context({ tools: [big], runId: 'r' }))
  const live = await all(run)
  const statuses = live.filter((event) => event.type === 'tool_status')
  expect(statuses).toMatchObject([{ params: { argument } }, { result: { result } }])
  const sizes = await engine.ledger.query(
    'SELECT sum(length(entry)) AS events FROM journal WHERE kind = 0',
  )
  expect(Number(sizes.rows[0]?.events)).toBeLessThan(2_000)
  await engine.close()
  const again = closing(new AgentEngine({ ledger: { path: file } }))
  const archived = await again.ledger.query(
    'SELECT sum(length(events)) AS events FROM event_archive',
  )
  expect(Number(archived.rows[0]?.events)).toBeLessThan(2_000)
  expect(await all(again.attach('r'))).toEqual(live)
})
