// `run`: one message, its answer on the standard output, everything else on the standard error. It must never write anything but the
// answer, or JSON, to a standard output that is no terminal.

import type { AgentResult, AgentRun } from '../../../index.d.ts'
import { startTurn } from '../../run-agent/run-agent.ts'
import { importTranscript } from '../../run-agent/transcripts.ts'
import { text, wrong } from '../arguments.ts'
import { type Context, type Run, usingAgent } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { AnswerWriter, summaryOf } from '../output/answer.ts'

const run: Run = async (context) => {
  const message = await messageOf(context)
  return usingAgent(context, async (agent, settings) => {
    const session = text(context.values, 'session') ?? 'main'
    await importTranscript(agent.engine.ledger, settings.paths.sessions, session)
    const turn = startTurn(agent, settings, session, message, { events: 'all' })
    const stop = onInterrupts(turn)
    context.runs.add(turn)
    try {
      const result = context.json ? await printJson(context, turn) : await print(context, turn)
      return exitCodeOf(result)
    } finally {
      context.runs.delete(turn)
      stop()
    }
  })
}

/** The message of the operands, else of the standard input. */
async function messageOf({ operands, stdin }: Context): Promise<string> {
  const given = operands.join(' ')
  if (given !== '' && given !== '-') return given
  if (given === '' && stdin.isTTY) throw wrong('`run` needs a message', 'run')
  let piped = ''
  stdin.setEncoding('utf8')
  for await (const chunk of stdin) piped += chunk
  if (piped.trim() === '') throw wrong('the standard input has no message', 'run')
  return piped.trimEnd()
}

/** Aborts at the first Ctrl-C, and ends the process at the second. Returns what ends that. */
function onInterrupts(turn: AgentRun): () => void {
  let count = 0
  const interrupt = () => {
    count += 1
    if (count > 1) process.exit(EXIT.interrupted)
    turn.abort()
  }
  process.on('SIGINT', interrupt)
  return () => process.off('SIGINT', interrupt)
}

async function printJson({ out }: Context, turn: AgentRun): Promise<AgentResult> {
  for await (const event of turn) out.json(event)
  const result = await turn.result
  out.json({ type: 'result', result })
  return result
}

async function print({ out, err, env }: Context, turn: AgentRun): Promise<AgentResult> {
  const isStreamed = out.isTerminal && env.MYCLAW_NO_STREAM !== '1'
  // Tools and waits are for whoever looks.
  const writer = isStreamed ? new AnswerWriter(out) : undefined
  const progress = !isStreamed && err.isTerminal ? new AnswerWriter(err) : undefined
  const end = turn.stream.onEvent((event) => {
    writer?.event(event)
    if (event.type !== 'token' && event.type !== 'reasoning') progress?.event(event)
  })
  const result = await turn.result
  end()
  writer?.end()
  progress?.end()
  if (!isStreamed && result.text !== '') out.line(out.safe(result.text.replace(/\n$/, '')))
  if (result.error !== undefined && writer === undefined && progress === undefined) {
    err.line(`nexus-agent: ${err.safe(result.error.message)}`)
  }
  if (result.stopReason === 'aborted') err.line('nexus-agent: aborted')
  if (err.isTerminal) err.line(err.style('dim', summaryOf(result)))
  return result
}

function exitCodeOf({ stopReason }: AgentResult): number {
  if (stopReason === 'aborted') return EXIT.interrupted
  return stopReason === 'error' || stopReason === 'timeout' ? EXIT.failed : EXIT.ok
}

export { exitCodeOf, run }
