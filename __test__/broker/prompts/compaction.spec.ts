// The files of a prompt at a compaction within a turn: the next turn begins with the prompt that this one ends with, so that the
// prompt cache breaks once. The provider's own record decides. It must never write outside of its folders.

import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type AgentTool, Broker, type BrokerOptions, scriptedProvider } from '../../../index.js'
import { onlyPending, paying } from '../../support/approvals.js'
import { afterwards, folder, serving } from '../../support/cleanup.js'
import { engineAt } from '../../support/engine.js'
import { ledgerAt, newLedger } from '../../support/ledger/named.js'
import { anthropicCache, type PromptCache } from '../../support/servers/prompt-cache.js'
import { SUMMARY } from '../../support/values/summary.js'

const linux = process.platform === 'linux'
const to = { session: 'agent:main:main' }
const identity = `You are a test. ${'Keep the rules of the house. '.repeat(200)}`

/** A workspace with a memory, a tool that writes it, and a provider with a small window that makes the calls of a list. */
async function house({
  agent = { identity },
  ...changes
}: Partial<BrokerOptions> & { agent?: object } = {}) {
  const calls: [string, unknown][] = []
  const cache = anthropicCache((body) => {
    const call = calls.shift()
    return call === undefined ? 'answer' : { calls: [[`c${body.messages.length}`, ...call]] }
  })
  const server = await serving(cache.handler)
  const home = folder().path
  const memory = join(home, 'MEMORY.md')
  const remember = (text: string) => writeFileSync(memory, `${text} `.repeat(300))
  const write: AgentTool = {
    name: 'write',
    description: 'Writes the memory.',
    run: ({ text, words }: { text?: string; words?: number }) => {
      remember(text ?? '')
      return 'word '.repeat(words ?? 0)
    },
  }
  const file = newLedger()
  const options: BrokerOptions = {
    agents: {
      main: { model: 'test-model', provider: 'test', workspace: home, toolset: 'own', ...agent },
    },
    toolsets: { own: [write, paying([])] },
    queue: { pulseMs: 20 },
    ...changes,
  }
  const opened = () => {
    const engine = engineAt(server.url, {
      ledger: ledgerAt(file),
      providers: {
        test: { api: 'anthropic-messages', baseUrl: server.url },
        small: scriptedProvider(Array.from({ length: 9 }, () => SUMMARY)),
      },
      models: [
        { provider: 'test', id: 'test-model', contextWindow: 24_000, maxOutputTokens: 2_000 },
        { provider: 'small', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000 },
      ],
      compaction: { provider: 'small', model: 'tiny' },
    })
    const broker = new Broker(engine, options)
    const close = async () => {
      await broker.close({ drainMs: 0 })
      await engine.close()
    }
    afterwards(close)
    return { broker, engine, close }
  }
  return { cache, calls, memory, remember, opened }
}

/** Whether the turn of a message has compacted. */
async function ask(broker: Broker, message: string): Promise<boolean> {
  const result = await broker.execute({ to, message }).result
  expect([result.stopReason, result.error]).toEqual(['end_turn', undefined])
  return result.compaction !== undefined
}

async function fill(broker: Broker, turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    expect(await ask(broker, `Hi ${'lorem '.repeat(1_000)}`)).toBe(false)
  }
}

/** What the prompt of each call has of the memory, a call each. */
const memories = ({ calls }: PromptCache) =>
  calls.map(({ seen }) => / (\w+) \1 /.exec(JSON.stringify(seen.body.system))?.[1] ?? 'none')

/** The calls that did not read all that was cached before. */
const broken = ({ calls }: PromptCache) =>
  calls.flatMap(({ read }, at) => {
    const before = calls[at - 1]
    return before === undefined || read === before.read + before.written ? [] : [at]
  })

const times = (count: number, text: string): string[] => Array.from({ length: count }, () => text)

test.runIf(linux)(
  'a file that a tool changes in the turn that compacts is in the prompt from the compaction on, also after a restart',
  async () => {
    const { cache, calls, remember, opened } = await house()
    remember('before')
    const { broker, engine, close } = opened()
    await fill(broker, 9)
    calls.push(['write', { text: 'after', words: 3_500 }])
    expect(await ask(broker, 'Write.')).toBe(true)
    await ask(broker, 'Go on.')
    remember('late')
    await ask(broker, 'Go on.')
    const { rows } = await engine.ledger.query('SELECT count(*) AS breaks FROM cache_breaks')
    expect(rows).toEqual([{ breaks: 0 }])
    await close()
    await ask(opened().broker, 'Go on.')
    expect(memories(cache)).toEqual([...times(10, 'before'), ...times(4, 'after')])
    expect(broken(cache)).toEqual([10])
  },
)

test.runIf(linux)(
  'a file that changes after the turn has begun is in the prompt of its first call, where that compacts, and a text of the host stays',
  async () => {
    let begins = () => {}
    const { cache, remember, opened } = await house({
      context: {
        layers: (layers) => {
          begins()
          const of = (text: string) => ({ name: 'session' as const, source: 'host', text })
          return [of('First.'), ...layers, of('Last.')]
        },
      },
    })
    remember('before')
    const { broker } = opened()
    await fill(broker, 9)
    begins = () => remember('after')
    const long = 'lorem '.repeat(4_000)
    expect(await ask(broker, `Long ${long}`)).toBe(true)
    begins = () => {}
    await ask(broker, 'Go on.')
    expect(memories(cache)).toEqual([...times(9, 'before'), ...times(2, 'after')])
    expect(broken(cache)).toEqual([9])
    const prompts = cache.calls.map(({ seen }) => JSON.stringify(seen.body.system))
    for (const prompt of prompts) expect(prompt).toMatch(/"First\.\\n\\nYou are .*\\n\\nLast\."/)
  },
)

test.runIf(linux)(
  'a file that is new, or is gone, at a compaction is so in the next turn as well',
  async () => {
    const { cache, calls, memory, opened } = await house({ agent: {} })
    const { broker } = opened()
    await fill(broker, 10)
    calls.push(['write', { text: 'after', words: 3_500 }])
    expect(await ask(broker, 'Write.')).toBe(true)
    await ask(broker, 'Go on.')
    rmSync(memory)
    await fill(broker, 3)
    expect(await ask(broker, `Long ${'lorem '.repeat(4_000)}`)).toBe(true)
    await ask(broker, 'Go on.')
    expect(memories(cache)).toEqual([
      ...times(11, 'none'),
      ...times(5, 'after'),
      ...times(2, 'none'),
    ])
    expect(broken(cache)).toEqual([11, 16])
  },
)

test.runIf(linux)(
  'a turn that is resumed in another engine has the prompt that a compaction within it has made',
  async () => {
    const { cache, calls, remember, opened } = await house()
    remember('before')
    const first = opened()
    await fill(first.broker, 9)
    calls.push(['write', { text: 'after', words: 3_500 }], ['pay', { to: 'shop', amount: 7 }])
    await first.broker.send({ to, message: 'Write, then pay.' })
    const { id } = await onlyPending(first.engine)
    await first.close()
    remember('late')
    const { broker } = opened()
    const ended = new Promise<void>((resolve) => broker.on('usage', () => resolve()))
    // It compacts once more, now because of what its call is made with.
    calls.push(['write', { text: 'last', note: 'lorem '.repeat(9_000) }])
    await broker.approve(id)
    await ended
    await ask(broker, 'Go on.')
    const expected = [...times(10, 'before'), ...times(2, 'after'), ...times(2, 'last')]
    expect(memories(cache)).toEqual(expected)
  },
)
