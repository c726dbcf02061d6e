// Runs a prompt in a session of pi's: the function that callers of OpenClaw call. It must never leave a timer, a listener or a run behind.

import { dirname } from 'node:path'
import type { AgentEvent, AgentMessage, AgentTool } from '../../../pi-agent.d.ts'
import { runAgentLoop, runAgentLoopContinue } from '../../../pi-agent.js'
import type { AssistantMessage, Model, ToolCall } from '../../../pi-ai.d.ts'
import { getModel } from '../../../pi-ai.js'
import type {
  EmbeddedPiHandle,
  EmbeddedPiRunResult,
  SessionManager as Manager,
  RunEmbeddedPiAgentParams,
} from '../../../pi-session.d.ts'
import { compactSession, isFull } from '../compaction/compact.ts'
import { convertToLlm } from '../context.ts'
import { SessionManager } from '../manager.ts'
import { errorOf, isOverflow, payloadsOf, sizesOf, sumOf } from './outcome.ts'
import { Replies } from './replies.ts'

const LEVELS: ReadonlySet<string> = new Set(['minimal', 'low', 'medium', 'high', 'xhigh'])
/** How often a run compacts because the model has refused its context. */
const MAX_RECOVERIES = 3
/** How often a call is sent again after a failure that passes: the caller of a run does not do it. */
const MAX_RETRIES = 2
const MAX_TIMER_MS = 2 ** 31 - 1
const PENDING = 'The caller answers this call; its result follows with the next message.'

async function runEmbeddedPiAgent(params: RunEmbeddedPiAgentParams): Promise<EmbeddedPiRunResult> {
  const { timeoutMs = 0 } = params
  if (!(timeoutMs >= 0)) {
    throw new RangeError(`\`timeoutMs\` is ${timeoutMs}: give a number from 0 on, or leave it out`)
  }
  const model = modelOf(params)
  const work = () => run(params, model)
  return params.enqueue === undefined ? work() : params.enqueue(work)
}

function modelOf({ provider = 'anthropic', model }: RunEmbeddedPiAgentParams): Model {
  if (typeof model === 'object') return model
  const known = model === undefined ? undefined : getModel(provider, model)
  if (known === undefined) throw new Error(`Unknown model: ${provider}/${model ?? ''}`)
  return known
}

async function run(params: RunEmbeddedPiAgentParams, model: Model): Promise<EmbeddedPiRunResult> {
  const begun = Date.now()
  const {
    sessionFile,
    workspaceDir,
    sessionId,
    prompt,
    images = [],
    abortSignal,
    timeoutMs,
  } = params
  const session: Manager =
    params.sessionManager ?? SessionManager.open(sessionFile, dirname(sessionFile), workspaceDir)
  const replies = new Replies(params)
  const controller = new AbortController()
  const abort = () => controller.abort()
  // A longer timer would fire at once; without a limit there is none.
  const timer =
    timeoutMs === undefined || timeoutMs > MAX_TIMER_MS ? undefined : setTimeout(abort, timeoutMs)
  if (abortSignal?.aborted) abort()
  else abortSignal?.addEventListener('abort', abort, { once: true })
  const steered: AgentMessage[] = []
  let isRunning = true
  const compacting = new Compacting(params, model, session, replies, controller.signal)
  const states = { isStreaming: () => isRunning, isCompacting: () => compacting.isRunning }
  params.onHandle?.(handleOf(steered, abort, states))
  const pending: ToolCall[] = []
  const emit = (event: AgentEvent) => {
    if (event.type === 'message_end') session.appendMessage(event.message)
    replies.event(event)
  }
  replies.agentEvent('lifecycle', { phase: 'start', startedAt: begun })
  try {
    const content = [{ type: 'text' as const, text: prompt }, ...images]
    const asked: AgentMessage = { role: 'user', content, timestamp: Date.now() }
    if (isFull(session, model, prompt)) await compacting.compact('full')
    const systemPrompt = [params.systemPrompt, params.extraSystemPrompt]
      .filter(Boolean)
      .join('\n\n')
    const tools = toolsOf(params)
    const contextNow = () => ({ systemPrompt, messages: messagesOf(session), tools })
    const config = configOf(params, model, pending, () => steered.splice(0, 1))
    const { signal } = controller
    const { streamFn } = params
    let added = await runAgentLoop([asked], contextNow(), config, emit, signal, streamFn)
    while (isOverflow(added, model) && (await compacting.compact('refused'))) {
      // The session has the answer that failed; the run goes on as if it had not been.
      added.pop()
      const more = await runAgentLoopContinue(contextNow(), config, emit, signal, streamFn)
      added = [...added, ...more]
    }
    await session.flush()
    replies.agentEvent('lifecycle', { phase: 'end', endedAt: Date.now() })
    return resultOf(added, model, sessionId, Date.now() - begun, pending, compacting)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    replies.agentEvent('lifecycle', { phase: 'error', error: message, endedAt: Date.now() })
    throw error
  } finally {
    isRunning = false
    clearTimeout(timer)
    abortSignal?.removeEventListener('abort', abort)
  }
}

/** What the model reads: without the answers that failed at the end. */
function messagesOf(session: Manager): AgentMessage[] {
  const messages = session.buildSessionContext().messages as AgentMessage[]
  const last = messages.findLastIndex((it) => !('stopReason' in it) || it.stopReason !== 'error')
  return messages.slice(0, last + 1)
}

/** The compactions of a run. */
class Compacting {
  isRunning = false
  /** The compactions that were written. */
  count = 0
  /** Why the last one failed. */
  failure: string | undefined
  #refused = 0
  #params: RunEmbeddedPiAgentParams
  #model: Model
  #session: Manager
  #replies: Replies
  #signal: AbortSignal

  constructor(
    params: RunEmbeddedPiAgentParams,
    model: Model,
    session: Manager,
    replies: Replies,
    signal: AbortSignal,
  ) {
    this.#params = params
    this.#model = model
    this.#session = session
    this.#replies = replies
    this.#signal = signal
  }

  /** Returns whether the context is smaller now. A failure is no failure of the run. */
  async compact(reason: 'full' | 'refused'): Promise<boolean> {
    const { compaction = true, streamFn, apiKey, getApiKey } = this.#params
    if (!compaction || this.#signal.aborted) return false
    if (reason === 'refused' && ++this.#refused > MAX_RECOVERIES) return false
    this.isRunning = true
    this.#replies.agentEvent('compaction', { phase: 'start', reason })
    let isDone = false
    try {
      const key = (await getApiKey?.(this.#model.provider)) || apiKey
      const options = {
        signal: this.#signal,
        streamFn,
        maxRetries: MAX_RETRIES,
        ...(key && { apiKey: key }),
      }
      isDone = await compactSession(this.#session, this.#model, reason, options)
      if (isDone) this.count++
    } catch (error) {
      this.failure = error instanceof Error ? error.message : String(error)
    } finally {
      this.isRunning = false
    }
    const willRetry = isDone && reason === 'refused'
    const why = isDone ? undefined : this.failure
    this.#replies.agentEvent('compaction', { phase: 'end', willRetry, ...(why && { error: why }) })
    return isDone
  }
}

/** What a caller asks of a run. */
type States = Pick<EmbeddedPiHandle, 'isStreaming' | 'isCompacting'>

function handleOf(steered: AgentMessage[], abort: () => void, states: States): EmbeddedPiHandle {
  return {
    async queueMessage(text) {
      if (!states.isStreaming()) throw new Error('the run has ended; start another one')
      steered.push({ role: 'user', content: [{ type: 'text', text }], timestamp: Date.now() })
    },
    ...states,
    abort,
  }
}

/** The tools, and those that the caller answers. */
function toolsOf({ tools = [], clientTools = [], disableTools }: RunEmbeddedPiAgentParams) {
  if (disableTools) return []
  const own: AgentTool[] = clientTools.map(
    ({ function: { name, description = '', parameters } }) => ({
      name,
      label: name,
      description,
      parameters: parameters ?? { type: 'object', properties: {} },
      execute: async () => ({ content: [{ type: 'text', text: PENDING }], details: {} }),
    }),
  )
  return [...tools, ...own]
}

function configOf(
  params: RunEmbeddedPiAgentParams,
  model: Model,
  pending: ToolCall[],
  takeSteered: () => AgentMessage[],
) {
  const { streamParams, thinkLevel, apiKey, getApiKey, sessionId, clientTools = [] } = params
  const answered = new Set(clientTools.map(({ function: { name } }) => name))
  return {
    maxRetries: MAX_RETRIES,
    ...streamParams,
    model,
    convertToLlm,
    sessionId,
    ...(apiKey !== undefined && { apiKey }),
    ...(getApiKey !== undefined && { getApiKey }),
    ...(isLevel(thinkLevel) && { reasoning: thinkLevel }),
    getSteeringMessages: async () => takeSteered(),
    shouldStopAfterTurn: ({ message }: { message: AssistantMessage }) => {
      const calls = message.content.filter((part) => part.type === 'toolCall')
      pending.push(...calls.filter(({ name }) => answered.has(name)))
      return pending.length > 0
    },
  }
}

function isLevel(level: string | undefined): level is 'low' {
  return level !== undefined && LEVELS.has(level)
}

function resultOf(
  added: readonly AgentMessage[],
  model: Model,
  sessionId: string,
  durationMs: number,
  pending: readonly ToolCall[],
  { count, failure }: Compacting,
): EmbeddedPiRunResult {
  const answers = added.filter(
    (message): message is AssistantMessage => message.role === 'assistant',
  )
  const last = answers.at(-1)
  const payloads = payloadsOf(answers)
  const error = errorOf(answers, model.contextWindow, failure)
  const calls = pending.map((call) => ({
    id: call.id,
    name: call.name,
    arguments: JSON.stringify(call.arguments),
  }))
  const usage = sumOf(answers)
  return {
    ...(payloads.length > 0 && { payloads }),
    meta: {
      durationMs,
      agentMeta: {
        sessionId,
        provider: model.provider,
        model: model.id,
        compactionCount: count,
        ...(usage !== undefined && { usage }),
        ...(last !== undefined && { lastCallUsage: sizesOf(last.usage) }),
      },
      aborted: last?.stopReason === 'aborted',
      ...(error !== undefined && { error }),
      ...(last !== undefined && { stopReason: calls.length > 0 ? 'tool_calls' : last.stopReason }),
      ...(calls.length > 0 && { pendingToolCalls: calls }),
    },
  }
}

export { runEmbeddedPiAgent }
