// Failing models, through the public API: when the next model of the chain is called
// (docs/rules/failover.md#model-fallback), and options that are refused. It must never assert a duration.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { readAll, textOf } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import {
  chatReplyWith,
  contextOfM1,
  failWith,
  replyWith,
  runWithM1,
  switches,
  type World,
  world,
} from '../../support/servers/failover.js'
import { sse } from '../../support/servers/server.js'

let it: World
beforeEach(async () => {
  it = await world()
})
afterEach(() => it.server.close())

const runOnce = (changes: Partial<AssembledContext> = {}, options: AgentEngineOptions = {}) =>
  runWithM1(it, changes, options)

describe('models', () => {
  test('the next model gets the conversation in its own API, and the turn records that model', async () => {
    const { file } = folder()
    const engine = it.engine({ ledger: { path: file, synchronous: 'normal' } })
    it.answers(() =>
      sse(
        anthropic.start() +
          anthropic.thinking(0, 'hm', 'sig') +
          anthropic.text(1, 'first') +
          anthropic.end(),
      ),
    )
    await engine.run(contextOfM1()).result
    it.answers((model) => (model === 'o1' ? chatReplyWith('second') : failWith(404)))
    const run = engine.run(
      contextOfM1({ fallbacks: ['m2', { provider: 'other', model: 'o1' }, 'm1'] }),
    )
    const events = await readAll(run)
    const result = await run.result
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'second'])
    expect(switches(events)).toEqual(['m1>m2 model_not_found', 'm2>o1 model_not_found'])
    expect(it.requested).toEqual(['m1/a', 'm1/a', 'm2/a', 'o1/o'])
    const sent = it.server.seen.at(-1)?.body
    expect(sent.messages.map(({ role }: { role: string }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
    ])
    expect(JSON.stringify(sent.messages)).not.toContain('hm')
    expect(result.tokenBudget?.modelLimit).toBe(100_000)
    const turn = await engine.ledger.turn(result.turnId)
    expect(turn).toMatchObject({ provider: 'other', model: 'o1' })
    const { rows } = await engine.ledger.query('SELECT attempts_json FROM turns WHERE id = ?', [
      result.turnId,
    ])
    expect(JSON.parse(String(rows[0]?.attempts_json))).toEqual(result.attempts)
    expect(
      result.attempts.map(({ model, profileId, reason }) => [model, profileId, reason]),
    ).toEqual([
      ['m1', 'a', 'model_not_found'],
      ['m2', 'a', 'model_not_found'],
      ['o1', 'o', undefined],
    ])
    // The next turn begins with the requested model.
    it.answers(() => replyWith('third'))
    expect((await engine.run(contextOfM1()).result).attempts).toMatchObject([
      { model: 'm1', ok: true },
    ])
  })

  test('after the first token no other model is requested', async () => {
    it.answers(() =>
      sse(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'text', text: '' }) +
          anthropic.delta(0, { type: 'text_delta', text: 'half' }),
      ),
    )
    const { result, events } = await runOnce({ fallbacks: ['m2'] })
    expect(result).toMatchObject({ stopReason: 'error', error: { retryable: true } })
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
    expect(it.requested).toEqual(['m1/a'])
  })

  test('a refusal without text leads to the next model; with text it is final', async () => {
    it.answers((model) =>
      model === 'm1' ? sse(anthropic.start() + anthropic.end('refusal')) : replyWith('ok'),
    )
    const { result, events } = await runOnce({ fallbacks: ['m2'] })
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'ok'])
    expect(switches(events)).toEqual(['m1>m2 refusal'])
    it.answers(() => sse(anthropic.start() + anthropic.text(0, 'No.') + anthropic.end('refusal')))
    const declined = await runOnce({ fallbacks: ['m2'], sessionLabel: 'other' })
    expect(declined.result.error?.detail.kind).toBe('refusal')
    expect(it.requested).toEqual(['m1/a', 'm2/a', 'm1/a'])
  })

  test('a prompt that is too long leads to a larger window only, and only after compaction has failed', async () => {
    const long = () => failWith(400, 'prompt is too long: 9 > 8')
    it.answers((model) => (model === 'm3' ? replyWith('fits') : long()))
    const { result, events } = await runOnce({ fallbacks: ['m2', 'm3'] }, { compaction: false })
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'fits'])
    expect(switches(events)).toEqual(['m1>m3 context_overflow'])
    expect(it.requested).toEqual(['m1/a', 'm3/a'])
  })

  test('a summary comes before a larger window', async () => {
    const { file } = folder()
    let full = false
    it.answers((model, _) => (response, seen) => {
      const text = JSON.stringify(seen.body)
      if (text.includes('lorem') && model === 'm1' && full && !text.includes('It goes on'))
        return (
          seen.body.messages.length === 1
            ? replyWith('## Goal\nIt goes on.')
            : failWith(400, 'prompt is too long: 9 > 8')
        )(response, seen)
      return replyWith(full ? 'fits' : 'lorem ipsum '.repeat(800))(response, seen)
    })
    const engine = it.engine({
      ledger: { path: file, synchronous: 'normal' },
      compaction: { preset: 'myclaw' },
    })
    for (let turn = 0; turn < 8; turn++) await engine.run(contextOfM1()).result
    full = true
    const run = engine.run(contextOfM1({ fallbacks: ['m3'] }))
    const events = await readAll(run)
    const result = await run.result
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'fits'])
    expect(result.compaction?.summary).toContain('It goes on')
    expect(switches(events)).toEqual([])
  })

  test('after a compaction the key is chosen again, because the old prompt’s cache is useless', async () => {
    const { file } = folder()
    let full = false
    it.answers(() => (response, seen) => {
      const long = full && seen.body.messages.length > 4
      const answer = long
        ? failWith(400, 'prompt is too long: 9 > 8')
        : replyWith('lorem ipsum '.repeat(400))
      return answer(response, seen)
    })
    const engine = it.engine({
      ledger: { path: file, synchronous: 'normal' },
      compaction: { strategies: ['hard_clear'] },
    })
    for (let turn = 0; turn < 4; turn++) await engine.run(contextOfM1()).result
    full = true
    expect((await engine.run(contextOfM1()).result).compaction?.compactionType).toBe('hard_clear')
    expect(it.requested.slice(-3)).toEqual(['m1/a', 'm1/a', 'm1/b'])
    await engine.run(contextOfM1()).result
    expect(it.requested.at(-1)).toBe('m1/b')
  })

  test('all models fail: the last one’s error, and every attempt', async () => {
    it.answers(() => failWith(401))
    const engine = it.engine({}, ['a'])
    const result = await engine.run(
      contextOfM1({ fallbacks: ['m2', { provider: 'other', model: 'o1' }] }),
    ).result
    expect(result).toMatchObject({ stopReason: 'error', error: { kind: 'auth_failure' } })
    // The key was refused, so its other model is not called.
    expect(it.requested).toEqual(['m1/a', 'o1/o'])
    expect(result.attempts.map(({ model }) => model)).toEqual(['m1', 'o1'])
  })

  test('an allowlist holds for fallbacks, and names the models it left out', async () => {
    it.answers((model) => (model === 'm1' ? failWith(404) : replyWith('ok')))
    const { result } = await runOnce({ fallbacks: ['m2', 'm3'] }, { failover: { allow: ['m3'] } })
    expect(it.requested).toEqual(['m1/a', 'm3/a'])
    expect(result.warnings).toMatchObject([{ code: 'fallback_not_allowed', field: 'fallbacks[0]' }])
    const usual = it.engine({ failover: { fallbacks: ['m2'] } })
    expect((await usual.run(contextOfM1()).result).attempts.at(-1)?.model).toBe('m2')
  })

  test('options for one provider are not sent to another', async () => {
    it.answers((model) => (model === 'o1' ? chatReplyWith('ok') : failWith(404)))
    const { result } = await runOnce({
      fallbacks: ['m2', 'o1'],
      headers: { 'x-team-secret': 'house-key-0123456789' },
      providerTools: [{ type: 'web_search_20250305', name: 'web_search' }],
    })
    expect(result.stopReason).toBe('end_turn')
    const sent = it.server.seen.map(({ headers, raw }) => [
      headers['x-team-secret'] !== undefined,
      raw.includes('web_search'),
    ])
    expect(sent).toEqual([
      [true, true],
      [true, true],
      [false, false],
    ])
    expect(result.warnings.map(({ code, field }) => [code, field])).toEqual([
      ['unsupported_option', 'headers'],
      ['unsupported_option', 'providerTools'],
    ])
  })

  test('the tool loop continues with the fallback model', async () => {
    let ran = 0
    const tools = [{ name: 'look', run: () => `saw ${++ran}` }]
    let calls = 0
    it.answers((model) => {
      if (model === 'm1')
        return calls++ === 0 ? sse(anthropic.calls(['c1', 'look', {}])) : failWith(404)
      return replyWith('done')
    })
    const { result, events } = await runOnce({ tools, fallbacks: ['m2'] })
    expect([result.stopReason, textOf(events), ran]).toEqual(['end_turn', 'done', 1])
    expect(it.requested).toEqual(['m1/a', 'm1/a', 'm2/a'])
    const sent = JSON.stringify(it.server.seen.at(-1)?.body.messages)
    expect(sent).toContain('saw 1')
  })
})

describe('wrong options are refused immediately', () => {
  test.each([
    [{ fallbacks: ['nope'] }, 'unknown_model', 'fallbacks[0]'],
    [
      { fallbacks: [{ provider: 'nope', model: 'm1' }] },
      'unknown_provider',
      'fallbacks[0].provider',
    ],
    [{ fallbacks: [7] }, 'invalid_context', 'fallbacks[0]'],
    [{ fallbacks: [''] }, 'invalid_context', 'fallbacks[0]'],
    [{ fallbacks: 'm2' }, 'invalid_context', 'fallbacks'],
    [{ authProfileId: 'nope' }, 'invalid_context', 'authProfileId'],
    [{ authProfileId: 'o' }, 'invalid_context', 'authProfileId'],
  ])('in a context: %j', (changes, code, field) => {
    const engine = it.engine()
    expect(() => engine.run(contextOfM1(changes as Partial<AssembledContext>))).toThrow(
      expect.objectContaining({ code, field }),
    )
  })

  test.each([
    [{ ladder: 'steep' }, 'failover.ladder'],
    [{ billingBaseMs: 0 }, 'failover.billingBaseMs'],
    [{ order: { nope: [] } }, 'failover.order.nope'],
    [{ order: { test: ['o'] } }, 'failover.order.test[0]'],
    [{ order: { test: ['a', 'a'] } }, 'failover.order.test[1]'],
    [{ fallbacks: [{ provider: 'nope', model: 'x' }] }, 'failover.fallbacks'],
    [{ other: 1 }, 'failover.other'],
    [[], 'failover'],
  ])('in the options: %j', (failover, field) => {
    expect(() => it.engine({ failover: failover as never })).toThrow(
      expect.objectContaining({ code: 'invalid_options', field }),
    )
  })

  test('an unknown profile', async () => {
    await expect(it.engine().resetProfile('nope')).rejects.toMatchObject({
      code: 'unknown_profile',
    })
  })
})
