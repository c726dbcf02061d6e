// Pruning of old tool results: what is sent when the provider's cache is cold, that results stay pruned, and that the ledger
// has them whole. It must never wait for a cold cache: another program moves the last call into the past.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineOptions,
  type AgentTool,
  type MessageInput,
} from '../../index.js'
import { context, engineAt, tempDir } from '../support/engine.js'
import { rows } from '../support/ledger/named.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import { type Answer, anthropicCache, type PromptCache } from '../support/servers/prompt-cache.js'
import { type TestServer, testServer } from '../support/servers/server.js'

let dir: ReturnType<typeof tempDir>
let server: TestServer
let cache: PromptCache
let engine: AgentEngine
beforeEach(async () => {
  dir = tempDir()
  cache = anthropicCache(reads)
  server = await testServer(cache.handler)
})
afterEach(async () => {
  await engine?.close()
  await server.close()
  dir.remove()
})

const model = { provider: 'test', id: 'test-model', contextWindow: 40_000, maxOutputTokens: 2_000 }

/** Closes the current engine, and opens another on the same ledger. */
async function open(options: AgentEngineOptions = {}) {
  await engine?.close()
  engine = engineAt(server.url, {
    models: [model],
    ledger: { path: dir.file, synchronous: 'normal' },
    ...options,
  })
}

/** Makes the provider's cache cold: five minutes and a little, for the server and for the engine. */
async function cold(options: AgentEngineOptions = {}) {
  await engine.close()
  cache.now += 300_001
  rows(dir.file, 'UPDATE cache_chains SET called_at = called_at - 300001')
  await open(options)
}

/** Reads one file, and answers. */
const reads: Answer = (body) => {
  const last = body.messages.at(-1).content.at(-1)
  const [, file] = last.type === 'text' ? (/read (\w+)/.exec(last.text) ?? []) : []
  const at = body.messages.length
  return file === undefined ? `answer ${at}` : { calls: [[`toolu_${at}`, 'read', { file }]] }
}

/** 8,000 characters that show the position of a cut. */
const file = (name: string) =>
  `${name}:${'é🎈'.repeat(4_000)}`.slice(0, 8_000 + 4_000 - name.length)
const read: AgentTool = {
  name: 'read',
  description: 'reads a file',
  parameters: { type: 'object', properties: { file: { type: 'string' } } },
  replay: 'pure',
  run: (params: { file: string }) => file(params.file),
}
const runTurn = async (content: string, changes: object = {}, cacheBreaks: object[] = []) => {
  const currentMessage = { role: 'user', content } as const
  const systemPrompt = `You are a test. ${'Keep to the rules. '.repeat(250)}`
  const result = await engine.run(
    context({ systemPrompt, tools: [read], currentMessage, ...changes }),
  ).result
  expect(result).toMatchObject({ stopReason: 'end_turn', cacheBreaks, warnings: [] })
  return result
}

/** The texts of the tool results of the newest request. */
const sentResults = (): string[] =>
  cache.calls
    .at(-1)
    ?.seen.body.messages.flatMap(({ content }: any) => content)
    .filter(({ type }: any) => type === 'tool_result')
    .map(({ content }: any) => content.map(({ text }: any) => text).join('|'))

const trimmed = (name: string) => {
  const all = [...file(name)]
  const left = `[… ${all.length - 3_000} characters of this earlier result are left out …]`
  return `${all.slice(0, 1_500).join('')}\n${left}\n${all.slice(-1_500).join('')}`
}
const CLEARED = '[This result was shown earlier and is left out here.]'
/** Whether each request read everything that the previous one has cached. */
const allRead = (from: number) =>
  cache.calls.slice(from).every(({ read }, at) => {
    const before = cache.calls[from + at - 1]
    return before !== undefined && read === before.read + before.written
  })

describe.runIf(sqlite3)('a cold cache', () => {
  test('old results are sent trimmed to their ends from then on, over runs and restarts, and the ledger holds them whole', async () => {
    const pruning = { pruning: { clearAt: 1 } }
    await open(pruning)
    for (const name of ['a', 'b', 'c', 'd']) await runTurn(`read ${name}`)
    // Over 30 % of the window, and warm: nothing is pruned.
    await runTurn('go on')
    expect(sentResults()).toEqual(['a', 'b', 'c', 'd'].map(file))
    expect(allRead(1)).toBe(true)
    await cold(pruning)
    const first = cache.calls.length
    await runTurn('read e')
    // The last three answers before it are those of `go on`, and both of `read d`: its result stays whole.
    const shorter = [trimmed('a'), trimmed('b'), trimmed('c'), file('d')]
    expect(sentResults()).toEqual([...shorter, file('e')])
    await runTurn('go on')
    await open(pruning)
    await runTurn('read f')
    await runTurn('go on')
    expect(sentResults()).toEqual([...shorter, file('e'), file('f')])
    // After the one cold request, each reads what the previous one has cached.
    expect(cache.calls[first]?.read).toBe(0)
    expect(allRead(first + 1)).toBe(true)
    const storedMessages = await engine.ledger.history('agent:main:main')
    const results = storedMessages
      .filter(({ role }) => role === 'tool')
      .map(({ content }) => content)
    expect(results).toEqual(['a', 'b', 'c', 'd', 'e', 'f'].map(file))
    expect(await engine.ledger.verify()).toMatchObject({ ok: true })
    // Cold again: newer results that have become old are pruned too.
    await cold(pruning)
    await runTurn('go on')
    expect(sentResults()).toEqual(['a', 'b', 'c', 'd', 'e'].map(trimmed).concat(file('f')))
  })

  test('above half of the window the oldest are left out until the context is below', async () => {
    await open({ pruning: { trimAt: 0.1, clearAt: 0.2 } })
    for (const name of ['a', 'b', 'c', 'd']) await runTurn(`read ${name}`)
    await cold({ pruning: { trimAt: 0.1, clearAt: 0.2 } })
    await runTurn('go on')
    const results = sentResults()
    const cleared = results.filter((text) => text === CLEARED).length
    expect(cleared).toBeGreaterThan(0)
    expect(results).toEqual(
      ['a', 'b', 'c', 'd'].map((name, at) => {
        if (at < cleared) return CLEARED
        return at < 3 ? trimmed(name) : file(name)
      }),
    )
    const before = cache.calls.length
    await runTurn('go on')
    expect(sentResults()).toEqual(results)
    expect(allRead(before)).toBe(true)
  })

  test('a history of the host is pruned in the same way, and stays so', async () => {
    const history: MessageInput[] = ['a', 'b', 'c', 'd'].flatMap((name): MessageInput[] => [
      { role: 'user', content: `what stands in ${name}?` },
      {
        role: 'assistant',
        content: [{ type: 'toolCall', id: `call_${name}`, name: 'read', arguments: {} }],
      },
      { role: 'tool', toolCallId: `call_${name}`, toolName: 'read', content: file(name) },
      { role: 'assistant', content: `this and that stands in ${name}` },
    ])
    const pruning = { pruning: { clearAt: 1 } }
    await open(pruning)
    const { messages } = await runTurn('go on', { history })
    expect(sentResults()).toEqual(['a', 'b', 'c', 'd'].map(file))
    await cold(pruning)
    const longer = [...history, ...messages]
    const next = await runTurn('go on', { history: longer })
    const results = [trimmed('a'), trimmed('b'), trimmed('c'), file('d')]
    expect(sentResults()).toEqual(results)
    await runTurn('go on', { history: [...longer, ...next.messages] })
    expect(sentResults()).toEqual(results)
    expect(allRead(cache.calls.length - 1)).toBe(true)
  })

  test('nothing is pruned unless the option is set, nor below its share of the window', async () => {
    await open()
    for (const name of ['a', 'b', 'c']) await runTurn(`read ${name}`)
    const expired = [{ cause: 'expired', part: null }]
    await cold()
    await runTurn('go on', {}, expired)
    await cold({ pruning: { trimAt: 0.9, clearAt: 0.9 } })
    await runTurn('go on', {}, expired)
    expect(sentResults()).toEqual(['a', 'b', 'c'].map(file))
    // The hour of the cache's lifetime has not passed.
    await cold({ pruning: { trimAt: 0.1 } })
    await runTurn('go on', { promptCache: { ttl: '1h' } })
    expect(sentResults()).toEqual(['a', 'b', 'c'].map(file))
  })
})

test('wrong options are refused by their path', () => {
  const refused = (pruning: unknown) => {
    try {
      new AgentEngine({ pruning } as AgentEngineOptions)
    } catch (error) {
      const { code, field } = error as { code: string; field: string }
      return { code, field }
    }
    return undefined
  }
  const wrong = (field: string) => ({ code: 'invalid_options', field })
  expect(refused({ trimAt: 0 })).toEqual(wrong('pruning.trimAt'))
  expect(refused({ clearAt: 2 })).toEqual(wrong('pruning.clearAt'))
  expect(refused({ trimAt: 0.6 })).toEqual(wrong('pruning.clearAt'))
  expect(refused({ idleMs: -1 })).toEqual(wrong('pruning.idleMs'))
  expect(refused({ after: 1 })).toEqual(wrong('pruning.after'))
  expect(refused([])).toEqual(wrong('pruning'))
  expect(refused('yes')).toEqual(wrong('pruning'))
})
