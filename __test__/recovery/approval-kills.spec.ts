// Kills of the process that runs a turn, and of the one that decides, before and after each sync of the ledger: whatever is lost, an
// approved call runs by its replay class, and a denied one never. It must never kill anything but its own children.

import { beforeAll, expect, test } from 'vitest'
import { AgentEngine, type AgentResult, type StreamEvent } from '../../index.js'
import { afterwards, folder } from '../support/cleanup.js'
import { expectGapless } from '../support/events.js'
import { effectsOnce } from '../support/processes/interrupted.js'
import { type Killable, killable } from '../support/processes/killable.js'
import { canPreload, library } from '../support/processes/preload.js'
import { type Counter, counter } from '../support/servers/effect-counter.js'

/** How often each kill is repeated; the full proof is `APPROVAL_KILLS=50`. Else only an approved call that is not run again is killed before each sync too. */
const REPEATS = Number(process.env.APPROVAL_KILLS ?? 1)
const CHILD = 'recovery/approvals.mjs'

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('kill-point')
})

type Verdict = 'approve' | 'deny'

/** Decides as soon as the call waits, from this process; null if the child ended before. */
async function decide(engine: AgentEngine, verdict: Verdict, child: Killable): Promise<void> {
  let over = false
  void child.ended.then(() => {
    over = true
  })
  for (;;) {
    const [approval] = (await engine.approvals({ status: 'pending' })).items
    if (approval !== undefined) {
      if (verdict === 'approve') await engine.approve(approval.id, { by: 'test' })
      else await engine.deny(approval.id, { reason: 'no', by: 'test' })
      return
    }
    if (over) return
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Runs what is left of the turn in new processes until it has ended. */
async function toTheEnd(
  file: string,
  service: Counter,
  engine: AgentEngine,
  verdict: Verdict,
  replay: string,
): Promise<void> {
  for (;;) {
    const [turn] = await engine.recover()
    if (turn === undefined) return
    expect(turn.resumable).toBe(true)
    const args = [file, service.url, 'resume', turn.turnId, replay]
    const child = killable(CHILD, args, { SKIP: String(turn.iterations) })
    await decide(engine, verdict, child)
    expect(await child.ended).toBe(null)
  }
}

/** The events of the run as a reader gets them: without a gap, and each phase of the approval once and in order. */
async function expectEvents(engine: AgentEngine): Promise<void> {
  const events: StreamEvent[] = []
  for await (const event of engine.attach('r1')) events.push(event)
  expectGapless(events)
  const phases = events.flatMap((event) => (event.type === 'approval' ? [event.phase] : []))
  expect(phases[0]).toBe('requested')
  expect(new Set(phases.slice(1))).toEqual(new Set(['decided']))
}

function expectEffects(service: Counter, calls: unknown[], verdict: Verdict, kills: number): void {
  if (verdict === 'deny') {
    expect(service.effects.size).toBe(0)
    expect(calls).toMatchObject([{ status: 'failed', error: 'no' }])
    return
  }
  effectsOnce(service, { toolCalls: calls as never }, kills)
}

/** Kills the process that runs the turn; returns whether it was reached. */
async function killedRunner(at: string, verdict: Verdict, replay: string): Promise<boolean> {
  const { path, file } = folder()
  const service = await counter()
  afterwards(() => service.close())
  await new AgentEngine({ ledger: { path: file } }).close()
  const env = { LD_PRELOAD: preload, KILL_FILE: `${path}/`, KILL_AT: at }
  const child = killable(CHILD, [file, service.url, 'run', '', replay], env)
  const engine = new AgentEngine({ ledger: { path: file } })
  afterwards(() => engine.close())
  await decide(engine, verdict, child)
  const signal = await child.ended
  await toTheEnd(file, service, engine, verdict, replay)
  const session = await engine.ledger.session('main')
  if (session?.threadId) {
    const turn = await engine.ledger.turn(session.threadId)
    const calls = turn?.toolCalls.map((call) => ({ ...call, toolName: replay })) ?? []
    expectEffects(service, calls, verdict, 1)
    expect(turn?.status).toBe('completed')
    await expectEvents(engine)
    expect((await engine.approvals({ status: 'pending' })).items).toEqual([])
  } else {
    expect(service.effects.size).toBe(0)
  }
  expect((await engine.ledger.verify()).problems).toEqual([])
  return signal === 'SIGKILL'
}

const classes: [Verdict, string][] = [
  ['approve', 'idempotent'],
  ['approve', 'reconcilable'],
  ['approve', 'unsafe'],
  ['deny', 'unsafe'],
]

test.skipIf(!canPreload).each(classes)(
  'killed before and after each sync of the run, the turn ends with the decision: %s, %s (cc, Linux)',
  { timeout: 3_600_000 },
  async (verdict, replay) => {
    const isFull = REPEATS > 1 || (verdict === 'approve' && replay === 'unsafe')
    const moments = isFull ? ['before', 'after'] : ['after']
    let kills = 0
    for (const moment of moments) {
      for (let number = 1; ; number++) {
        let reached = false
        for (let repeat = 0; repeat < REPEATS; repeat++) {
          if (await killedRunner(`${moment} sync ${number}`, verdict, replay)) {
            reached = true
            kills++
          }
        }
        if (!reached) break
      }
    }
    // At W0, the parking, the taking over and W4 at least.
    expect(kills).toBeGreaterThanOrEqual(4 * moments.length * REPEATS)
    console.log(`${kills} kills of the run (${verdict}, ${replay})`)
  },
)

test.skipIf(!canPreload).each<[Verdict]>([['approve'], ['deny']])(
  'killed before and after each sync of a decision, it is made wholly or not at all: %s (cc, Linux)',
  { timeout: 3_600_000 },
  async (verdict) => {
    let kills = 0
    for (const moment of ['before', 'after']) {
      for (let number = 1; ; number++) {
        let reached = false
        for (let repeat = 0; repeat < REPEATS; repeat++) {
          const { path, file } = folder()
          const service = await counter()
          afterwards(() => service.close())
          await new AgentEngine({ ledger: { path: file } }).close()
          const runner = killable(CHILD, [file, service.url, 'run', '', 'unsafe'])
          await runner.line('at requested')
          const engine = new AgentEngine({ ledger: { path: file } })
          afterwards(() => engine.close())
          const [approval] = (await engine.approvals()).items
          const env = {
            LD_PRELOAD: preload,
            KILL_FILE: `${path}/`,
            KILL_AT: `${moment} sync ${number}`,
          }
          const args = [file, service.url, verdict, approval?.id as string]
          const signal = await killable(CHILD, args, env).ended
          if (signal === 'SIGKILL') {
            reached = true
            kills++
          }
          // Made or not, another process may make it: a second one is refused.
          await decide(engine, verdict, runner)
          expect(await runner.ended).toBe(null)
          const [decided] = (await engine.approvals()).items
          expect(decided?.status).toBe(verdict === 'approve' ? 'approved' : 'denied')
          const turn = await engine.ledger.turn(decided?.turnId as string)
          const calls = turn?.toolCalls.map((call) => ({ ...call, toolName: 'unsafe' })) ?? []
          expectEffects(service, calls, verdict, 0)
          expect((await engine.ledger.verify()).problems).toEqual([])
        }
        if (!reached) break
      }
    }
    expect(kills).toBeGreaterThanOrEqual(2 * REPEATS)
    console.log(`${kills} kills of the process that decides (${verdict})`)
  },
)

test('a run whose process is stopped continues with the decision that was made meanwhile', async () => {
  const { file } = folder()
  const service = await counter()
  afterwards(() => service.close())
  const runner = killable(CHILD, [file, service.url, 'run', '', 'unsafe'])
  await runner.line('at requested')
  runner.kill('SIGSTOP')
  const engine = new AgentEngine({ ledger: { path: file } })
  afterwards(() => engine.close())
  const [turn] = await engine.recover()
  expect(turn).toMatchObject({ awaitingApproval: true })
  await decide(engine, 'approve', runner)
  expect((await engine.approvals()).items).toMatchObject([
    { status: 'approved', decidedBy: 'test' },
  ])
  expect(service.effects.size).toBe(0)
  runner.kill('SIGCONT')
  expect(await runner.ended).toBe(null)
  const ended = await engine.ledger.turn(turn?.turnId as string)
  const calls = ended?.toolCalls.map((call) => ({ ...call, toolName: 'unsafe' })) ?? []
  expectEffects(service, calls, 'approve', 0)
  await expectEvents(engine)
})

/** A run in another process whose call waits. */
async function elsewhere() {
  const { file } = folder()
  const service = await counter()
  afterwards(() => service.close())
  const runner = killable(CHILD, [file, service.url, 'run', '', 'unsafe'])
  await runner.line('at requested')
  const engine = new AgentEngine({ ledger: { path: file } })
  afterwards(() => engine.close())
  const result = async () => {
    const line = await runner.line('result ')
    expect(await runner.ended).toBe(null)
    return JSON.parse(line.slice('result '.length))
  }
  return { file, service, engine, runner, result }
}

test('a parked turn that another process aborts ends in both, with the same events', async () => {
  const { service, engine, result } = await elsewhere()
  await engine.abortSession('main')
  expect(await result()).toMatchObject({ stopReason: 'aborted', persisted: true })
  expect((await engine.approvals()).items).toMatchObject([{ status: 'cancelled' }])
  expect(service.effects.size).toBe(0)
  const events: StreamEvent[] = []
  for await (const event of engine.attach('r1')) events.push(event)
  expectGapless(events)
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true, stopReason: 'aborted' })
})

test('two processes that both wait for one parked turn both have its result, and its call runs once', async () => {
  const { file, service, engine, runner, result } = await elsewhere()
  const [turn] = await engine.recover()
  const turnId = turn?.turnId as string
  const resumed = killable(CHILD, [file, service.url, 'resume', turnId, 'unsafe'], { SKIP: '1' })
  // The second process has taken the turn over, and has parked it again.
  const parked = `SELECT count(*) AS n FROM session_leases l JOIN approvals a USING (session_label)
    WHERE l.epoch > 1 AND a.parked = 1`
  while ((await engine.ledger.query(parked)).rows[0]?.n !== 1) {}
  await decide(engine, 'approve', resumed)
  const outline = ({ runId, turnId, stopReason, text, toolCalls, usage }: AgentResult) => ({
    ...{ runId, turnId, stopReason, text, toolCalls, usage },
  })
  const first = outline(await result())
  const second = outline(JSON.parse((await resumed.line('result ')).slice('result '.length)))
  expect(await resumed.ended).toBe(null)
  expect(first).toMatchObject({ turnId, runId: 'r1', stopReason: 'end_turn', text: 'done' })
  expect(second).toEqual(first)
  const calls = first.toolCalls.map((call) => ({ ...call, toolName: 'unsafe' }))
  expectEffects(service, calls, 'approve', 0)
  const begun = [runner, resumed].flatMap(({ lines }) => lines.filter((it) => it === 'at before'))
  expect(begun).toHaveLength(1)
  await expectEvents(engine)
  expect((await engine.ledger.verify()).problems).toEqual([])
})
