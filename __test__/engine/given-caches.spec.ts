// Given histories and the provider's prompt cache: an engine that recognises what it was given before prunes and reports as one
// that reads all of it anew. It must never wait for a cold cache: the server lets a moment pass, and `idleMs` is 0.

import { expect, test } from 'vitest'
import type { AgentEngineOptions, CacheBreak } from '../../index.js'
import { closing, serving } from '../support/cleanup.js'
import { context, engineAt } from '../support/engine.js'
import { given } from '../support/sent-bodies.js'
import { anthropicCache } from '../support/servers/prompt-cache.js'

const model = { provider: 'test', id: 'test-model', contextWindow: 40_000, maxOutputTokens: 2_000 }
const systemPrompt = `You are a test. ${'Keep to the rules. '.repeat(250)}`

/** A question whose tool result has 12,000 characters. */
const asked = (name: string): any[] => [
  { role: 'user', content: `what stands in ${name}?` },
  {
    role: 'assistant',
    content: [{ type: 'toolCall', id: `call_${name}`, name: 'read', arguments: {} }],
  },
  { role: 'tool', toolCallId: `call_${name}`, toolName: 'read', content: name.repeat(12_000) },
  { role: 'assistant', content: `this and that stands in ${name}` },
]

interface Call {
  body: any
  cacheBreaks: CacheBreak[]
}

/** The calls of an engine, each with a history that `give` makes of one that a host changes in place. */
async function calls(
  options: AgentEngineOptions,
  give: (messages: any[]) => unknown[],
): Promise<Call[]> {
  const cache = anthropicCache(() => 'fine')
  const server = await serving((response, seen) => {
    // The call after this one is made at a later time.
    for (const now = Date.now(); Date.now() < now + 2; );
    return cache.handler(response, seen)
  })
  const engine = closing(engineAt(server.url, { models: [model], ...options }))
  const messages = ['a', 'b', 'c', 'd'].flatMap(asked)
  const made: Call[] = []
  const call = async () => {
    const run = engine.run(context({ systemPrompt, ...given(give(messages)) }))
    const { cacheBreaks, stopReason } = await run.result
    expect(stopReason).toBe('end_turn')
    made.push({ body: server.seen.at(-1)?.body, cacheBreaks })
  }
  await call()
  await call()
  messages.push(...asked('e'))
  await call()
  messages.push({ role: 'user', content: 'and?' }, { role: 'assistant', content: 'so.' })
  await call()
  messages[3].content = 'that stands in it no more'
  await call()
  messages.push(...asked('f'))
  await call()
  messages.splice(4, 4)
  await call()
  await call()
  return made
}

/** A list behind a proxy is never recognised. */
const anew = (messages: any[]) => new Proxy([...messages], {})
const recognised = (messages: any[]) => messages

/** A break without the ids that the engine gave to messages without one. */
const where = ({ part, change, index }: CacheBreak) => ({ part, change, index })

const cut = ({ body }: Call) =>
  body.messages
    .flatMap(({ content }: any) => content)
    .filter(({ type }: any) => type === 'tool_result')
    .map(({ content }: any) => content[0].text.length < 12_000)

test('results of a recognised history are pruned as those of one that is read anew', async () => {
  const pruning = { pruning: { idleMs: 0, trimAt: 0.2, clearAt: 1 } }
  const [known, whole] = [await calls(pruning, recognised), await calls(pruning, anew)]
  expect(known.map(({ body }) => body)).toEqual(whole.map(({ body }) => body))
  expect(known.map(cut)).toEqual([
    [false, false, false, false],
    [true, true, true, false],
    [true, true, true, true, false],
    [true, true, true, true, false],
    [true, true, true, true, false],
    [true, true, true, true, true, false],
    [true, true, true, true, false],
    [true, true, true, true, false],
  ])
})

test('a message that a host changes in a recognised history is reported as the break of the cache', async () => {
  const [known, whole] = [await calls({}, recognised), await calls({}, anew)]
  expect(known.map(({ body }) => body)).toEqual(whole.map(({ body }) => body))
  const breaks = (made: Call[]) => made.map(({ cacheBreaks }) => cacheBreaks.map(where))
  expect(breaks(known)).toEqual(breaks(whole))
  const message = (change: string, index: number) => [{ part: 'message', change, index }]
  expect(breaks(known)).toEqual([
    [],
    [],
    // The host leaves the question of the last run out: something else stands in its position.
    message('inserted', 16),
    message('inserted', 20),
    message('changed', 3),
    message('inserted', 22),
    message('removed', 4),
    [],
  ])
})
