// Abort signals: the reasons that they have, and every asynchronous call that takes one. It must never abort what another test began.

import { expect, test } from 'vitest'
import type { AgentRun } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'

const hanging = [{ steps: [{ text: 'one' }, { gate: 'never' }] }]

test('a run that `AbortSignal.timeout` ends has the stop reason `timeout`', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(hanging, { ledger: { path: file } })
  closing(engine)
  const run = engine.run(context({ runId: 'r', abortSignal: AbortSignal.timeout(50) }))
  const types = []
  for await (const { type } of run) types.push(type)
  const { stopReason, error, abortReason } = await run.result
  expect([stopReason, error?.kind, error?.retryable, error?.detail]).toEqual([
    'timeout',
    'timeout',
    true,
    { kind: 'timeout', code: 'signal_timeout' },
  ])
  expect((abortReason as DOMException).name).toBe('TimeoutError')
  expect(types.at(-1)).toBe('stream_error')
  expect(await engine.runInfo('r')).toMatchObject({ status: 'failed' })
  expect((await engine.resultOf('r')).error).toEqual(error)
})

test('a run whose signal had timed out before it calls no model', async () => {
  const { engine, provider } = scriptedEngine(['ok'])
  closing(engine)
  const reason = new DOMException('too late', 'TimeoutError')
  const result = await engine.run(context({ abortSignal: AbortSignal.abort(reason) })).result
  expect([result.stopReason, result.abortReason]).toEqual(['timeout', reason])
  expect(provider.requests).toHaveLength(0)
})

test('the reason of an abort is in the result, and is that of the signals of tools', async () => {
  const reason = { because: 'the user left' }
  for (const how of ['signal', 'abort']) {
    const controller = new AbortController()
    const { engine } = scriptedEngine([{ toolCalls: [{ name: 'wait', arguments: {} }] }])
    closing(engine)
    let seen: unknown
    const wait = {
      name: 'wait',
      run: (_: unknown, { signal }: { signal: AbortSignal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            seen = signal.reason
            resolve('left')
          })
          if (how === 'signal') controller.abort(reason)
          else run.abort(reason)
        }),
    }
    const run: AgentRun = engine.run(context({ tools: [wait], abortSignal: controller.signal }))
    const { stopReason, abortReason } = await run.result
    expect([stopReason, abortReason === reason, seen === reason]).toEqual(['aborted', true, true])
  }
})

test('every asynchronous call rejects with the reason of its signal, and does nothing where that is aborted already', async () => {
  const { file, path } = folder()
  const { engine } = scriptedEngine(['ok'], { ledger: { path: file } })
  closing(engine)
  const { turnId } = await engine.run(context({ sessionLabel: 'main', runId: 'r' })).result
  const signal = AbortSignal.abort('enough')
  const { ledger } = engine
  const calls: Promise<unknown>[] = [
    engine.countTokens('hi', { model: 'test-model', provider: 'test', signal }),
    engine.compact('main', { signal }),
    engine.profiles({ signal }),
    engine.resetProfile('p', { signal }),
    engine.recover({ signal }),
    engine.discard(turnId, { signal }),
    engine.runs({ signal }),
    engine.runInfo('r', { signal }),
    engine.resultOf('r', { signal }),
    engine.abortSession('main', { signal }),
    engine.steerSession('main', 'x', { signal }),
    engine.abortAll({ signal }),
    engine.approvals({ signal }),
    engine.approve('a', { signal }),
    engine.deny('a', { signal }),
    engine.provideToolResult('c', 1, { signal }),
    ledger.session('main', { signal }),
    ledger.history('main', { signal }),
    ledger.turn(turnId, { signal }),
    ledger.ancestry(turnId, { signal }),
    ledger.children(turnId, { signal }),
    ledger.sessionHistory('main', { signal }),
    ledger.asOf('main', 0, { signal }),
    ledger.search('hi', { signal }),
    ledger.usage({ by: 'model', signal }),
    ledger.sessions({ signal }),
    ledger.toolCalls({ signal }),
    ledger.fork(turnId, { signal }),
    ledger.resolve('main', { signal }),
    ledger.alias('a', 'main', { signal }),
    ledger.removeAlias('a', { signal }),
    ledger.aliases({ signal }),
    ledger.archive('main', { signal }),
    ledger.unarchive('main', { signal }),
    ledger.persona('p', { signal }),
    ledger.personas({ signal }),
    ledger.putPersona('p', { signal }),
    ledger.moveSession('main', turnId, { signal }),
    ledger.uncompact('main', { signal }),
    ledger.query('SELECT 1', [], { signal }),
    ledger.verify({ signal }),
    ledger.backup(`${path}/copy.db`, { signal }),
    ledger.stats({ signal }),
    ledger.vacuum({ signal }),
    ledger.export(`${path}/all.jsonl`, { signal }),
    ledger.import(`${path}/all.jsonl`, { signal }),
  ]
  for (const settled of await Promise.allSettled(calls)) {
    expect(settled).toEqual({ status: 'rejected', reason: 'enough' })
  }
  expect((await ledger.aliases()).items).toEqual([])
  expect((await ledger.sessions()).items).toHaveLength(1)
})

test('a wait that its signal ends leaves no listener, and a signal that is none is refused', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(hanging, { ledger: { path: file } })
  closing(engine)
  const run = engine.run(context({ runId: 'r' }))
  await run.next()
  const controller = new AbortController()
  const { signal } = controller
  const listened: string[] = []
  for (const name of ['addEventListener', 'removeEventListener'] as const) {
    const call = signal[name].bind(signal) as (...args: unknown[]) => void
    signal[name] = ((...args: unknown[]) => {
      listened.push(name)
      call(...args)
    }) as never
  }
  await engine.runInfo('r', { signal })
  expect(listened).toEqual(['addEventListener', 'removeEventListener'])
  const waiting = engine.resultOf('r', { signal })
  controller.abort('left')
  await expect(waiting).rejects.toBe('left')
  await expect(engine.ledger.stats({ signal: 5 as never })).rejects.toMatchObject({
    code: 'invalid_options',
    field: 'signal',
  })
  await expect(engine.ledger.stats({ sgnal: 5 } as never)).rejects.toMatchObject({ field: 'sgnal' })
  run.abort()
})
