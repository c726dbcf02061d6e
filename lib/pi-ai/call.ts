// One call of a model by an engine, as pi's stream. It must never reject, throw once it has begun, or leave a request open.

import type { AgentResult, AssembledContext, StopReason, TokenUsage } from '../../index.d.ts'
import type {
  AssistantMessage,
  AssistantMessageEvent,
  Context,
  Model,
  StopReason as PiStopReason,
  StreamOptions,
} from '../../pi-ai.d.ts'
import { Answer } from './answer.ts'
import { type Bridge, isBridged, openBridge } from './bridge.ts'
import { lease } from './engines.ts'
import { getEnvApiKey } from './env-keys.ts'
import { errorText } from './errors/error-text.ts'
import { conversationOf } from './messages/conversation.ts'
import { calculateCost } from './models.ts'
import { beginRun } from './runs.ts'
import { AssistantMessageEventStream } from './streams/event-stream.ts'

type Fields = Partial<AssembledContext>
type ReadFields = (model: Model, context: Context, options: StreamOptions) => Fields

const STOPS: Readonly<Record<StopReason, PiStopReason>> = {
  end_turn: 'stop',
  max_tokens: 'length',
  tool_use: 'toolUse',
  aborted: 'aborted',
  timeout: 'error',
  error: 'error',
}
const ABORTED = 'Request was aborted'

/** @throws without a key, as pi 0.54 does. */
function call(
  read: ReadFields,
  model: Model,
  context: Context,
  options: StreamOptions = {},
): AssistantMessageEventStream {
  const apiKey = options.apiKey || getEnvApiKey(model.provider)
  if (!apiKey) throw new Error(`No API key for provider: ${model.provider}`)
  const stream = new AssistantMessageEventStream()
  const answer = new Answer(model, (event) => stream.push(event))
  const { message } = answer
  // The caller has the stream before anything is in it.
  queueMicrotask(() => {
    try {
      const keyed = { ...options, apiKey }
      if (isBridged(options)) bridged(read, model, context, keyed, answer, stream)
      else run(read, model, context, keyed, answer, stream)
    } catch (error) {
      finish(stream, message, failed(message, messageOf(error)))
    }
  })
  return stream
}

/** A call through functions of the host. */
function bridged(
  read: ReadFields,
  model: Model,
  context: Context,
  options: StreamOptions & { apiKey: string },
  answer: Answer,
  stream: AssistantMessageEventStream,
): void {
  const { message } = answer
  openBridge(model, options).then(
    (bridge) => {
      try {
        run(read, model, context, options, answer, stream, bridge)
      } catch (error) {
        bridge.close()
        finish(stream, message, failed(message, messageOf(error)))
      }
    },
    (error: unknown) => finish(stream, message, failed(message, messageOf(error))),
  )
}

function run(
  read: ReadFields,
  model: Model,
  context: Context,
  options: StreamOptions & { apiKey: string },
  answer: Answer,
  stream: AssistantMessageEventStream,
  bridge?: Bridge,
): void {
  const { message } = answer
  if (options.signal?.aborted) {
    bridge?.close()
    finish(stream, message, aborted(message))
    return
  }
  const { onPayload } = options
  const at = bridge === undefined ? model : { ...model, baseUrl: bridge.baseUrl }
  const held = lease(at, options.apiKey, options.maxRetries)
  let isFailed = true
  let thrown: { error: unknown } | undefined
  try {
    const fields = read(model, context, options)
    const conversation = conversationOf(context.messages)
    const own = {
      signal: options.signal,
      ...(onPayload && {
        onRequest: async ({ body }: { body: object }) => {
          try {
            return ((await onPayload(body, model)) as object | null | undefined) ?? body
          } catch (error) {
            thrown = { error }
            throw error
          }
        },
      }),
    }
    const going = beginRun(held.engine, fields, conversation, own)
    going.stream.onEvent((event) => answer.event(event), { afterSeq: 0 })
    isFailed = false
    going.result.then(
      (result) => {
        // An engine for one bridge is of no use to another call.
        held.release(result.error !== undefined || bridge !== undefined)
        bridge?.close()
        settle(model, result, answer, stream, thrown ? thrown.error : bridge?.failure)
      },
      (error: unknown) => {
        held.release(true)
        bridge?.close()
        finish(stream, message, failed(message, messageOf(error)))
      },
    )
  } finally {
    if (isFailed) held.release(true)
  }
}

/** The end of the run is the end of the stream. */
function settle(
  model: Model,
  result: AgentResult,
  answer: Answer,
  stream: AssistantMessageEventStream,
  thrown: unknown,
): void {
  const { message } = answer
  addUsage(model, message, result)
  const stopReason = STOPS[result.stopReason]
  if (stopReason === 'aborted') {
    answer.leave()
    finish(stream, message, aborted(message))
  } else if (stopReason === 'error') {
    answer.leave()
    const text = thrown === undefined ? errorText(message, result) : messageOf(thrown)
    finish(stream, message, failed(message, text))
  } else {
    answer.complete(result.messages.findLast(({ role }) => role === 'assistant'))
    const hasCalls = message.content.some(({ type }) => type === 'toolCall')
    // An answer that paused has nothing to run: its caller sends it again.
    const reason = stopReason === 'toolUse' && !hasCalls ? 'stop' : stopReason
    message.stopReason = reason
    finish(stream, message, { type: 'done', reason, message })
  }
}

function finish(
  stream: AssistantMessageEventStream,
  message: AssistantMessage,
  event: AssistantMessageEvent,
): void {
  stream.push(event)
  stream.end(message)
}

function aborted(message: AssistantMessage): AssistantMessageEvent {
  message.stopReason = 'aborted'
  message.errorMessage = ABORTED
  return { type: 'error', reason: 'aborted', error: message }
}

function failed(message: AssistantMessage, text: string): AssistantMessageEvent {
  message.stopReason = 'error'
  message.errorMessage = text
  return { type: 'error', reason: 'error', error: message }
}

function addUsage(model: Model, { usage }: AssistantMessage, result: AgentResult): void {
  const used: TokenUsage = result.usage
  usage.input = used.inputTokens
  usage.output = used.outputTokens
  usage.cacheRead = used.cachedInputTokens
  usage.cacheWrite = used.cacheWriteTokens
  usage.totalTokens = used.totalTokens
  calculateCost(model, usage)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export { call }
