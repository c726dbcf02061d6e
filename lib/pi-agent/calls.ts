// The tool calls of one answer: which run, one after the other or at the same time, and their results in the order of the calls. It must never start a
// tool after an abort, nor one whose arguments may be cut.

import type { AgentMessage, AgentTool, AgentToolResult } from '../../pi-agent.d.ts'
import type { AssistantMessage, ToolCall, ToolResultMessage } from '../../pi-ai.d.ts'
import { validateToolArguments } from '../../pi-ai.js'
import { asked, bounded, isAborted, isLater, LATE, messageOf, type Run } from './run.ts'

const SKIPPED = 'Skipped due to queued user message.'
const ABORTED = 'Not run: the run was aborted.'
const CUT = 'Not run: the answer was cut at its length limit, and the arguments may be incomplete.'
const UNSTOPPED = 'The tool did not stop after the abort; its result is discarded.'
const MAX_PARALLEL = 8

/** What came of one call. */
interface Outcome {
  call: ToolCall
  result: AgentToolResult
  isError: boolean
}

/** What came of all calls of an answer. */
interface Batch {
  results: ToolResultMessage[]
  /** The messages that were steered meanwhile; undefined where nobody looked. */
  steering: AgentMessage[] | undefined
  /** All tools say that the run shall end. */
  terminates: boolean
}

async function executeCalls(run: Run, message: AssistantMessage): Promise<Batch> {
  const calls = message.content.filter((part) => part.type === 'toolCall')
  if (message.stopReason === 'length') return refused(run, calls, CUT)
  return isParallel(run, calls) ? parallel(run, message, calls) : sequential(run, message, calls)
}

function isParallel(run: Run, calls: readonly ToolCall[]): boolean {
  const { config, context } = run
  if (!isLater(run) || config.toolExecution === 'sequential') return false
  const modeOf = ({ name }: ToolCall) => toolOf(context.tools, name)?.executionMode
  return !calls.some((call) => modeOf(call) === 'sequential')
}

function toolOf(tools: readonly AgentTool[] | undefined, name: string): AgentTool | undefined {
  return tools?.find((tool) => tool.name === name)
}

/** Answers calls that are not run. */
async function refused(run: Run, calls: readonly ToolCall[], why: string): Promise<Batch> {
  const results: ToolResultMessage[] = []
  for (const call of calls) {
    await begun(run, call)
    results.push(await delivered(run, { call, result: text(why), isError: true }))
  }
  return { results, steering: undefined, terminates: false }
}

async function sequential(
  run: Run,
  message: AssistantMessage,
  calls: readonly ToolCall[],
): Promise<Batch> {
  const results: ToolResultMessage[] = []
  const outcomes: Outcome[] = []
  let steering: AgentMessage[] | undefined
  for (const call of calls) {
    const why = steering !== undefined ? SKIPPED : isAborted(run) ? ABORTED : undefined
    await begun(run, call)
    const outcome =
      why === undefined
        ? await execute(run, message, call)
        : { call, result: text(why), isError: true }
    outcomes.push(outcome)
    results.push(await delivered(run, outcome))
    // Only 0.54 looks between the calls.
    if (why === undefined && !isLater(run)) {
      const steered = (await asked(run, run.config.getSteeringMessages)) ?? []
      if (steered.length > 0) steering = steered
    }
  }
  return { results, steering, terminates: terminates(run, outcomes) }
}

async function parallel(
  run: Run,
  message: AssistantMessage,
  calls: readonly ToolCall[],
): Promise<Batch> {
  const limit = run.config.maxParallelTools ?? MAX_PARALLEL
  const outcomes: Outcome[] = []
  const ready: { index: number; call: ToolCall; prepared: Prepared }[] = []
  for (const [index, call] of calls.entries()) {
    await begun(run, call)
    const prepared = isAborted(run) ? text(ABORTED) : await prepare(run, message, call)
    if (!('tool' in prepared)) {
      const outcome = { call, result: prepared, isError: true }
      outcomes[index] = outcome
      await finished(run, outcome)
    } else {
      ready.push({ index, call, prepared })
    }
  }
  // All are prepared before the first one runs.
  const running = new Set<Promise<void>>()
  let failed: { error: unknown } | undefined
  for (const { index, call, prepared } of ready) {
    while (running.size >= limit) await Promise.race(running)
    if (isAborted(run)) {
      const outcome = { call, result: text(ABORTED), isError: true }
      outcomes[index] = outcome
      await finished(run, outcome)
      continue
    }
    const work = execution(run, message, call, prepared)
      .then(async (outcome) => {
        outcomes[index] = outcome
        await finished(run, outcome)
      })
      .catch((error) => {
        failed ??= { error }
      })
      .then(() => void running.delete(work))
    running.add(work)
  }
  await Promise.all(running)
  if (failed !== undefined) throw failed.error
  const results: ToolResultMessage[] = []
  for (const outcome of outcomes) results.push(await messaged(run, outcome))
  return { results, steering: undefined, terminates: terminates(run, outcomes) }
}

function terminates(run: Run, outcomes: readonly Outcome[]): boolean {
  if (!isLater(run) || outcomes.length === 0) return false
  return outcomes.every(({ result }) => result.terminate === true)
}

async function execute(run: Run, message: AssistantMessage, call: ToolCall): Promise<Outcome> {
  const prepared = await prepare(run, message, call)
  if (!('tool' in prepared)) return { call, result: prepared, isError: true }
  return execution(run, message, call, prepared)
}

/** A call that may run, or the result of one that may not. */
interface Prepared {
  tool: AgentTool
  args: unknown
}

async function prepare(
  run: Run,
  message: AssistantMessage,
  call: ToolCall,
): Promise<Prepared | AgentToolResult> {
  const { context, config, signal } = run
  const tool = toolOf(context.tools, call.name)
  if (tool === undefined) return text(`Tool ${call.name} not found`)
  try {
    const given = tool.prepareArguments ? tool.prepareArguments(call.arguments) : call.arguments
    const prepared = given === call.arguments ? call : { ...call, arguments: given }
    const { semantics = '0.54' } = config
    const args = validateToolArguments(tool, prepared, { semantics })
    const about = { assistantMessage: message, toolCall: call, args, context }
    const { beforeToolCall } = config
    const ask = beforeToolCall && (() => beforeToolCall(about, signal))
    const verdict = await asked(run, ask)
    // It may have waited while the run was aborted.
    if (isAborted(run)) return text(ABORTED)
    if (verdict?.block) return text(verdict.reason || 'Tool execution was blocked')
    return { tool, args }
  } catch (error) {
    return text(messageOf(error))
  }
}

async function execution(
  run: Run,
  message: AssistantMessage,
  call: ToolCall,
  { tool, args }: Prepared,
): Promise<Outcome> {
  const { config, context, signal } = run
  const updates = new Updates(run, call)
  let result: AgentToolResult
  let isError = false
  try {
    // In a promise: what it throws at once is a failure too.
    const work = (async () => tool.execute(call.id, args, signal, updates.push))()
    const made = await bounded(run, work, config.toolTimeoutMs)
    const late = isAborted(run)
      ? UNSTOPPED
      : `The tool took longer than ${config.toolTimeoutMs} ms.`
    result = made === LATE ? text(late) : made
    isError = made === LATE
  } catch (error) {
    result = text(messageOf(error))
    isError = true
  }
  await updates.close()
  const { afterToolCall } = config
  if (afterToolCall === undefined) return { call, result, isError }
  try {
    const about = { assistantMessage: message, toolCall: call, args, result, isError, context }
    const changes = await asked(run, () => afterToolCall(about, signal))
    if (!changes) return { call, result, isError }
    const { content, details, terminate } = changes
    const terminal = terminate ?? result.terminate
    return {
      call,
      result: {
        content: content ?? result.content,
        details: details ?? result.details,
        ...(terminal !== undefined && { terminate: terminal }),
      },
      isError: changes.isError ?? isError,
    }
  } catch (error) {
    return { call, result: text(messageOf(error)), isError: true }
  }
}

/** What a tool reports while it runs. Nothing is emitted after its end. */
class Updates {
  #run: Run
  #call: ToolCall
  #waiting: Promise<void>[] = []
  #closed = false
  #failure: { error: unknown } | undefined

  constructor(run: Run, call: ToolCall) {
    this.#run = run
    this.#call = call
  }

  push = (partialResult: unknown): void => {
    if (this.#closed) return
    const { id: toolCallId, name: toolName, arguments: args } = this.#call
    const type = 'tool_execution_update'
    try {
      const waiting = this.#run.emit({ type, toolCallId, toolName, args, partialResult })
      // At once: the tool may run for long after a subscriber has failed.
      if (waiting !== undefined) this.#waiting.push(waiting.catch(this.#failed))
    } catch (error) {
      this.#failed(error)
    }
  }

  /** The subscriber's, not the tool's. */
  #failed = (error: unknown): void => {
    this.#failure ??= { error }
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#waiting)
    if (this.#failure !== undefined) throw this.#failure.error
  }
}

function text(message: string): AgentToolResult {
  return { content: [{ type: 'text', text: message }], details: {} }
}

async function begun({ emit }: Run, call: ToolCall): Promise<void> {
  const { id: toolCallId, name: toolName, arguments: args } = call
  await emit({ type: 'tool_execution_start', toolCallId, toolName, args })
}

async function finished({ emit }: Run, { call, result, isError }: Outcome): Promise<void> {
  const { id: toolCallId, name: toolName } = call
  await emit({ type: 'tool_execution_end', toolCallId, toolName, result, isError })
}

/** The message with a result. `details` is the tool's own object. */
async function messaged({ emit }: Run, outcome: Outcome): Promise<ToolResultMessage> {
  const { call, result, isError } = outcome
  const message: ToolResultMessage = {
    role: 'toolResult',
    toolCallId: call.id,
    toolName: call.name,
    content: result.content,
    details: result.details,
    isError,
    timestamp: Date.now(),
  }
  await emit({ type: 'message_start', message })
  await emit({ type: 'message_end', message })
  return message
}

async function delivered(run: Run, outcome: Outcome): Promise<ToolResultMessage> {
  await finished(run, outcome)
  return messaged(run, outcome)
}

export { executeCalls }
