// The tool `recall`, through the public API: messages that a compaction removed from the context are found in their thread.
// It must never read internal state of the engine: what the model receives is read from the requests of a loopback server.

import { beforeEach, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineOptions, type AgentTool } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context } from '../support/engine.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { anthropic } from '../support/servers/anthropic.js'
import { type Handler, sse, type TestServer } from '../support/servers/server.js'

const SUMMARY = '## Goal\nKeep house.\n\n## Critical context\n(none)'
/** 3,000 tokens for the prompt, and a summariser with a larger window. */
const models = [
  { provider: 'test', id: 'small', contextWindow: 4_000, maxOutputTokens: 1_000 },
  { provider: 'test', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000 },
]
/** About 420 tokens. */
const long = (what: string) => `${what} ${'lorem ipsum '.repeat(140)}`

let server: TestServer
let file: string
/** The answers of the model, in order; then `ok`. */
let replies: Handler[]
beforeEach(async () => {
  replies = []
  file = folder().file
  server = await serving((response, seen) => {
    if (seen.body.model === 'tiny') return sse(anthropic.answer(SUMMARY))(response, seen)
    return (replies.shift() ?? sse(anthropic.answer('ok')))(response, seen)
  })
})

const open = (compaction: AgentEngineOptions['compaction'] = {}) =>
  closing(
    new AgentEngine({
      providers: { test: { api: 'anthropic-messages', baseUrl: server.url } },
      authProfiles: [{ id: 'p1', provider: 'test', key: 'sk-test-canary-0123456789' }],
      models,
      ledger: { path: file, synchronous: 'normal' },
      contextGuard: { minWindow: 1_000 },
      compaction: { model: 'tiny', provider: 'test', recall: true, ...compaction },
    }),
  )

const calls = (...requested: [string, unknown][]) =>
  sse(
    anthropic.calls(
      ...requested.map(([name, input], n): [string, string, unknown] => [`c${n}`, name, input]),
    ),
  )

const read: AgentTool = { name: 'read', run: () => 'Shelf nine holds the amber flask.' }

/** Runs one turn; returns the last tool result of its last request, if there is one. */
async function runTurn(engine: AgentEngine, content: string, sessionLabel = 's', tools = [read]) {
  const requested = { role: 'user', content } as const
  const run = engine.run(
    context({ model: 'small', currentMessage: requested, sessionLabel, tools }),
  )
  const result = await run.result
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  return result
}

/** The result of a search of the model. */
async function recalled(engine: AgentEngine, input: object, label = 's', question = 'And?') {
  replies = [calls(['recall', input])]
  const { toolCalls } = await runTurn(engine, question, label)
  expect(toolCalls).toMatchObject([{ toolName: 'recall', status: 'completed' }])
  const { content } = server.seen.at(-1)?.body.messages.at(-1) ?? {}
  const recalledText = content[0].content
  const text = typeof recalledText === 'string' ? recalledText : recalledText[0].text
  expect(toolCalls[0]?.result).toBe(text)
  return text as string
}

/** A session with its first two turns compacted, with a secret in each. */
async function compacted(engine: AgentEngine, label = 's') {
  replies = [calls(['read', {}])]
  const first = await runTurn(engine, long('The cellar opens with 4711-Zebra.'), label)
  await runTurn(engine, long('The attic opens with 1234-Heron.'), label)
  for (const n of [3, 4, 5]) await runTurn(engine, long(`question ${n}`), label)
  expect(await engine.compact(label)).toMatchObject({ turnsSummarized: 2 })
  return first
}

test('summarised messages are found in their original words, with tool results', async () => {
  const engine = open()
  const { turnId } = await compacted(engine)
  const recalledText = await recalled(engine, { query: 'cellar' })
  const request = JSON.stringify(server.seen.at(-1)?.body.messages[0])
  expect(request).toContain('[Previous conversation summary]:')
  expect(request).not.toContain('Zebra')
  expect(recalledText).toMatch(
    new RegExp(
      `^1 message that is no longer in your context, newest first:\n\n\\[\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z\\] user, turn ${turnId}:\nThe cellar opens with 4711-Zebra. lorem`,
    ),
  )
  const flask = await recalled(engine, { query: 'amber FLASK' })
  expect(flask).toContain(`tool read, turn ${turnId}:\nShelf nine holds the amber flask.`)
  // The earlier search result is not found itself.
  expect(flask).toMatch(/^1 message /)
})

test('the next process finds them too', async () => {
  const engine = open()
  await compacted(engine)
  await engine.close()
  expect(await recalled(open(), { query: 'attic' })).toContain('1234-Heron')
})

test('messages still in the context are not found, and after `uncompact` none is', async () => {
  const engine = open()
  await compacted(engine)
  expect(await recalled(engine, { query: 'question' })).toMatch(/^Nothing that is no longer/)
  await engine.ledger.uncompact('s')
  expect(await recalled(engine, { query: 'cellar' })).toBe(
    'Nothing was left out so far: all that was said in this conversation is in your context.',
  )
})

test('a sibling branch and another session are never searched; the turns of a fork’s origin are', async () => {
  const engine = open()
  await compacted(engine, 'other')
  const { turnId } = await runTurn(engine, long('The cellar has a green door.'))
  await engine.ledger.fork(turnId, 'side')
  // Two branches of one thread, each with its own word, and each compacted.
  for (const [label, word] of [
    ['s', 'walrus'],
    ['side', 'ostrich'],
  ] as const) {
    await runTurn(engine, long(`Behind the cellar lives a ${word}.`), label)
    for (const n of [3, 4, 5]) await runTurn(engine, long(`question ${n}`), label)
    expect(await engine.compact(label)).toMatchObject({ turnsSummarized: 2 })
  }
  const main = await recalled(engine, { query: 'cellar' })
  expect(main).toMatch(/^2 messages that are .*walrus.*green door/s)
  expect(main).not.toMatch(/ostrich|Zebra/)
  const side = await recalled(engine, { query: 'cellar' }, 'side')
  expect(side).toMatch(/^2 messages that are .*ostrich.*green door/s)
  expect(side).not.toMatch(/walrus|Zebra/)
  expect(await recalled(engine, { query: 'ostrich' })).toMatch(/^Nothing that is no longer/)
})

test('three compactions later the first turn is still found', async () => {
  const engine = open()
  await compacted(engine)
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 3; n++) await runTurn(engine, long(`round ${round} question ${n}`))
    expect(await engine.compact('s')).not.toBeNull()
  }
  expect(await recalled(engine, { query: 'cellar' })).toContain('4711-Zebra')
  expect(await recalled(engine, { query: 'question 3' })).toContain('question 3 lorem')
})

test('words that no message has together are found separately, most words first; `limit` is respected', async () => {
  const engine = open()
  await compacted(engine)
  const recalledText = await recalled(engine, { query: 'Which code opens the cellar, please?' })
  expect(recalledText).toMatch(
    /^No message holds all of these words; some hold some. 3 messages .* best first:/,
  )
  expect(recalledText.indexOf('Zebra')).toBeLessThan(recalledText.indexOf('Heron'))
  expect(recalledText.indexOf('Heron')).toBeLessThan(recalledText.indexOf('flask'))
  const one = await recalled(engine, { query: 'opens', limit: 1 })
  expect(one).toMatch(/^1 message that is .*Heron/s)
  expect(one).not.toContain('Zebra')
  expect(await recalled(engine, { query: 'zeppelin' })).toBe(
    'Nothing that is no longer in your context holds a word of "zeppelin". Try other words.',
  )
  expect(await recalled(engine, { query: '?!' })).toMatch(/^Nothing that is no longer/)
})

test('a result is capped, and lists what it left out', async () => {
  const engine = open({ strategies: ['hard_clear'] })
  for (let n = 0; n < 24; n++) await runTurn(engine, long(`needle ${n}`))
  await engine.compact('s')
  const recalledText = await recalled(engine, { query: 'needle', limit: 50 })
  // 30 % of the window, as every result of a tool.
  expect(recalledText.length).toBeLessThanOrEqual(4_800)
  expect(recalledText).toContain('needle 23')
  expect(recalledText).toMatch(/\n\n\(\d+ more; ask for them with more words\.\)$/)
})

test('arguments are checked, and wrong ones are reported to the model', async () => {
  const engine = open()
  replies = [calls(['recall', { limit: 0 }])]
  const { toolCalls } = await runTurn(engine, 'hi')
  expect(toolCalls).toMatchObject([{ toolName: 'recall', status: 'failed' }])
})

test('the tool is in every request from the first call on, after the host’s tools', async () => {
  const engine = open()
  await compacted(engine)
  await recalled(engine, { query: 'cellar' })
  const offered = server.seen
    .filter(({ body }) => body.model === 'small')
    .map(({ body }) => JSON.stringify([body.system, body.tools]))
  expect(new Set(offered).size).toBe(1)
  const { tools } = server.seen[0]?.body ?? {}
  expect(tools.map(({ name }: { name: string }) => name)).toEqual(['read', 'recall'])
  const requested = context({ model: 'small', tools: [] })
  const { toolTokens } = await engine.countTokens(requested)
  expect(toolTokens).toBeGreaterThan(0)
  const { items } = await engine.ledger.turns()
  const turn = await engine.ledger.turn(items[0]?.id ?? '')
  expect(turn?.toolsAvailable).toEqual(['read', 'recall'])
})

test('without the option there is no such tool, and one of that name is the host’s own', async () => {
  const engine = open({ recall: false })
  const mine: AgentTool = { name: 'recall', run: () => 'mine' }
  replies = [calls(['recall', {}])]
  const { toolCalls } = await runTurn(engine, 'hi', 's', [mine])
  expect(toolCalls).toMatchObject([{ result: 'mine' }])
  const with_ = open()
  const requested = context({ model: 'small', tools: [read, mine] })
  const wrong = { code: 'invalid_tool', field: 'tools[1].name' }
  expect(() => with_.run(requested)).toThrow(expect.objectContaining(wrong))
  expect(await refusal(with_.countTokens(requested))).toEqual(wrong)
})

test('an engine without a ledger refuses the option', () => {
  const without = () => new AgentEngine({ compaction: { recall: true } })
  expect(without).toThrow(
    expect.objectContaining({ code: 'invalid_options', field: 'compaction.recall' }),
  )
})
