// `scrub`: two runs of one script are equal, and nothing that differs is left. It must never compare a time.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { collect, scriptedProvider, scrub, toolCall } from '../../testing.js'
import { closing, folder } from '../support/cleanup.js'
import { context, testModel } from '../support/engine.js'

/** A run with a tool, a wait and a ledger, and everything that it left. */
async function everything() {
  const { file } = folder()
  const model = scriptedProvider([
    [toolCall('clock', { zone: 'UTC' })],
    { error: { kind: 'overloaded', retryAfterMs: 1 } },
    'Twelve.',
  ])
  const engine = closing(
    new AgentEngine({ providers: { test: model }, models: [testModel], ledger: { path: file } }),
  )
  const tools = [{ name: 'clock', run: () => '12:00' }]
  const { events, result } = await collect(engine.run(context({ tools, runId: 'run-1' })))
  const turn = await engine.ledger.turn(result.turnId)
  const history = await engine.ledger.history('agent:main:main')
  const fork = await engine.ledger.fork(result.turnId)
  const { rows } = await engine.ledger.query('SELECT id, created_at FROM messages ORDER BY id')
  return { events, result, turn, history, fork, rows, requests: model.requests }
}

test('two runs of one script are equal', async () => {
  const [first, second] = [await everything(), await everything()]
  expect(first.result.turnId).not.toBe(second.result.turnId)
  expect(scrub(first)).toEqual(scrub(second))
})

test('an id is the same placeholder in events, results and rows, named after its field', async () => {
  const { events, result, turn, history, fork, rows } = scrub(await everything())
  expect(events.map((event) => ('messageId' in event ? event.messageId : null))).toEqual([
    null,
    '<message-1>',
    '<message-1>',
    '<message-1>',
    '<message-1>',
    null,
    null,
    '<message-2>',
    '<message-2>',
    '<message-2>',
  ])
  expect(events.find(({ type }) => type === 'waiting')).toMatchObject({
    until: '<time>',
    ms: '<ms>',
  })
  expect(result).toMatchObject({
    turnId: '<turn-1>',
    runId: 'run-1',
    durationMs: '<ms>',
    toolCalls: [
      {
        id: 'call_1',
        callId: '<call-1>',
        messageId: '<message-1>',
        startedAt: '<time>',
        completedAt: '<time>',
        params: { zone: 'UTC' },
      },
    ],
  })
  expect(result.messages.map(({ id, createdAt }) => [id, createdAt])).toEqual([
    ['<message-3>', '<time>'],
    ['<message-1>', '<time>'],
    ['<message-4>', '<time>'],
    ['<message-2>', '<time>'],
  ])
  expect(turn?.id).toBe('<turn-1>')
  expect(history.map(({ turnId, id }) => [turnId, id])).toEqual(
    result.messages.map(({ id }) => ['<turn-1>', id]),
  )
  expect(fork.label).toMatch(/^fork-<id-\d>$/)
  expect(rows).toEqual(history.map(({ id }) => ({ id, created_at: '<time>' })))
})

test('no ULID and no time of day is left in what a run leaves', async () => {
  const text = JSON.stringify(scrub(await everything()))
  expect(text).not.toMatch(/\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b/)
  // Unix milliseconds of this century.
  expect(text).not.toMatch(/\b1[0-9]{12}\b/)
})

test('every number of the types that is a time or a duration has a name that is scrubbed', () => {
  const types = readFileSync(join(import.meta.dirname, '../../types/model.d.ts'), 'utf8')
  const fields = [...types.matchAll(/\/\*\*\n([^/]*?)\*\/\n(\w+)\??: number\b/g)]
  const timed = fields.filter(([, comment]) => /millisecond/i.test(comment ?? ''))
  const names = [...new Set(timed.map(([, , name]) => name ?? ''))]
  expect(names.length).toBeGreaterThan(15)
  const left = names.filter((name) => typeof Object.values(scrub({ [name]: 5 }))[0] === 'number')
  // The bound of a filter, which a caller passes.
  expect(left).toEqual(['since'])
})

test('plain values stay as they are, and what is given is not changed', () => {
  const given = {
    text: 'Call 01M82R6D5177P0BAJN26DNDPQM now',
    runId: '3f2b8f0e-3c57-4c1c-8e3d-6a0f4b0f2a11',
    at: new Date(5),
    tokens: 7,
    none: null,
    absent: undefined,
    list: ['a', 1, true],
  }
  const before = structuredClone(given)
  expect(scrub(given)).toEqual({
    text: 'Call <id-1> now',
    runId: '<run-1>',
    at: '<time>',
    tokens: 7,
    none: null,
    absent: undefined,
    list: ['a', 1, true],
  })
  expect(given).toEqual(before)
})
