// The table of queue modes, a test for each row: what a message does while a turn of its session runs, and after that. It must never wait
// for a time.
//
// | Mode            | During an active run   | After the run       |
// |-----------------|------------------------|---------------------|
// | `steer`         | enters it              | runs normally       |
// | `followup`      | waits                  | in order            |
// | `collect`       | waits                  | all in one prompt   |
// | `steer-backlog` | enters it, else waits  | the queue goes on   |
// | `queue`         | waits                  | in order            |
// | `interrupt`     | aborts it              | the message runs    |

import { expect, test } from 'vitest'
import type { AgentEngine, QueueMode } from '../../../index.js'
import { askedServer, brokerAt, userTexts } from '../../support/broker.js'
import { serving } from '../../support/cleanup.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { waitingTool } from '../../support/tools.js'

const label = 'agent:main:main'
const to = { session: label }
const agents = { main: { model: 'test-model', provider: 'test', toolset: 'house' } }

/** The turns of the session, each with its status and the texts of its user's messages. */
async function turnsOf(engine: AgentEngine): Promise<[string, ...string[]][]> {
  const { items } = await engine.ledger.turns({ sessionLabel: label })
  const ids = items.map(({ id }) => id).sort()
  const turns = await Promise.all(ids.map((id) => engine.ledger.turn(id)))
  return turns.map((turn) => {
    const asked = turn?.messages.filter(({ role }) => role === 'user') ?? []
    return [turn?.status ?? '', ...asked.map(({ content }) => content)]
  })
}

/** A session whose turn with the message `a` runs a tool until the test lets it end. */
async function busy() {
  const server = await serving((response, seen) => {
    const last = userTexts(seen).at(-1)
    const hasResult = JSON.stringify(seen.body.messages.at(-1)).includes('tool_result')
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const waits = last === 'a' && !hasResult
    response.end(waits ? anthropic.calls(['c', 'wait', {}]) : anthropic.answer(`to ${last}`))
  })
  const { wait, begun, finish } = waitingTool()
  const options = { agents, toolsets: { house: [wait] }, queue: { debounceMs: 0 } }
  const { broker, engine } = brokerAt(server.url, options)
  const first = broker.execute({ to, message: 'a' })
  await begun
  return { broker, engine, first, finish }
}

const rows: [QueueMode, string, string, [string, ...string[]][]][] = [
  ['steer', 'enters it', 'steered', [['completed', 'a', 'b', 'c']]],
  [
    'followup',
    'waits, and runs in the order of arrival',
    'queued',
    [
      ['completed', 'a'],
      ['completed', 'b'],
      ['completed', 'c'],
    ],
  ],
  [
    'collect',
    'waits, and all that wait are one prompt',
    'queued',
    [
      ['completed', 'a'],
      ['completed', 'b', 'c'],
    ],
  ],
  ['steer-backlog', 'enters it', 'steered', [['completed', 'a', 'b', 'c']]],
  [
    'queue',
    'waits, and runs in the order of arrival',
    'queued',
    [
      ['completed', 'a'],
      ['completed', 'b'],
      ['completed', 'c'],
    ],
  ],
]

test.each(rows)(
  '%s: a message during an active run %s',
  async (mode, _what, disposition, expected) => {
    const { broker, engine, first, finish } = await busy()
    const results = [first.result]
    for (const message of ['b', 'c']) {
      const { receipt, result } = broker.execute({ to, message, mode })
      expect((await receipt).disposition).toBe(disposition)
      results.push(result)
    }
    finish()
    await Promise.all(results)
    expect(await turnsOf(engine)).toEqual(expected)
  },
)

test('collect: the messages of the owner and of a stranger in one group never share a turn', async () => {
  const { broker, engine, first, finish } = await busy()
  const group = { channel: 'telegram', thread: '7' }
  const sent = ['owner', 'stranger', 'owner', 'owner'].map((identity, number) => {
    const message = `${identity} ${number}`
    return broker.execute({ to, message, mode: 'collect', route: group, identity })
  })
  for (const { receipt } of sent) await receipt
  finish()
  await Promise.all([first, ...sent].map(({ result }) => result))
  for (const [, ...texts] of await turnsOf(engine)) {
    expect(new Set(texts.map((text) => text.split(' ')[0])).size).toBe(1)
  }
  expect((await turnsOf(engine)).flatMap(([, ...texts]) => texts).toSorted()).toEqual([
    'a',
    'owner 0',
    'owner 2',
    'owner 3',
    'stranger 1',
  ])
})

test('interrupt: a message during an active run aborts it, and is run', async () => {
  const { broker, engine, first } = await busy()
  const b = broker.execute({ to, message: 'b', mode: 'interrupt' })
  expect((await first.result).stopReason).toBe('aborted')
  expect((await b.result).text).toBe('to b')
  expect(await turnsOf(engine)).toEqual([
    ['aborted', 'a'],
    ['completed', 'b'],
  ])
})

test.each([
  'steer',
  'followup',
  'collect',
  'steer-backlog',
  'queue',
  'interrupt',
] satisfies QueueMode[])('%s: a message to an idle session runs normally', async (mode) => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url)
  const execution = broker.execute({ to, message: 'a', mode })
  expect((await execution.receipt).disposition).toBe('started')
  const asked = await next()
  expect(asked.texts).toEqual(['a'])
  asked.answer('to a')
  expect((await execution.result).text).toBe('to a')
})

test('steer, steer-backlog: where the run takes no message, the first is next, and the second has its place in the queue', async () => {
  const { broker, engine, first, finish } = await busy()
  // No message of another sender enters a turn.
  const others = (['queue', 'steer-backlog', 'steer'] as const).map((mode) =>
    broker.execute({ to, message: mode, mode, identity: `guest of ${mode}` }),
  )
  for (const { receipt } of others) expect((await receipt).disposition).toBe('queued')
  finish()
  await Promise.all([first, ...others].map(({ result }) => result))
  expect(await turnsOf(engine)).toEqual([
    ['completed', 'a'],
    ['completed', 'steer'],
    ['completed', 'queue'],
    ['completed', 'steer-backlog'],
  ])
})

test('steer with `steerPolicy: interrupt` aborts the run, and its message is next', async () => {
  const { server, next } = await askedServer()
  const { broker } = brokerAt(server.url, { queue: { steerPolicy: 'interrupt' } })
  const first = broker.execute({ to, message: 'a' })
  await next()
  const second = broker.execute({ to, message: 'b', mode: 'steer' })
  expect((await first.result).stopReason).toBe('aborted')
  ;(await next()).answer('to b')
  expect((await second.result).text).toBe('to b')
})
