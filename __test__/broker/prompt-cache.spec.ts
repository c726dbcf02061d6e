// The proof that a broker breaks no prompt cache: a long conversation with tools, events, memories and files, over a restart. The
// server's own record decides, and the engine's. It must never look at times.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type AgentTool, Broker, type BrokerOptions, scriptedProvider } from '../../index.js'
import { brokerAt } from '../support/broker.js'
import { afterwards, folder, serving } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { anthropicCache } from '../support/servers/prompt-cache.js'
import { SUMMARY } from '../support/values/summary.js'

const TURNS = 36

test('thirty-six turns with tools, events and memories, and a restart: the cache has every prefix', async () => {
  const cache = anthropicCache((body) => {
    const last = body.messages.at(-1).content
    const texts = last.map(({ text = '' }: { text?: string }) => text).join(' ')
    const asked = /call (\d)/.exec(texts)
    if (asked === null) return 'Done.'
    const calls = Array.from({ length: Number(asked[1]) }, (_, at) => at)
    return { calls: calls.map((at) => [`c${body.messages.length}_${at}`, 'look', { at }]) }
  })
  const server = await serving(cache.handler)
  const { path, file } = folder()
  const home = join(path, 'home')
  mkdirSync(home)
  writeFileSync(join(home, 'AGENTS.md'), 'Be kind. '.repeat(300))
  const look: AgentTool = { name: 'look', description: 'Looks.', run: () => 'seen '.repeat(20) }
  const options: BrokerOptions = {
    agents: {
      main: {
        ...{ model: 'test-model', provider: 'test', identity: 'You are Atlas. '.repeat(100) },
        ...{ toolset: 'house', workspace: home },
      },
    },
    toolsets: { house: [look] },
    context: {
      layers: (layers, { text }) => [
        ...layers,
        { name: 'cortex', source: 'm', text: `Of ${text}` },
      ],
    },
  }
  const opened = () => {
    const engine = engineAt(server.url, { ledger: { path: file } })
    const broker = new Broker(engine, options)
    return { engine, broker }
  }
  let { engine, broker } = opened()
  const breaks: unknown[] = []
  for (let turn = 1; turn <= TURNS; turn++) {
    if (turn === TURNS / 2) {
      await broker.close()
      await engine.close()
      // What has changed meanwhile is for the next session.
      writeFileSync(join(home, 'AGENTS.md'), 'Be quick. '.repeat(300))
      ;({ engine, broker } = opened())
    }
    const message = turn % 2 === 0 ? `question ${turn}` : `question ${turn}: call ${1 + (turn % 3)}`
    const result = await broker.execute({
      to: { event: { channel: 'telegram', peer: { kind: 'dm', id: 'ann' } } },
      message,
      event: { from: 'ann', text: `quoted ${'lorem '.repeat(40)}` },
      eventId: `event-${turn}`,
    }).result
    expect([turn, result.stopReason, result.error]).toEqual([turn, 'end_turn', undefined])
    breaks.push(...result.cacheBreaks)
  }
  afterwards(async () => {
    await broker.close({ drainMs: 0 })
    await engine.close()
  })
  expect(breaks).toEqual([])
  const { rows } = await engine.ledger.query('SELECT count(*) AS breaks FROM cache_breaks')
  expect(rows).toEqual([{ breaks: 0 }])
  expect(cache.calls.length).toBe(TURNS + TURNS / 2)
  const unlike = cache.calls.flatMap(({ read }, at) => {
    const before = cache.calls[at - 1]
    return before === undefined || read === before.read + before.written ? [] : [at]
  })
  expect(unlike).toEqual([])
})

const LONG = 200
const RESTART = 67
const cost = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75, cacheWrite1h: 6, tiers: [] }

test('two hundred turns with tool loops, compactions and restarts: every call reads what the one before it has cached', {
  timeout: 600_000,
}, async () => {
  const cache = anthropicCache((body) => {
    const last = body.messages.at(-1).content.at(-1)
    const [, count] = last.type === 'text' ? (/call (\d+) read/.exec(last.text) ?? []) : []
    const round = body.messages.length
    if (count === undefined) return `answer ${round}`
    const call = (_: unknown, at: number): [string, string, unknown] => [
      `toolu_${round}_${at}`,
      'read',
      { of: `file ${at}` },
    ]
    return { thinks: `about ${round}`, calls: Array.from({ length: Number(count) }, call) }
  })
  const server = await serving(cache.handler)
  const { path, file } = folder()
  const home = join(path, 'home')
  mkdirSync(home)
  writeFileSync(join(home, 'AGENTS.md'), 'Be kind. '.repeat(100))
  const read: AgentTool = {
    name: 'read',
    description: 'Reads.',
    parameters: { type: 'object', properties: { of: { type: 'string' } } },
    executionMode: 'parallel',
    run: ({ of }: { of?: string }) => `read ${of}: ${'result '.repeat(20)}`,
  }
  const options: BrokerOptions = {
    agents: {
      main: {
        ...{ model: 'test-model', provider: 'test', toolset: 'house', workspace: home },
        identity: `You are a test. ${'Keep the rules of the house. '.repeat(200)}`,
        thinking: { type: 'enabled', budgetTokens: 1_024 },
      },
    },
    toolsets: { house: [read] },
    context: {
      layers: (layers, { text }) => [
        ...layers,
        { name: 'cortex', source: 'm', text: `Of ${text.slice(0, 40)}` },
      ],
    },
  }
  const opened = () => {
    const engine = engineAt(server.url, {
      providers: {
        test: { api: 'anthropic-messages', baseUrl: server.url },
        small: scriptedProvider(Array.from({ length: LONG }, () => SUMMARY)),
      },
      models: [
        {
          ...{ provider: 'test', id: 'test-model', contextWindow: 24_000, maxOutputTokens: 2_000 },
          ...{ reasoning: true, cost },
          thinking: { adaptive: false, budget: true, efforts: [], canDisable: true },
        },
        { provider: 'small', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000 },
      ],
      compaction: { provider: 'small', model: 'tiny' },
      ledger: { path: file, synchronous: 'normal' },
    })
    return { engine, broker: new Broker(engine, options) }
  }
  let { engine, broker } = opened()
  afterwards(async () => {
    await broker.close({ drainMs: 0 })
    await engine.close()
  })
  const breaks: unknown[] = []
  let compactions = 0
  for (let turn = 1; turn <= LONG; turn++) {
    if (turn % RESTART === 0) {
      await broker.close()
      await engine.close()
      ;({ engine, broker } = opened())
    }
    // A tool loop in some turns, and in a few one with more blocks than a provider looks back.
    const asked =
      turn % 40 === 0 ? 'call 15 read' : turn % 3 === 0 ? `call ${1 + (turn % 4)} read` : 'go on'
    const before = cache.calls.length
    const result = await broker.execute({
      to: { event: { channel: 'telegram', peer: { kind: 'dm', id: 'ann' } } },
      message: `question ${turn}: ${'lorem '.repeat(120)} ${asked}`,
      event: { from: 'ann', text: 'quoted' },
      eventId: `event-${turn}`,
    }).result
    expect([turn, result.stopReason, result.error]).toEqual([turn, 'end_turn', undefined])
    breaks.push(...result.cacheBreaks)
    if (result.compaction) compactions++
    expect(cache.calls.length - before).toBe(asked === 'go on' ? 1 : 2)
  }
  expect(breaks).toEqual([])
  expect(compactions).toBeGreaterThan(4)
  const { rows } = await engine.ledger.query('SELECT count(*) AS breaks FROM cache_breaks')
  expect(rows).toEqual([{ breaks: 0 }])
  // The server's own record, independent of the engine: a call reads less than is cached only after a compaction.
  const begins = (at: number) => JSON.stringify(cache.calls[at]?.seen.body.messages[0].content)
  const [unlike, summarised] = [[], []] as [number[], number[]]
  for (let at = 1; at < cache.calls.length; at++) {
    const [earlier, now] = [cache.calls[at - 1], cache.calls[at]]
    if (now?.read !== (earlier?.read ?? 0) + (earlier?.written ?? 0)) unlike.push(at)
    if (plain(begins(at)) !== plain(begins(at - 1))) summarised.push(at)
  }
  expect(unlike).toEqual(summarised)
  expect(summarised.length).toBe(compactions)
})

test.runIf(process.platform === 'linux')(
  'a file that has changed is in the prompt from the compaction on, so that both break the cache once',
  async () => {
    const cache = anthropicCache((body) => `answer ${body.messages.length}`)
    const server = await serving(cache.handler)
    const home = folder().path
    writeFileSync(join(home, 'AGENTS.md'), 'Be kind. '.repeat(300))
    const identity = `You are a test. ${'Keep the rules of the house. '.repeat(200)}`
    const { broker, engine } = brokerAt(
      server.url,
      {
        agents: { main: { model: 'test-model', provider: 'test', identity, workspace: home } },
        context: {
          layers: (layers) => [...layers, { name: 'session', source: 'x', text: 'Now.' }],
        },
      },
      {
        providers: {
          test: { api: 'anthropic-messages', baseUrl: server.url },
          small: scriptedProvider([SUMMARY, SUMMARY]),
        },
        models: [
          {
            ...{ provider: 'test', id: 'test-model', contextWindow: 24_000 },
            maxOutputTokens: 2_000,
          },
          { provider: 'small', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000 },
        ],
        compaction: { provider: 'small', model: 'tiny' },
      },
    )
    const ask = async () => {
      const message = `question: ${'lorem '.repeat(800)}`
      const to = { session: 'agent:main:main' }
      const result = await broker.execute({ to, message }).result
      expect([result.stopReason, result.error]).toEqual(['end_turn', undefined])
      return result
    }
    await ask()
    // One is changed, one is new.
    writeFileSync(join(home, 'AGENTS.md'), 'Be quick. '.repeat(300))
    writeFileSync(join(home, 'TOOLS.md'), 'Few. '.repeat(300))
    const breaks: unknown[] = []
    for (let compacted = false; !compacted; ) {
      const result = await ask()
      breaks.push(...result.cacheBreaks)
      compacted = result.compaction !== undefined
    }
    const summarised = cache.calls.length - 1
    for (let turn = 0; turn < 2; turn++) breaks.push(...(await ask()).cacheBreaks)
    const prompts = cache.calls.map(({ seen }) => JSON.stringify(seen.body.system))
    const isNew = (prompt: string) => [prompt.includes('Be quick'), prompt.includes('Few.')]
    expect(prompts.map(isNew)).toEqual(prompts.map((_, at) => [at >= summarised, at >= summarised]))
    expect(prompts.at(-1)).toContain('Now.')
    const unlike = cache.calls.flatMap(({ read }, at) => {
      const before = cache.calls[at - 1]
      return before === undefined || read === before.read + before.written ? [] : [at]
    })
    expect([unlike, breaks]).toEqual([[summarised], []])
    const { rows } = await engine.ledger.query('SELECT count(*) AS breaks FROM cache_breaks')
    expect(rows).toEqual([{ breaks: 0 }])
  },
)

/** Without the marks of the cache, which move. */
function plain(content: string): string {
  return content.replaceAll(/,?"cache_control":\{[^}]*\}/g, '')
}
