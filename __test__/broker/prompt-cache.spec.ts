// The proof that a broker breaks no prompt cache: a long conversation with tools, events, memories and files, over a restart. The
// server's own record decides, and the engine's. It must never look at times.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type AgentTool, Broker, type BrokerOptions } from '../../index.js'
import { afterwards, folder, serving } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { anthropicCache } from '../support/servers/prompt-cache.js'

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
