// The loop: answers and their calls, until nothing is left to answer. It must never end without `agent_end`.

import type {
  AgentContext,
  AgentEvent,
  AgentEventSink,
  AgentLoopConfig,
  AgentMessage,
  StreamFn,
} from '../../pi-agent.d.ts'
import type { EventStream as Stream } from '../../pi-ai.d.ts'
import { EventStream } from '../../pi-ai.js'
import { answer, failure } from './answer.ts'
import { executeCalls } from './calls.ts'
import { asked, isAborted, messageOf, type Run, refuseLimits } from './run.ts'

function agentLoop(
  prompts: AgentMessage[],
  context: AgentContext,
  config: AgentLoopConfig,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Stream<AgentEvent, AgentMessage[]> {
  return streamed(config, signal, (emit) =>
    runAgentLoop(prompts, context, config, emit, signal, streamFn),
  )
}

function agentLoopContinue(
  context: AgentContext,
  config: AgentLoopConfig,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Stream<AgentEvent, AgentMessage[]> {
  refuseAnswered(context)
  return streamed(config, signal, (emit) =>
    runAgentLoopContinue(context, config, emit, signal, streamFn),
  )
}

async function runAgentLoop(
  prompts: AgentMessage[],
  context: AgentContext,
  config: AgentLoopConfig,
  emit: AgentEventSink,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Promise<AgentMessage[]> {
  refuseLimits(config)
  const added = [...prompts]
  const own = { ...context, messages: [...context.messages, ...prompts] }
  await emit({ type: 'agent_start' })
  await emit({ type: 'turn_start' })
  for (const message of prompts) {
    await emit({ type: 'message_start', message })
    await emit({ type: 'message_end', message })
  }
  return loop({ context: own, config, emit, signal, streamFn }, added)
}

async function runAgentLoopContinue(
  context: AgentContext,
  config: AgentLoopConfig,
  emit: AgentEventSink,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Promise<AgentMessage[]> {
  refuseAnswered(context)
  refuseLimits(config)
  await emit({ type: 'agent_start' })
  await emit({ type: 'turn_start' })
  return loop({ context: { ...context }, config, emit, signal, streamFn }, [])
}

function refuseAnswered({ messages }: AgentContext): void {
  const last = messages.at(-1)
  if (last === undefined) throw new Error('Cannot continue: no messages in context')
  if (last.role === 'assistant') throw new Error('Cannot continue from message role: assistant')
}

/** The events of a run as a stream. */
function streamed(
  config: AgentLoopConfig,
  signal: AbortSignal | undefined,
  run: (emit: AgentEventSink) => Promise<AgentMessage[]>,
): Stream<AgentEvent, AgentMessage[]> {
  const stream = new EventStream<AgentEvent, AgentMessage[]>(
    (event) => event.type === 'agent_end',
    (event) => (event.type === 'agent_end' ? event.messages : []),
  )
  const added: AgentMessage[] = []
  const emit = (event: AgentEvent) => {
    if (event.type === 'message_end') added.push(event.message)
    stream.push(event)
  }
  run(emit).then(
    (messages) => stream.end(messages),
    (error: unknown) => {
      // A function of the host has thrown between two answers: what there was before is not lost.
      const message = failure(config.model, signal?.aborted === true, messageOf(error))
      const messages = [...added, message]
      stream.push({ type: 'agent_end', messages })
      stream.end(messages)
    },
  )
  return stream
}

/** Answers until nothing is left. `added` are the messages of the run. */
async function loop(run: Run, added: AgentMessage[]): Promise<AgentMessage[]> {
  const { getSteeringMessages, getFollowUpMessages } = run.config
  let pending = (await asked(run, getSteeringMessages)) ?? []
  let isFirst = true
  for (;;) {
    let goesOn = true
    while (goesOn || pending.length > 0) {
      if (!isFirst) await run.emit({ type: 'turn_start' })
      isFirst = false
      const { isOver, hasResults, steering } = await turn(run, pending, added)
      if (isOver) return end(run, added)
      goesOn = hasResults
      // After an abort nothing is taken out of the queues: it would be lost.
      pending = steering ?? (isAborted(run) ? [] : ((await asked(run, getSteeringMessages)) ?? []))
    }
    pending = isAborted(run) ? [] : ((await asked(run, getFollowUpMessages)) ?? [])
    if (pending.length === 0) return end(run, added)
  }
}

/** What came of one turn. */
interface Turn {
  /** The run ends with it. */
  isOver: boolean
  /** There are results that the model has not seen. */
  hasResults: boolean
  /** The messages that were steered meanwhile; undefined where nobody looked. */
  steering?: AgentMessage[] | undefined
}

/** One answer, and its calls. */
async function turn(run: Run, pending: AgentMessage[], added: AgentMessage[]): Promise<Turn> {
  const { context, config, emit } = run
  for (const message of pending) {
    await emit({ type: 'message_start', message })
    await emit({ type: 'message_end', message })
    context.messages.push(message)
    added.push(message)
  }
  const message = await answer(run)
  added.push(message)
  if (message.stopReason === 'error' || message.stopReason === 'aborted') {
    await emit({ type: 'turn_end', message, toolResults: [] })
    return { isOver: true, hasResults: false }
  }
  const hasCalls = message.content.some((part) => part.type === 'toolCall')
  const batch = hasCalls ? await executeCalls(run, message) : undefined
  const toolResults = batch?.results ?? []
  context.messages.push(...toolResults)
  added.push(...toolResults)
  await emit({ type: 'turn_end', message, toolResults })
  const { shouldStopAfterTurn } = config
  const about = { message, toolResults, context, newMessages: added }
  const isOver = await asked(run, shouldStopAfterTurn && (() => shouldStopAfterTurn(about)))
  const hasResults = hasCalls && !batch?.terminates
  return { isOver: Boolean(isOver), hasResults, steering: batch?.steering }
}

async function end({ emit }: Run, added: AgentMessage[]): Promise<AgentMessage[]> {
  await emit({ type: 'agent_end', messages: added })
  return added
}

export { agentLoop, agentLoopContinue, runAgentLoop, runAgentLoopContinue }
