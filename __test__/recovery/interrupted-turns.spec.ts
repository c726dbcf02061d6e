// Interrupted turns: listed, resumed, closed. The side effects are counted in this process, which is not killed. It must never
// kill anything but its own children.

import { expect, test } from 'vitest'
import { AgentEngine, type AgentResult, type InterruptedTurn } from '../../index.js'
import { afterwards, closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { leasesEnd, onPostgres, rows } from '../support/ledger/named.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import {
  acknowledged,
  effectsOnce,
  expectAccepted,
  look,
  resume,
  skipped,
} from '../support/processes/interrupted.js'
import { killable } from '../support/processes/killable.js'
import { type Counter, counter } from '../support/servers/effect-counter.js'

/** Kills at random moments; the full proof is `RECOVERY_KILLS=1000`. */
const KILLS = Number(process.env.RECOVERY_KILLS ?? 16)

async function counting(): Promise<Counter> {
  const service = await counter()
  afterwards(() => service.close())
  return service
}

/** A turn killed at one of its stops, in a ledger of its own. */
async function interrupted(stopAt = 'after unsafe one') {
  const { file } = folder()
  const service = await counting()
  const changes = JSON.stringify({ stopAt })
  const child = killable('recovery/recovery.mjs', [file, service.url, 'run', 'main', changes])
  await child.line(`at ${stopAt}`)
  child.kill()
  expect(await child.ended).toBe('SIGKILL')
  leasesEnd(file)
  return { file, service }
}

const stops = ['pure', 'idempotent', 'reconcilable', 'unsafe'].flatMap((name) =>
  ['one', 'two'].flatMap((of) => [`before ${name} ${of}`, `after ${name} ${of}`]),
)

test.each(stops)(
  'killed %s, a turn is listed, invisible to readers, and resumed to its end',
  async (stop) => {
    const { file, service } = await interrupted(stop)

    const [, name = '', of] = stop.split(' ')
    const before = await look(file)
    expect([before.session?.threadId, before.head, before.history]).toEqual([null, null, []])
    const [turn] = before.listed
    if (turn === undefined) throw new Error('not listed')
    const order = ['pure', 'idempotent', 'reconcilable', 'unsafe']
    const done = order.indexOf(name)
    const rounds = of === 'one' ? 1 : 2
    expect(turn).toMatchObject({ sessionLabel: 'main', resumable: true, iterations: rounds })
    expect(
      turn.toolCalls.slice(-4).map((call) => [call.toolName, call.replay, call.status]),
    ).toEqual(
      order.map((tool, at) => [
        tool,
        tool,
        at < done ? 'completed' : at === done ? 'running' : 'pending',
      ]),
    )

    const result = await resume(file, service.url, turn)
    expect(result).toMatchObject({
      turnId: turn.turnId,
      runId: turn.runId,
      stopReason: 'end_turn',
      persisted: true,
    })
    expect(result.messages.map((message) => message.role)).toEqual([
      'user',
      ...Array(2).fill(['assistant', 'tool', 'tool', 'tool', 'tool']).flat(),
      'assistant',
    ])
    effectsOnce(service, result, 1)
    const doubtful = result.toolCalls[(rounds - 1) * 4 + done]
    if (name === 'unsafe') {
      expect(doubtful).toMatchObject({ status: 'failed', error: 'outcome_unknown' })
      const reported = result.messages.find((message) => message.isError)
      expect(reported?.content).toMatch(/^outcome_unknown: /)
    } else {
      expect(doubtful).toMatchObject({ status: 'completed', result: `${name} ${of}` })
      expect(service.queried).toEqual(name === 'reconcilable' ? [doubtful?.callId] : [])
    }
    const after = await look(file)
    expect(after.listed).toEqual([])
    expect(after.head).toMatchObject({ id: turn.turnId, status: 'completed', toolCallCount: 8 })
    expect(after.history.map(({ turnId: _, ...message }) => message)).toEqual(result.messages)
    expectAccepted(result.messages)
  },
)

test.each([
  ['after unsafe one', 'before unsafe two', ['outcome_unknown', 'outcome_unknown'], [1, undefined]],
  ['before idempotent one', 'after unsafe two', [undefined, 'outcome_unknown'], [1, 1]],
])('killed twice, %s and %s, a turn continues to its end', async (one, two, errors, times) => {
  const { file } = folder()
  const service = await counting()
  let open: InterruptedTurn | undefined
  for (const stopAt of [one, two]) {
    const mode = open === undefined ? ['run', 'main'] : ['resume', open.turnId]
    const args = [file, service.url, ...mode, JSON.stringify({ stopAt })]
    const child = killable('recovery/recovery.mjs', args, skipped(open))
    await child.line(`at ${stopAt}`)
    child.kill()
    await child.ended
    const { session, listed } = await look(file)
    expect([session?.threadId, listed.map((turn) => turn.resumable)]).toEqual([null, [true]])
    open = listed[0]
  }
  if (open === undefined) throw new Error('not listed')
  const result = await resume(file, service.url, open)
  effectsOnce(service, result, 2)
  expectAccepted(result.messages)
  const unsafe = result.toolCalls.filter((call) => call.toolName === 'unsafe')
  expect(unsafe.map((call) => call.error)).toEqual(errors)
  expect(unsafe.map((call) => service.effects.get('unsafe')?.get(call.callId))).toEqual(times)
})

test('killed during the first answer, a turn is listed with its question and resumed', async () => {
  const { file } = folder()
  const service = await counting()
  const changes = JSON.stringify({ replies: [{ gate: 'never' }] })
  const child = killable('recovery/recovery.mjs', [file, service.url, 'run', 'main', changes])
  await child.line('at stream_start')
  // The turn is stored before the request is sent; the script waits forever.
  let listed: unknown[] = []
  const open = onPostgres
    ? 'SELECT label FROM sessions WHERE running IS NOT NULL'
    : 'SELECT n FROM runs WHERE epoch IS NOT NULL'
  while (listed.length === 0 && (sqlite3 || onPostgres)) listed = rows(file, open)
  child.kill()
  await child.ended
  const { listed: turns } = await look(file)
  expect(turns.map((turn) => [turn.iterations, turn.messages.map((m) => m.content)])).toEqual([
    [0, ['hi']],
  ])
  const [turn] = turns
  if (turn === undefined) throw new Error('not listed')
  const result = await resume(file, service.url, turn)
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  effectsOnce(service, result, 0)
})

test(`${KILLS} kills at random moments: effects once, partial turns invisible, every turn is resumed to its end`, {
  timeout: 60_000 + KILLS * 6_000,
}, async () => {
  const tally = { kills: 0, turns: 0, resumed: 0, unknown: 0 }
  while (tally.kills < KILLS) {
    const { file } = folder()
    const service = await counting()
    tally.turns++
    let kills = 0
    let result: AgentResult | undefined
    let open: InterruptedTurn | undefined
    while (result === undefined) {
      const mode = open === undefined ? ['run', 'main'] : ['resume', open.turnId]
      const child = killable('recovery/recovery.mjs', [file, service.url, ...mode], skipped(open))
      if (tally.kills < KILLS && kills < 6) {
        // By its output, not by time: a process that starts slowly would always be killed at its first call.
        await Promise.race([child.count(1 + Math.floor(Math.random() * 20)), child.ended])
        setTimeout(() => child.kill(), Math.random() * 4)
      }
      const signal = await child.ended
      if (signal === 'SIGKILL') {
        tally.kills++
        kills++
      }
      const seen = await look(file)
      const reported = acknowledged(child.lines)
      if (reported !== undefined) {
        // Acknowledged: it is stored, however the process ended.
        result = reported
        expect(result).toMatchObject({ persisted: true, stopReason: 'end_turn' })
        expect(seen.head?.id).toBe(result.turnId)
      } else if (seen.head !== null) {
        // Killed between the commit and its acknowledgement.
        expect(seen.head.status).toBe('completed')
        const { id: turnId, ...row } = seen.head
        result = { ...row, turnId } as unknown as AgentResult
      } else {
        expect([seen.session?.threadId ?? null, seen.history]).toEqual([null, []])
        expect(seen.listed.length).toBeLessThanOrEqual(1)
        if (open !== undefined)
          expect(seen.listed.map((turn) => turn.turnId)).toEqual([open.turnId])
        open = seen.listed[0]
        expect(open?.resumable ?? true).toBe(true)
        if (open !== undefined) tally.resumed++
      }
    }
    const after = await look(file)
    expect([after.listed, after.history.length]).toEqual([[], 12])
    expect(result.toolCalls).toHaveLength(8)
    effectsOnce(service, result, kills)
    expectAccepted(result.messages)
    tally.unknown += result.toolCalls.filter((call) => call.error === 'outcome_unknown').length
  }
  console.log(JSON.stringify(tally))
})

test('a discarded turn is failed with the code interrupted, has its output, and is the head', async () => {
  const { file } = await interrupted()
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const [turn] = await engine.recover()
  if (turn === undefined) throw new Error('not listed')
  await engine.discard(turn.turnId)
  const row = await engine.ledger.turn(turn.turnId)
  expect(row).toMatchObject({
    status: 'failed',
    stopReason: 'error',
    error: { kind: 'unknown', code: 'interrupted', retryable: true },
    toolCallCount: 4,
  })
  expect(row?.messages.map((message) => message.role)).toEqual([
    'user',
    'assistant',
    'tool',
    'tool',
    'tool',
    'tool',
  ])
  expect(row?.toolCalls.map((call) => [call.status, call.error])).toEqual([
    ['completed', undefined],
    ['completed', undefined],
    ['completed', undefined],
    ['failed', 'interrupted'],
  ])
  expect((await engine.ledger.session('main'))?.threadId).toBe(turn.turnId)
  expect(await engine.recover()).toEqual([])
  const again = await engine.discard(turn.turnId).catch((error: { code: string }) => error.code)
  expect(again).toBe('unknown_turn')
})

test('a turn whose session continued without it cannot be resumed, and is discarded beside its thread', async () => {
  const { file } = await interrupted()
  const { engine } = scriptedEngine(['meanwhile'], { ledger: { path: file } })
  closing(engine)
  const next = await engine.run(context({ sessionLabel: 'main' })).result
  expect(next).toMatchObject({ persisted: true, stopReason: 'end_turn' })
  const [turn] = await engine.recover()
  expect(turn?.resumable).toBe(false)
  const run = await engine.resume(turn?.turnId ?? '', {})
  expect(await run.result).toMatchObject({
    stopReason: 'error',
    persisted: false,
    error: { detail: { code: 'stale_head' } },
  })
  await engine.discard(turn?.turnId ?? '')
  expect((await engine.ledger.session('main'))?.threadId).toBe(next.turnId)
  expect(await engine.ledger.turn(turn?.turnId ?? '')).toMatchObject({ status: 'failed' })
})

test.each(['resume', 'discard'] as const)('recovery: %s at open', async (recovery) => {
  const { file, service } = await interrupted()
  const requested: string[] = []
  const { engine } = scriptedEngine(['two, without tools'], {
    ledger: { path: file },
    recovery,
    toolsFor: (turn) => {
      requested.push(turn.turnId)
      return {}
    },
  })
  closing(engine)
  const [only, ...more] = await engine.recovered
  expect(more).toEqual([])
  expect(only?.outcome).toBe(recovery === 'resume' ? 'resumed' : 'discarded')
  expect(requested).toEqual(recovery === 'resume' ? [only?.turn.turnId] : [])
  if (only?.outcome === 'resumed') {
    expect(await only.run.result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  }
  expect(await engine.recover()).toEqual([])
  expect(service.effects.get('unsafe')?.size).toBe(1)
})

test.each([
  ['done', 'after', ['completed'], 0],
  ['not done', 'before', ['started', 'completed'], 1],
])(
  'a call whose outcome its tool reports as %s has that outcome',
  async (_, when, reported, runs) => {
    const { file } = folder()
    const service = await counting()
    const stopAt = `${when} reconcilable one`
    const changes = JSON.stringify({ stopAt, rounds: 1 })
    const child = killable('recovery/recovery.mjs', [file, service.url, 'run', 'main', changes])
    await child.line(`at ${stopAt}`)
    child.kill()
    await child.ended
    leasesEnd(file)
    const { engine } = scriptedEngine(['done'], { ledger: { path: file } })
    closing(engine)
    const [turn] = await engine.recover()
    let ran = 0
    const tools = ['pure', 'idempotent', 'reconcilable', 'unsafe'].map((name) => ({
      name,
      replay: name as 'reconcilable',
      run: () => {
        if (name === 'reconcilable') ran++
        return name
      },
      reconcile: () =>
        when === 'after'
          ? { outcome: 'done' as const, result: 'it was' }
          : { outcome: 'not_done' as const },
    }))
    const run = await engine.resume(turn?.turnId ?? '', { tools })
    const statuses: string[] = []
    for await (const event of run) {
      if (event.type === 'tool_status' && event.toolName === 'reconcilable') {
        statuses.push(event.status)
      }
    }
    expect((await run.result).stopReason).toBe('end_turn')
    expect([statuses, ran]).toEqual([reported, runs])
  },
)

test('a turn that cannot be resumed is refused with a code', async () => {
  const { file } = folder()
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const refused = (promise: Promise<unknown>) =>
    promise.then(
      () => 'it was not refused',
      (error: { code: string; field?: string }) => [error.code, error.field],
    )
  expect([
    await refused(engine.resume('nowhere')),
    await refused(engine.resume('nowhere', { model: 'other' } as object)),
    await refused(engine.resume(1 as unknown as string)),
    await refused(engine.discard('nowhere')),
    await refused(engine.discard(1 as unknown as string)),
    await refused(closing(new AgentEngine()).recover()),
  ]).toEqual([
    ['unknown_turn', undefined],
    ['invalid_context', 'model'],
    ['invalid_context', 'turnId'],
    ['unknown_turn', undefined],
    ['invalid_context', 'turnId'],
    ['no_ledger', undefined],
  ])
  expect(() => new AgentEngine({ recovery: 'sometimes' as 'list' })).toThrow(/recovery/)
  expect(() => new AgentEngine({ recovery: 'resume' })).toThrow(/toolsFor/)
  expect(() => new AgentEngine({ ledger: { path: file, leaseMs: 1 } })).toThrow(/leaseMs/)
})
