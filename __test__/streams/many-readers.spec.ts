// Several readers of one run: each sees everything from its number on, whenever it begins. It must never assert on time.

import { expect, test } from 'vitest'
import type { StreamEvent } from '../../index.js'
import { closing } from '../support/cleanup.js'
import { context, readAll, scriptedEngine, textOf } from '../support/engine.js'
import { expectGapless } from '../support/events.js'

async function all(events: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const seen: StreamEvent[] = []
  for await (const event of events) seen.push(event)
  return seen
}

test('readers that begin at any time each see every event, also after the end', async () => {
  const { engine, provider } = scriptedEngine([
    { steps: [{ text: 'one two ' }, { gate: 'more' }, { text: 'three' }], chunkSize: 4 },
  ])
  const run = closing(engine).run(context())
  const first = all(run.events())
  const later: Promise<StreamEvent[]>[] = []
  const own: StreamEvent[] = []
  for await (const event of run) {
    own.push(event)
    if (event.seq === 3) {
      later.push(
        all(run.events()),
        all(run.events({ afterSeq: 2 })),
        all(run.events({ afterSeq: 5 })),
      )
      provider.open('more')
    }
  }
  expectGapless(own)
  expect(own.length).toBeGreaterThan(5)
  expect(await first).toEqual(own)
  expect(await Promise.all(later)).toEqual([own, own.slice(2), own.slice(5)])
  expect(await all(run.events())).toEqual(own)
  expect(await all(run.events({ afterSeq: own.length }))).toEqual([])
})

test('leaving another reader leaves the run alone', async () => {
  const { engine, provider } = scriptedEngine([{ gate: 'go', text: 'whole' }])
  const run = closing(engine).run(context())
  for await (const event of run.events()) {
    expect(event.type).toBe('stream_start')
    break
  }
  const waiting = run.events({ afterSeq: 1 })
  const next = waiting.next()
  await waiting.return?.()
  expect(await next).toEqual({ value: undefined, done: true })
  provider.open('go')
  expect((await run.result).stopReason).toBe('end_turn')
  expect(textOf(await readAll(run))).toBe('whole')
})

test('a late reader of a long answer receives every character, and numbers without a gap', async () => {
  const total = 30_000
  const { engine } = scriptedEngine([{ text: 'é'.repeat(total), chunkSize: 1 }])
  const run = closing(engine).run(context())
  const own = await readAll(run)
  expectGapless(own)
  const late = await all(run.events())
  expectGapless(late)
  expect(textOf(late)).toBe('é'.repeat(total))
  // Deltas that were delivered before it began are joined, all but the last ones.
  expect(late.length).toBeLessThan(2 * 4_096)
  expect(late.slice(-2)).toEqual(own.slice(-2))
  for (const at of [0, 1, 776, 4_095, 12_345, own.length - 2]) {
    const { seq } = own[Math.min(at, own.length - 2)] as StreamEvent
    const rest = await all(run.events({ afterSeq: seq }))
    const [first] = rest
    expect((first !== undefined && 'seqFrom' in first && first.seqFrom) || first?.seq).toBe(seq + 1)
    expect(textOf(rest)).toBe(textOf(own.filter((event) => event.seq > seq)))
  }
})

test('a reader in the middle of a long answer receives each character once while older deltas are joined', async () => {
  const { engine } = scriptedEngine([{ text: 'x'.repeat(40_000), chunkSize: 1 }])
  const run = closing(engine).run(context({ detached: true }))
  const slow = run.events()
  const seen: StreamEvent[] = []
  let read = 0
  for await (const _ of run) {
    // One event of every three: it falls behind, and is joined around.
    if (++read % 3 !== 0) continue
    const { value, done } = await slow.next()
    if (!done) seen.push(value)
  }
  for await (const event of slow) seen.push(event)
  expectGapless(seen)
  expect(textOf(seen)).toBe('x'.repeat(40_000))
})

test('onEvent returns a function that ends it, and delivers what was missed where it is asked for', async () => {
  const { engine, provider } = scriptedEngine([
    { steps: [{ text: 'a' }, { gate: 'one' }, { text: 'b' }, { gate: 'two' }, { text: 'c' }] },
  ])
  const run = closing(engine).run(context())
  const seen: Record<'early' | 'late' | 'replayed', string[]> = {
    early: [],
    late: [],
    replayed: [],
  }
  const into = (name: keyof typeof seen) => (event: StreamEvent) =>
    void seen[name].push(`${event.seq} ${event.type}`)
  const same = into('early')
  const off = run.stream.onEvent(same)
  const twin = run.stream.onEvent(same)
  for await (const event of run) {
    if (event.type === 'token' && event.text === 'a') {
      run.stream.onEvent(into('late'))
      run.stream.onEvent(into('replayed'), { afterSeq: 1 })
      expect(seen.replayed).toEqual(['2 token'])
      // One of two equal ones.
      twin()
      twin()
      provider.open('one')
    }
    if (event.type === 'token' && event.text === 'b') {
      off()
      provider.open('two')
    }
  }
  const types = ['1 stream_start', '2 token', '3 token', '4 token', '5 usage', '6 stream_end']
  expect(seen).toEqual({
    early: ['1 stream_start', '1 stream_start', '2 token', '2 token', '3 token'],
    late: types.slice(2),
    replayed: types.slice(1),
  })
  expect(() => run.stream.onEvent(() => {}, { afterSeq: -1 })).toThrow(
    expect.objectContaining({ code: 'invalid_options', field: 'afterSeq' }),
  )
  expect(() => run.events({ after: 1 } as never)).toThrow(
    expect.objectContaining({ code: 'invalid_options', field: 'after' }),
  )
})
