// The levels of routing and the invariants of a session's pointer, a test for each row. It must never read a pointer from anywhere but
// the ledger.
//
// | Row                                | Test                                                          |
// |------------------------------------|---------------------------------------------------------------|
// | Persona → main session → head      | "persona: …"                                                  |
// | Session → head                     | "session: …"                                                  |
// | Turn (bedrock)                     | "thread: …"                                                   |
// | `smart` is a modifier              | "smart: …", and all fallbacks in `../routes.spec.ts`          |
// | One message at a time              | `../queue.spec.ts`, "fifty messages to one session …"         |
// | Fresh lookup for each message      | "fresh lookup: …"                                             |
// | Update after completion            | "update after completion: …"                                  |
// | The session table decides          | "the session is looked up by its label: …"                    |
// | Explicit fork                      | "explicit fork: …"                                            |

import { expect, test } from 'vitest'
import { askedServer, brokerAt, echoing } from '../../support/broker.js'
import { closing } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'
import { ledgerAt } from '../../support/ledger/named.js'

const label = 'agent:main:main'
const to = { session: label }
const model = { model: 'test-model', provider: 'test' }

test('persona: its main session is made by its first message, and continued by the next', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: model },
    personas: { atlas: { agentId: 'main' } },
  })
  const first = await broker.execute({ to: { persona: 'atlas' }, message: 'a' }).result
  const second = broker.execute({ to: { persona: 'atlas' }, message: 'b' })
  expect((await second.receipt).sessionLabel).toBe('agent:atlas:main')
  const turn = await engine.ledger.turn((await second.result).turnId)
  expect(turn?.parentTurnId).toBe(first.turnId)
})

test('session: a message follows the newest turn of its session', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const parents: (string | null | undefined)[] = []
  const turns: string[] = []
  for (const message of ['a', 'b', 'c']) {
    const { turnId } = await broker.execute({ to, message }).result
    turns.push(turnId)
    parents.push((await engine.ledger.turn(turnId))?.parentTurnId)
  }
  expect(parents).toEqual([null, turns[0], turns[1]])
})

test('thread: a turn is continued in its session while it is the head, and in a fork from then on', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const x = (await broker.execute({ to, message: 'x' }).result).turnId
  const sent = async (message: string) => {
    const execution = broker.execute({ to: { thread: x }, message })
    const [{ isFork, sessionLabel }, { turnId }] = [await execution.receipt, await execution.result]
    const turn = await engine.ledger.turn(turnId)
    expect((await engine.ledger.session(sessionLabel))?.threadId).toBe(turnId)
    return [isFork, sessionLabel === label, turn?.parentTurnId]
  }
  expect(await sent('y')).toEqual([false, true, x])
  expect(await sent('z')).toEqual([true, false, x])
})

test('smart: the host is asked first, and the given session is the default', async () => {
  const server = await echoing()
  const sure: Record<string, number> = { weather: 0.9, hello: 0.1 }
  const { broker } = brokerAt(server.url, {
    smartRoute: ({ message }) => ({ session: 'forecasts', confidence: sure[message] ?? 0 }),
  })
  await broker.execute({ to: { session: 'forecasts' }, message: 'rain?' }).result
  const sent = async (message: string) =>
    (await broker.execute({ to: { ...to, smart: true }, message }).receipt).sessionLabel
  expect([await sent('weather'), await sent('hello')]).toEqual(['forecasts', label])
})

test('fresh lookup: a message follows what another engine has added while it waited', async () => {
  const { server, next } = await askedServer()
  const { broker, engine, file } = brokerAt(server.url, { queue: { pulseMs: 20 } })
  await broker.suspendQueue(label)
  const execution = broker.execute({ to, message: 'late' })
  await execution.receipt
  const other = closing(engineAt(server.url, { ledger: ledgerAt(file) }))
  const run = other.run(
    context({ sessionLabel: label, currentMessage: { role: 'user', content: 'first' } }),
  )
  ;(await next()).answer('to first')
  const { turnId } = await run.result
  await other.close()
  await broker.resumeQueue(label)
  const asked = await next()
  expect(asked.texts).toEqual(['first', 'late'])
  asked.answer('to late')
  const turn = await engine.ledger.turn((await execution.result).turnId)
  expect(turn?.parentTurnId).toBe(turnId)
})

test('update after completion: the pointer stays while a turn runs, and moves when it has ended', async () => {
  const { server, next } = await askedServer()
  const { broker, engine } = brokerAt(server.url)
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).answer('to a')
  const { turnId } = await first.result
  const second = broker.execute({ to, message: 'b' })
  const asked = await next()
  expect((await engine.ledger.session(label))?.threadId).toBe(turnId)
  asked.answer('to b')
  const moved = (await second.result).turnId
  expect((await engine.ledger.session(label))?.threadId).toBe(moved)
})

test('the session is looked up by its label: an alias that is moved takes the next message along', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  for (const session of ['one', 'two']) {
    await broker.execute({ to: { session }, message: session }).result
  }
  const sent = async (message: string) => {
    const execution = broker.execute({ to: { session: 'desk' }, message })
    await execution.result
    return (await execution.receipt).sessionLabel
  }
  await engine.ledger.alias('desk', 'one')
  const before = await sent('a')
  await engine.ledger.alias('desk', 'two')
  expect([before, await sent('b')]).toEqual(['one', 'two'])
})

test('explicit fork: a turn that has children gets another branch in a session of its own', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const [x, y] = [
    await broker.execute({ to, message: 'x' }).result,
    await broker.execute({ to, message: 'y' }).result,
  ]
  const { sessionLabel, receipt } = await broker.fork(x.turnId, 'z')
  expect(sessionLabel).toMatch(/^fork-/)
  expect(receipt?.sessionLabel).toBe(sessionLabel)
  await broker.execute({ to: { session: sessionLabel }, message: 'after' }).result
  const head = (await engine.ledger.session(sessionLabel))?.threadId ?? ''
  const history = await engine.ledger.history(head)
  expect(history.filter(({ role }) => role === 'user').map(({ content }) => content)).toEqual([
    'x',
    'z',
    'after',
  ])
  expect((await engine.ledger.session(label))?.threadId).toBe(y.turnId)
})
