// One answer of the model in a run: the call, its events, the message. Whatever goes wrong is a message with `stopReason: 'error'`. It must never reject
// because of a host's function that throws, nor wait for a stream that does not end.

import type { AgentMessage } from '../../pi-agent.d.ts'
import type { AssistantMessage, AssistantMessageEvent, Model } from '../../pi-ai.d.ts'
import { streamSimple } from '../../pi-ai.js'
import { bounded, isAborted, LATE, messageOf, type Run } from './run.ts'

const ABORTED = 'Request was aborted'
const UNFINISHED = 'The stream ended without a result'
const OVER = Symbol('over')

/** What a `streamFn` returns, as far as it is used: it may be another library's. */
interface Response extends AsyncIterable<AssistantMessageEvent> {
  result(): Promise<AssistantMessage>
}

/** Calls the model, emits what arrives, and adds the message to the context. */
async function answer(run: Run): Promise<AssistantMessage> {
  const { config } = run
  if (isAborted(run)) return ended(run, failure(config.model, true, ABORTED), false)
  const growing = new Growing(run)
  let message: AssistantMessage | typeof LATE
  try {
    message = await bounded(run, growing.read(respond(run)))
  } catch (error) {
    if (error instanceof EmitError) throw error.cause
    message = failure(config.model, isAborted(run), messageOf(error), growing.partial)
  }
  growing.left = true
  const last = message === LATE ? failure(config.model, true, ABORTED, growing.partial) : message
  return ended(run, last, growing.partial !== undefined)
}

/** What was thrown by a function that receives events: it ends the run, as no failure of a model does. */
class EmitError extends Error {}

/** Calls the model. */
async function respond(run: Run): Promise<Response> {
  const { context, config, signal, streamFn } = run
  const transformed = config.transformContext
    ? await config.transformContext(context.messages, signal)
    : context.messages
  const messages = await config.convertToLlm(transformed)
  const { systemPrompt, tools } = context
  const key = config.getApiKey ? await config.getApiKey(config.model.provider) : undefined
  if (isAborted(run)) throw new Error(ABORTED)
  const options = { ...config, apiKey: key || config.apiKey, signal }
  const call = streamFn ?? streamSimple
  return call(config.model, { systemPrompt, messages, tools }, options)
}

/** An answer while it arrives. */
class Growing {
  partial: AssistantMessage | undefined
  /** Nobody waits for it any more. */
  left = false
  #run: Run

  constructor(run: Run) {
    this.#run = run
  }

  async read(responding: Promise<Response>): Promise<AssistantMessage> {
    const response = await responding
    const events = response[Symbol.asyncIterator]()
    // Not `for await`: what V8 makes of it takes longer to compile than the rounds of a run.
    for (;;) {
      const next = await events.next()
      if (next.done) return resultSoon(response)
      const waiting = this.#next(next.value)
      if (waiting === OVER) return resultOf(response, events)
      if (waiting !== undefined) await waiting
    }
  }

  /** Emits an event; `OVER` where none is needed any more. */
  #next(event: AssistantMessageEvent): Promise<void> | typeof OVER | void {
    if (this.left || event.type === 'done' || event.type === 'error') return OVER
    return this.#event(event)
  }

  #event(event: Exclude<AssistantMessageEvent, { type: 'done' | 'error' }>): Promise<void> | void {
    const { messages } = this.#run.context
    const { partial } = event
    if (event.type === 'start') {
      messages.push(partial)
      this.partial = partial
      return this.#emit({ type: 'message_start', message: { ...partial } })
    }
    if (this.partial === undefined) return
    if (this.partial !== partial) messages[messages.length - 1] = partial
    this.partial = partial
    const message = { ...partial }
    return this.#emit({ type: 'message_update', assistantMessageEvent: event, message })
  }

  #emit(event: Parameters<Run['emit']>[0]): Promise<void> | void {
    try {
      const waiting = this.#run.emit(event)
      return waiting?.catch((cause) => {
        throw new EmitError('', { cause })
      })
    } catch (cause) {
      throw new EmitError('', { cause })
    }
  }
}

/** The result of a stream whose events are not read to their end. */
async function resultOf(
  response: Response,
  events: AsyncIterator<AssistantMessageEvent>,
): Promise<AssistantMessage> {
  await events.return?.()
  return response.result()
}

/** The result of a stream that has no more events: one that is there by now, and none that may never come. */
async function resultSoon(response: Response): Promise<AssistantMessage> {
  const none = new Promise<undefined>((resolve) => setImmediate(resolve, undefined))
  const result = await Promise.race([response.result(), none])
  if (result === undefined) throw new Error(UNFINISHED)
  return result
}

/** Puts the message into the context, and emits its end. */
async function ended(
  { context, emit }: Run,
  message: AssistantMessage,
  hasPartial: boolean,
): Promise<AssistantMessage> {
  const messages: AgentMessage[] = context.messages
  if (hasPartial) {
    messages[messages.length - 1] = message
  } else {
    messages.push(message)
    await emit({ type: 'message_start', message: { ...message } })
  }
  await emit({ type: 'message_end', message })
  return message
}

/** A message for what went wrong, with what had arrived. */
function failure(
  model: Model,
  isAborted: boolean,
  errorMessage: string,
  partial?: AssistantMessage,
): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 }
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost }
  return {
    role: 'assistant',
    content: partial?.content ?? [{ type: 'text', text: '' }],
    api: model.api,
    provider: model.provider,
    model: model.id,
    usage: partial?.usage ?? usage,
    stopReason: isAborted ? 'aborted' : 'error',
    errorMessage,
    timestamp: Date.now(),
  }
}

export { answer, failure }
