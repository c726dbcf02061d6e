// Steering: a message that reaches a run under way is delivered or returned. It must never assert on time, but for an abort.

import { describe, expect, test } from 'vitest'
import type { PlainTool } from '../../index.js'
import {
  abortable,
  expectAbort,
  expectNoMoreThan,
  halfText,
  isToken,
  isToolStart,
  readUntil,
} from '../support/abort.js'
import { closing } from '../support/cleanup.js'
import { context, readAll, scriptedEngine } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { gate, sse } from '../support/servers/server.js'

describe('steering', () => {
  test('reaches the model after the running tool; the calls after it are skipped', async () => {
    const all = await abortable(
      sse(anthropic.calls(['a', 'work', {}], ['b', 'work', {}], ['c', 'work', {}])),
      sse(anthropic.answer('ok')),
    )
    let ran = 0
    let steered: boolean | undefined
    const work: PlainTool = {
      name: 'work',
      run: () => {
        ran++
        steered = run.steer('Stop that.')
        return 'done'
      },
    }
    const run = all.engine.run(context({ tools: [work] }))
    const events = await readAll(run)
    const result = await run.result
    expect({ ran, steered }).toEqual({ ran: 1, steered: true })
    expect(result.toolCalls.map(({ id, status: how, error }) => [id, how, error])).toEqual([
      ['a', 'completed', undefined],
      ['b', 'failed', 'Skipped due to queued user message.'],
      ['c', 'failed', 'Skipped due to queued user message.'],
    ])
    expect(result.messages.map(({ role, content, isError }) => [role, content, isError])).toEqual([
      ['user', 'hi', undefined],
      ['assistant', '', undefined],
      ['tool', 'done', false],
      ['tool', 'Skipped due to queued user message.', true],
      ['tool', 'Skipped due to queued user message.', true],
      ['user', 'Stop that.', undefined],
      ['assistant', 'ok', undefined],
    ])
    expect(JSON.stringify(all.server.seen[1].body.messages.at(-1))).toContain('Stop that.')
    expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
    expect(result.undeliveredSteering).toEqual([])
    await expectNoMoreThan(2, all)
  })

  test('during the last answer continues the same turn', async () => {
    const more = gate()
    const all = await abortable(
      async (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(halfText)
        await more.wait
        response.end(anthropic.blockStop(0) + anthropic.end())
      },
      sse(anthropic.answer('and that')),
    )
    const run = all.engine.run(context())
    await readUntil(run, isToken)
    expect(run.stream.steer('And that?')).toBe(true)
    more.open()
    const events = await readAll(run)
    expect(events.map((event) => (event.type === 'stream_end' ? event.final : event.type))).toEqual(
      ['usage', false, 'user_message', 'token', 'usage', true],
    )
    const result = await run.result
    expect(result.messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'hi'],
      ['assistant', 'half'],
      ['user', 'And that?'],
      ['assistant', 'and that'],
    ])
    expect(result).toMatchObject({ stopReason: 'end_turn', undeliveredSteering: [] })
    const turns = await all.engine.ledger.query('select count(*) as n from turns')
    expect(turns.rows).toEqual([{ n: 1 }])
  })

  test('several messages arrive in order', async () => {
    const { engine, provider } = scriptedEngine([{ gate: 'go', text: 'one' }, 'two'])
    const run = closing(engine).run(context())
    await run.next()
    // The first request was sent: the messages cannot be part of it.
    while (provider.requests.length === 0) await new Promise(setImmediate)
    expect([run.steer('b'), run.steer('c')]).toEqual([true, true])
    provider.open('go')
    const { messages } = await run.result
    expect(messages.map(({ content }) => content)).toEqual(['hi', 'one', 'b', 'c', 'two'])
  })

  test('after the end is refused, as is anything but a text', async () => {
    const { engine } = scriptedEngine(['done'])
    const run = closing(engine).run(context())
    expect([run.steer(''), run.steer(undefined as never)]).toEqual([false, false])
    const result = await run.result
    expect(run.steer('late')).toBe(false)
    expect(result.undeliveredSteering).toEqual([])
  })

  test('from the callback of the terminal event is refused, and never accepted and lost', async () => {
    const { engine } = scriptedEngine(['done'])
    const run = closing(engine).run(context())
    let taken: boolean | undefined
    run.stream.onEvent((event) => {
      if (event.type === 'stream_end') taken = run.steer('late')
    })
    await run.result
    expect(taken).toBe(false)
  })

  test('is returned when the run is aborted before the model received it', async () => {
    const all = await abortable(sse(anthropic.calls(['a', 'deaf', {}])))
    const deaf: PlainTool = { name: 'deaf', run: () => new Promise(() => {}) }
    const run = all.engine.run(context({ tools: [deaf] }))
    await readUntil(run, isToolStart)
    expect([run.steer('one'), run.steer('two')]).toEqual([true, true])
    const result = await expectAbort(all.engine, run, () => run.abort())
    expect(result.undeliveredSteering).toEqual(['one', 'two'])
    expect(result.messages.filter((message) => message.role === 'user').length).toBe(1)
  })

  test('at any time, an accepted message is delivered or returned', async () => {
    for (let turns = 0; turns < 60; turns++) {
      const { engine } = scriptedEngine([{ text: 'one' }, 'two', 'three'])
      const run = engine.run(context())
      for (let n = 0; n < turns % 12; n++) await Promise.resolve()
      if (turns % 3 === 1) await run.next()
      if (turns % 3 === 2) await new Promise(setImmediate)
      const taken = run.steer('more')
      const result = await run.result
      const delivered = result.messages.some(
        ({ role, content }) => role === 'user' && content === 'more',
      )
      const back = result.undeliveredSteering.includes('more')
      expect(delivered !== back).toBe(taken)
      expect(delivered || back).toBe(taken)
      await engine.close()
    }
  })
})
