// The calls of one message: which overlap, in what order they begin and are answered. It must never assert on time.

import { expect, test } from 'vitest'
import { callTools, deferred, runTools, textOf, tool } from '../support/tools.js'

test('results are sent in call order, for any order of finishing', async () => {
  const gates = Object.fromEntries(['a', 'b', 'c'].map((name) => [name, deferred<string>()]))
  const finished: string[] = []
  let started = 0
  const all = ['a', 'b', 'c'].map((name) =>
    tool(
      name,
      async () => {
        // Once all run, they are released in the opposite order, each after the previous one has finished.
        if (++started === 3) gates.c?.resolve('c')
        const value = await gates[name]?.promise
        finished.push(name)
        const next = { c: 'b', b: 'a', a: '' }[name] ?? ''
        gates[next]?.resolve(next)
        return value
      },
      { executionMode: 'parallel' },
    ),
  )
  const { result, toolResults, events } = await runTools(all, [callTools(['a'], ['b'], ['c'])])
  expect(finished).toEqual(['c', 'b', 'a'])
  expect(toolResults.map((one) => [one.toolName, textOf(one)])).toEqual([
    ['a', 'a'],
    ['b', 'b'],
    ['c', 'c'],
  ])
  expect(result.toolCalls.map((call) => call.toolName)).toEqual(['a', 'b', 'c'])
  const statuses = events.flatMap((event) => (event.type === 'tool_status' ? [event] : []))
  expect(statuses.map((event) => event.status).slice(0, 3)).toEqual([
    'started',
    'started',
    'started',
  ])
  expect(statuses.slice(3).map((event) => event.status)).toEqual([
    'completed',
    'completed',
    'completed',
  ])
})

test('sequential tools never overlap, and begin in call order', async () => {
  let running = 0
  let most = 0
  const order: number[] = []
  const one = tool('one', async ({ n }: { n: number }) => {
    order.push(n)
    most = Math.max(most, ++running)
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
    running--
    return n
  })
  const { result } = await runTools(
    [one],
    [callTools(...Array.from({ length: 8 }, (_, n): [string, unknown] => ['one', { n }]))],
  )
  expect(most).toBe(1)
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  expect(result.toolCalls.map((call) => call.result)).toEqual(order)
})

test('parallel tools overlap: all of them run before any of them ends', async () => {
  const all = deferred<void>()
  let running = 0
  const one = tool(
    'one',
    async () => {
      if (++running === 6) all.resolve()
      await all.promise
      return running
    },
    { executionMode: 'parallel' },
  )
  const { result } = await runTools(
    [one],
    [callTools(...Array.from({ length: 6 }, (): [string] => ['one']))],
  )
  expect(result.toolCalls.map((call) => call.result)).toEqual([6, 6, 6, 6, 6, 6])
})

test('a sequential call waits for the parallel ones before it, and those after it wait for it', async () => {
  const log: string[] = []
  const running = new Set<string>()
  const both = deferred<void>()
  const overlap = async (id: string) => {
    running.add(id)
    log.push(`+${id}`)
    if (running.has('p1') && running.has('p2')) both.resolve()
    if (id === 'p1' || id === 'p2') await both.promise
    for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve))
    if (id === 's') expect([...running]).toEqual(['s'])
    running.delete(id)
    log.push(`-${id}`)
    return id
  }
  const parallel = tool('p', ({ id }: { id: string }) => overlap(id), { executionMode: 'parallel' })
  const sequential = tool('s', ({ id }: { id: string }) => overlap(id))
  const { result } = await runTools(
    [parallel, sequential],
    [callTools(['p', { id: 'p1' }], ['p', { id: 'p2' }], ['s', { id: 's' }], ['p', { id: 'p3' }])],
  )
  expect(log.slice(0, 2)).toEqual(['+p1', '+p2'])
  expect(log.slice(4)).toEqual(['+s', '-s', '+p3', '-p3'])
  expect(result.toolCalls.map((call) => call.result)).toEqual(['p1', 'p2', 's', 'p3'])
})
