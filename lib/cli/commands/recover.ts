// `recover`: turns that a crash has interrupted: listed, continued or closed. It must never continue or close one that was not named by
// an option.

import type { AgentEngine, AgentRun, InterruptedTurn, StopReason } from '../../../index.d.ts'
import { codingTools } from '../../run-agent/run-agent.ts'
import { wrong } from '../arguments.ts'
import { type Context, type Run, usingAgent, usingLedger } from '../context.ts'
import { CommandError, EXIT } from '../exit-codes.ts'
import { AnswerWriter } from '../output/answer.ts'
import { counted, time } from '../output/format.ts'

const recover: Run = (context) => {
  const { resume, discard } = context.values
  if (resume === true && discard === true) {
    throw wrong('--resume and --discard exclude each other', 'recover')
  }
  if (resume === true) {
    return usingAgent(context, async ({ engine }, settings) => {
      const turns = await chosen(context, engine)
      let code: number = EXIT.ok
      for (const { turnId } of turns) {
        const run = await engine.resume(turnId, { tools: codingTools(settings) })
        context.runs.add(run)
        const stopReason = await followed(context, run).finally(() => context.runs.delete(run))
        // The program must end: the other turns stay interrupted.
        if (stopReason === 'aborted') return EXIT.interrupted
        if (stopReason === 'error' || stopReason === 'timeout') code = EXIT.failed
      }
      return code
    })
  }
  return usingLedger(context, async (_, engine) => {
    const turns = await chosen(context, engine)
    if (discard !== true) return list(context, turns)
    for (const { turnId } of turns) {
      await engine.discard(turnId)
      if (context.json) context.out.json({ turnId, outcome: 'discarded' })
      else context.out.line(`${turnId}  discarded`)
    }
    return EXIT.ok
  })
}

/** The interrupted turns that were named; all where none was. */
async function chosen({ operands }: Context, engine: AgentEngine): Promise<InterruptedTurn[]> {
  const turns = await engine.recover()
  if (operands.length === 0) return turns
  return operands.map((id) => {
    const turn = turns.find(({ turnId }) => turnId === id)
    if (turn !== undefined) return turn
    throw new CommandError(EXIT.notFound, `the turn \`${id.slice(0, 100)}\` is not interrupted`)
  })
}

function list({ out, json }: Context, turns: readonly InterruptedTurn[]): number {
  if (json) for (const turn of turns) out.json(turn)
  else if (turns.length === 0) out.line('no turn is interrupted')
  else {
    out.table(
      ['turn', 'session', 'began', 'model', 'state'],
      turns.map((turn) => [
        turn.turnId,
        turn.sessionLabel,
        time(turn.startedAt),
        `${turn.provider} ${turn.model}`,
        stateOf(turn),
      ]),
    )
  }
  return EXIT.ok
}

function stateOf({ awaitingApproval, resumable, toolCalls }: InterruptedTurn): string {
  if (awaitingApproval) return 'waits for an approval'
  if (!resumable) return 'can only be discarded'
  const open = toolCalls.filter(({ status }) => status !== 'completed' && status !== 'failed')
  return open.length === 0
    ? 'can be resumed'
    : `can be resumed (${counted(open.length, 'open call')})`
}

/** Writes a resumed run; how it has ended. */
async function followed({ out, json }: Context, run: AgentRun): Promise<StopReason> {
  const writer = new AnswerWriter(out)
  const end = run.stream.onEvent((event) => (json ? out.json(event) : writer.event(event)))
  const result = await run.result
  end()
  if (json) out.json({ type: 'result', result })
  else writer.end()
  return result.stopReason
}

export { recover }
