// Gates outside of a script: tools and hooks that a test holds. It must never sleep.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { collect, gate, scriptedProvider, toolCall } from '../../testing.js'
import { closing } from '../support/cleanup.js'
import { context, testModel } from '../support/engine.js'

function withTool(run: (signal: AbortSignal) => unknown) {
  const model = scriptedProvider([[toolCall('slow')], 'Done.'])
  const engine = closing(new AgentEngine({ providers: { test: model }, models: [testModel] }))
  return engine.run(context({ tools: [{ name: 'slow', run: (_, { signal }) => run(signal) }] }))
}

test('a tool waits until the test, which knows that it waits, opens the gate', async () => {
  const door = gate()
  const run = withTool(async (signal) => {
    await door.pass(signal)
    return 'through'
  })
  const ended = collect(run)
  await door.reached
  expect(door.isOpen).toBe(false)
  door.open()
  const { result } = await ended
  expect(result.toolCalls).toMatchObject([{ status: 'completed', result: 'through' }])
})

test('an abort ends the wait with its reason', async () => {
  const door = gate()
  const reasons: unknown[] = []
  const run = withTool((signal) => door.pass(signal).catch((reason) => reasons.push(reason)))
  const ended = collect(run)
  await door.reached
  run.abort()
  const { result } = await ended
  expect(result.stopReason).toBe('aborted')
  await expect.poll(() => reasons).toMatchObject([{ name: 'AbortError' }])
})

test('an aborted signal is refused at once, and an open gate lets everybody through', async () => {
  const door = gate()
  await expect(door.pass(AbortSignal.abort('gone'))).rejects.toBe('gone')
  const waits = [door.pass(), door.pass(new AbortController().signal)]
  door.open()
  door.open()
  await Promise.all(waits)
  await door.pass()
})

test('a wait leaves no listener on its signal', async () => {
  const door = gate()
  const { signal } = new AbortController()
  let listeners = 0
  const { addEventListener, removeEventListener } = signal
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    listeners += 1
    addEventListener.apply(signal, args)
  }
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    listeners -= 1
    removeEventListener.apply(signal, args)
  }
  const wait = door.pass(signal)
  expect(listeners).toBe(1)
  door.open()
  await wait
  expect(listeners).toBe(0)
})
