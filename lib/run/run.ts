// The public run: an async iterator of stream events, a result, a stream handle.
// It must never lose an event, deliver one twice, or let a throw of the caller's code reach the process.

import type { NativeHub } from '../../binding.d.ts'
import type {
  AgentEngineCallbacks,
  AgentResult,
  BrokerStreamHandle,
  AgentRun as Declared,
  NextStep,
  OnRequest,
  OutgoingRequest,
  PlanContext,
  RunStep,
  StreamEvent,
  ToolCallRequest,
} from '../../index.d.ts'
import * as hub from '../native/hub.ts'
import { callRequestHook } from '../native/request-hook.ts'
import { toolController } from '../tools/signal.ts'
import { runTool, type Tool, type ToolCall } from '../tools/tools.ts'
import { AgentEngineError, type Code, clip, messageOf, refusal } from '../values/errors.ts'
import * as signals from '../values/signals.ts'
import { type EventsFrom, readAfterSeq } from './after-seq.ts'
import type { Attachment } from './attachment.ts'
import { GROUPS } from './event-groups.ts'
import { EventLog, type EventReader } from './event-log.ts'
import { afterCall, decide, type OwnHooks, plans, prepares, stops } from './hooks.ts'
import { checkOutput, hasOutput, jsonOf, type Output } from './output.ts'
import {
  DEFECT,
  EVENT,
  LIVE,
  MESSAGE,
  PHASE,
  REASONING,
  REFUSED,
  REQUEST,
  RESULT,
  TOKEN,
  TOOL,
  TOOL_CANCEL,
  TOOL_UPDATE,
  UNREADABLE,
} from './record-kinds.ts'
import { complete } from './result.ts'

/** An event that is neither numbered nor stored. */
type LiveEvent = Extract<StreamEvent, { sub: number }>

/** What a tool reports while it runs. */
type ToolProgress = Extract<StreamEvent, { type: 'tool_progress' }>

/** What a hook is asked: about a call, or about the run after an answer. */
type Asked =
  | ToolCall
  | { execution: number; step: RunStep; prepares?: false }
  | { execution: number; step: NextStep; prepares: true }
  | { execution: number; plan: PlanContext }
  | { execution: number; output: string }

/** A call as hooks receive it. */
function requestOf(call: ToolCall, signal: AbortSignal): ToolCallRequest {
  const { callId: idempotencyKey, toolCallId, name: toolName, arguments: params } = call
  const { runId, turnId, sessionLabel, messageId } = call
  const about = { runId, turnId, sessionLabel, messageId, toolCallId, idempotencyKey }
  return { toolName, params: params as ToolCallRequest['params'], ...about, signal }
}

/** The parts of a run. */
interface RunOptions {
  id: string
  tools: Map<string, Tool>
  callbacks: AgentEngineCallbacks
  detached: boolean
  coalesce: boolean
  signal: signals.Signal | undefined
  onRequest: OnRequest | undefined
  hooks: OwnHooks | undefined
  /** The groups of events that are left out, as bits. */
  skipped: number
  /** Undefined where it requests none. */
  output: Output | undefined
  /** The run to attach to where the ledger has one with this id; undefined: then it is refused. */
  attachment: (() => Attachment) | undefined
  /** Called when it has ended, before its result is there. */
  onEnd: (run: AgentRun) => void
}

/** Why the run has no turn of its own. */
interface Refusal {
  code: Code
  message: string
  field: string
  /** Whether the run with the same id was started with the same message in the same session. */
  isSame: boolean
}

type Delta = Extract<StreamEvent, { type: 'token' | 'reasoning' }>

/** The stop reasons of an abort. */
const END_EARLY: ReadonlySet<string> = new Set(['aborted', 'timeout'])

/** Why the result has no output where another run or process made the answer. */
const OTHER_OUTPUT =
  'does not fit the answer that another run or process has made; pass the schema of that run:'

class AgentRun implements Declared, hub.RecordTarget {
  readonly id: string
  readonly result: Promise<AgentResult>
  #stream: BrokerStreamHandle | undefined
  #turnId: string | undefined
  /** Its number in the queue; 0 until it has begun. */
  #number = 0
  #native: NativeHub = hub.nativeHub()
  #tools: Map<string, Tool>
  #callbacks: AgentEngineCallbacks
  #detached: boolean
  #coalesce: boolean
  #signal: signals.Signal | undefined
  #onRequest: OnRequest | undefined
  #hooks: OwnHooks | undefined
  #onEnd: (run: AgentRun) => void
  #progress: boolean
  #output: Output | undefined
  /** The last answer that the library accepted, and what it made of it. */
  #checked: { json: string; value: unknown } | undefined
  #attachment: (() => Attachment) | undefined
  /** The run that it is attached to. */
  #attached: Attachment | undefined
  #listeners: readonly { callback: (event: StreamEvent) => unknown }[] = []
  #log: EventLog
  /** The iteration of the run itself, which aborts it when it is left. */
  #own: EventReader
  #reading = true
  /** `next()` was called. Before that the socket does not wait for a reader (docs/rules/turns-and-streams.md#backpressure). */
  #read = false
  /** Events of the log that are acknowledged to the native side as consumed. */
  #acknowledged = 0
  /** The last number, and the last one of an event without a number after it. */
  #seq = 0
  #sub = 0
  #ended = false
  #aborted = false
  /** Why it was aborted, where a reason was given. */
  #reason: unknown
  #messageId = ''
  /** The controllers of the tool calls under way, by execution. */
  #executions = new Map<number, AbortController>()
  /** The results of tools, by call. */
  #values = new Map<string, unknown>()
  #resolve!: (result: AgentResult) => void
  #reject!: (error: unknown) => void
  #warned = false

  constructor({
    id,
    tools,
    callbacks,
    detached,
    coalesce,
    signal,
    onRequest,
    hooks,
    skipped,
    output,
    attachment,
    onEnd,
  }: RunOptions) {
    this.id = id
    this.#tools = tools
    this.#callbacks = callbacks
    this.#detached = detached
    this.#coalesce = coalesce
    this.#signal = signal
    this.#onRequest = onRequest
    this.#hooks = hooks
    this.#output = output
    this.#attachment = attachment
    this.#onEnd = onEnd
    this.#progress = (skipped & GROUPS.toolProgress) === 0
    this.#log = new EventLog(coalesce)
    this.#own = this.#log.reader(0, coalesce ? undefined : () => this.#taken())
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // The result need not be awaited: a run that is only iterated is not an unhandled rejection.
    this.result.catch(() => {})
  }

  /** Made when it is first read: most runs are iterated. */
  get stream(): BrokerStreamHandle {
    this.#stream ??= Object.freeze({
      onEvent: (callback: (event: StreamEvent) => void, options?: EventsFrom) =>
        this.#onEvent(callback, options),
      abort: (reason?: unknown) => this.abort(reason),
      steer: (message: string) => this.steer(message),
      isStreaming: () =>
        !this.#ended && (this.#attached !== undefined || this.#native.isStreaming(this.#number)),
      isCompacting: () =>
        !this.#ended && this.#attached === undefined && this.#native.isCompacting(this.#number),
    })
    return this.#stream
  }

  /** @internal Begins: `start(number, aborted)` makes the native run, `drain` delivers its first events. */
  begin(
    start: (number: number, aborted: boolean, timedOut: boolean) => void,
    drain = hub.drainSoon,
  ): this {
    const signal = this.#signal
    const at = ['abortSignal', 'invalid_context'] as const
    // Before anything starts: a signal that cannot be used is a refusal.
    const aborted = signal !== undefined && signals.isAborted(signal, ...at)
    if (aborted) {
      this.#aborted = true
      this.#reason = signals.reasonOf(signal)
    }
    if (signal !== undefined && !aborted) signals.listen(signal, this, ...at)
    this.#number = hub.addRun(this)
    try {
      // A signal may also have fired while the listener was added.
      start(this.#number, aborted || this.#aborted, signals.isTimeout(this.#reason))
    } catch (error) {
      hub.removeRun(this.#number)
      this.#unlisten()
      throw error
    } finally {
      drain()
    }
    hub.holdProcess()
    return this
  }

  /** @internal A record of the run cannot be read: it ends, and no other run with it. */
  fail(error: unknown): void {
    if (this.#ended) return
    this.abort()
    this.#end()
    const why = `what came of the run cannot be read: ${clip(messageOf(error, 'it'))}`
    this.#reject(new AgentEngineError('internal', why))
  }

  #unlisten(): void {
    if (this.#signal === undefined) return
    try {
      signals.unlisten(this.#signal, this)
    } catch (error) {
      this.#warn(error)
    }
  }

  get turnId(): string | undefined {
    if (this.#turnId === undefined && !this.#ended && this.#attached === undefined) {
      this.#turnId = this.#native.turnId(this.#number) ?? undefined
    }
    return this.#turnId
  }

  abort(reason?: unknown): void {
    if (this.#ended) return
    if (!this.#aborted) this.#reason = reason
    this.#aborted = true
    if (this.#attached !== undefined) {
      this.#attached.abort().catch((error) => this.#warn(error))
      return
    }
    // A signal may fire while the listener is added, before the run exists.
    if (this.#number !== 0) this.#native.abort(this.#number, signals.isTimeout(reason))
  }

  steer(message: string): boolean {
    if (typeof message !== 'string' || message === '' || this.#ended) return false
    if (this.#attached !== undefined) return false
    return this.#native.steer(this.#number, message)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<StreamEvent>> {
    this.#read = true
    return this.#own.next()
  }

  /** Another iteration of the events, from any number on. Leaving it leaves the run alone. */
  events(options?: EventsFrom): AsyncIterableIterator<StreamEvent> {
    return this.#log.reader(readAfterSeq(options))
  }

  return(value?: unknown): Promise<IteratorReturnResult<unknown>> {
    this.#stopReading()
    return Promise.resolve({ value, done: true })
  }

  throw(error?: unknown): Promise<never> {
    this.#stopReading()
    return Promise.reject(error)
  }

  #stopReading(): void {
    if (!this.#reading) return
    this.#reading = false
    if (!this.#coalesce && !this.#ended && this.#attached === undefined) {
      this.#native.consumed(this.#number, 0xffffffff)
    }
    this.#own.leave()
    // One that has attached leaves the other run alone.
    if (!this.#detached && this.#attached === undefined) this.abort()
  }

  /** Its own iteration took an event, and the socket may go on. */
  #taken(): void {
    if (this.#ended || this.#attached !== undefined) return
    if (this.#acknowledged > 0) this.#acknowledged--
    else this.#native.consumed(this.#number, 1)
  }

  /** @internal One record of the queue. */
  record(
    kind: number,
    seqFrom: number,
    seq: number,
    text: string,
    start: number,
    end: number,
  ): void {
    switch (kind) {
      case TOKEN:
        this.#delta('token', text.slice(start, end), seqFrom, seq)
        break
      case REASONING:
        this.#delta('reasoning', text.slice(start, end), seqFrom, seq)
        break
      case MESSAGE:
        this.#messageId = text.slice(start, end)
        break
      case EVENT:
        this.#deliver(JSON.parse(text.slice(start, end)))
        break
      case PHASE:
        this.#call('onAgentEvent', JSON.parse(text.slice(start, end)))
        break
      case RESULT:
        this.#finish(JSON.parse(text.slice(start, end)))
        break
      case TOOL: {
        const asked: ToolCall | Asked = JSON.parse(text.slice(start, end))
        if ('output' in asked) this.#checkOutput(asked)
        else if ('step' in asked || 'plan' in asked || asked.instead === 'decide') {
          this.#decide(asked)
        } else this.#runTool(asked)
        break
      }
      case TOOL_CANCEL:
        this.#cancelTool(Number(text.slice(start, end)))
        break
      case REQUEST:
        this.#callHook(JSON.parse(text.slice(start, end)))
        break
      case DEFECT:
        this.#end()
        this.#reject(new AgentEngineError('internal', text.slice(start, end)))
        break
      case REFUSED:
        this.#refused(JSON.parse(text.slice(start, end)))
        break
      case LIVE:
        this.#deliverLive(JSON.parse(text.slice(start, end)))
        break
      case TOOL_UPDATE:
        if (!this.#aborted) this.#progressed(JSON.parse(text.slice(start, end)))
        break
      case UNREADABLE: {
        const { code, message } = JSON.parse(text.slice(start, end))
        this.#end()
        this.#reject(new AgentEngineError(code, message))
        break
      }
    }
  }

  #delta(type: Delta['type'], text: string, seqFrom: number, seq: number): void {
    const messageId = this.#messageId
    const event: Delta =
      seqFrom === seq ? { type, text, messageId, seq } : { type, text, messageId, seq, seqFrom }
    if (type === 'token') this.#call('onPartialReply', { text, messageId })
    else this.#call('onReasoningStream', { text })
    this.#deliver(event)
  }

  #deliver(event: StreamEvent): void {
    if (event.type === 'tool_status') {
      const { toolCallId, toolName, status, summary } = event
      this.#call('onToolResult', { toolCallId, toolName, status, summary })
    }
    this.#seq = event.seq
    this.#sub = 0
    for (const { callback } of this.#listeners) this.#invoke(callback, event)
    if (
      !this.#coalesce &&
      !this.#ended &&
      this.#attached === undefined &&
      !(this.#reading && this.#read)
    ) {
      // Nobody has begun to read: the socket waits for no one.
      if (this.#reading) this.#acknowledged++
      this.#native.consumed(this.#number, 1)
    }
    this.#log.push(event)
  }

  /** Delivers an event that is not stored: it is numbered after the last one that is. */
  #deliverLive(event: LiveEvent): void {
    event.seq = this.#seq
    event.sub = ++this.#sub
    for (const { callback } of this.#listeners) this.#invoke(callback, event)
    this.#log.push(event)
  }

  #onEvent(callback: (event: StreamEvent) => void, options: EventsFrom | undefined): () => void {
    if (typeof callback !== 'function') {
      throw refusal('invalid_options', 'callback', 'is not a function')
    }
    if (options !== undefined) {
      const missed = this.#log.since(readAfterSeq(options))
      for (const event of missed) this.#invoke(callback, event)
    }
    const listener = { callback }
    this.#listeners = [...this.#listeners, listener]
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== listener)
    }
  }

  #call<Name extends keyof AgentEngineCallbacks>(
    name: Name,
    payload: Parameters<NonNullable<AgentEngineCallbacks[Name]>>[0],
  ): void {
    const callback = this.#callbacks[name] as ((payload: unknown) => unknown) | undefined
    if (callback !== undefined) this.#invoke(callback, payload)
  }

  /** Calls the caller's code. A throw becomes a process warning, once per run, and affects nothing else. */
  #invoke<Payload>(callback: (payload: Payload) => unknown, payload: Payload): void {
    try {
      const returned = callback(payload) as PromiseLike<unknown> | null | undefined
      if (typeof returned?.then === 'function')
        returned.then(undefined, (error) => this.#warn(error))
    } catch (error) {
      this.#warn(error)
    }
  }

  #warn(error: unknown): void {
    if (this.#warned) return
    this.#warned = true
    const detail = clip(messageOf(error, 'it'))
    process.emitWarning(`a callback of an agent run threw: ${detail}`, {
      code: 'AGENT_ENGINE_CALLBACK',
    })
  }

  #progressed(about: Omit<ToolProgress, 'type' | 'seq' | 'sub'>): void {
    const { toolName, toolCallId, partial } = about
    this.#call('onToolUpdate', { toolCallId, toolName, partial })
    if (this.#progress) this.#deliverLive({ type: 'tool_progress', ...about, seq: 0, sub: 0 })
  }

  #runTool(call: ToolCall): void {
    // The request may have been in the queue when the run was aborted: no tool begins after that.
    if (this.#aborted) return
    const { execution, callId, toolCallId, name: toolName } = call
    const controller = toolController((error) => this.#warn(error))
    this.#executions.set(execution, controller)
    // Only while the call is awaited: after a time limit, an abort or the end its updates have no receiver.
    const onUpdate = (partial: unknown) => {
      if (this.#executions.has(execution)) {
        this.#progressed({ toolName, toolCallId, callId, partial })
      }
    }
    const after = this.#hooks?.afterToolCall
    const replace = (value: unknown) =>
      afterCall(after, requestOf(call, controller.signal), value, (error) => this.#warn(error))
    const tool = this.#tools.get(toolName)
    runTool(tool, call, controller.signal, onUpdate, after && replace)
      .then(({ json, value }) => {
        if (!this.#executions.delete(execution)) return
        if (value !== undefined) this.#values.set(callId, value)
        this.#native.answerTool(this.#number, execution, json)
      })
      .catch((error) => this.fail(error))
  }

  /** Answers what is asked about a call, or about the run after an answer, by a hook. */
  #decide(asked: Exclude<Asked, { output: string }>): void {
    if (this.#aborted) return
    const { execution } = asked
    const controller = toolController((error) => this.#warn(error))
    this.#executions.set(execution, controller)
    const { beforeToolCall, stopWhen, prepareStep, plan } = this.#hooks ?? {}
    const warn = (error: unknown) => this.#warn(error)
    const deciding = (): Promise<string> => {
      if ('plan' in asked) return plans(plan, asked.plan, warn)
      if (!('step' in asked)) return decide(beforeToolCall, requestOf(asked, controller.signal))
      if (asked.prepares) return prepares(prepareStep, asked.step, warn)
      return stops(stopWhen, asked.step, warn)
    }
    deciding()
      .then((json) => {
        if (this.#executions.delete(execution)) {
          this.#native.answerTool(this.#number, execution, json)
        }
      })
      .catch((error) => this.fail(error))
  }

  /** Lets the library of the schema check an answer, which fits its JSON Schema. */
  #checkOutput({ execution, output: json }: { execution: number; output: string }): void {
    if (this.#aborted || this.#output === undefined) return
    checkOutput(this.#output, json)
      .then(({ problems, value }) => {
        if (this.#ended) return
        this.#checked = { json, value }
        this.#native.answerTool(this.#number, execution, JSON.stringify({ decision: { problems } }))
      })
      .catch((error) => this.fail(error))
  }

  #callHook({ number, request }: { number: number; request: OutgoingRequest }): void {
    const onRequest = this.#onRequest
    // As for tools: no code of the caller begins after an abort.
    if (this.#aborted || onRequest === undefined) return
    callRequestHook(onRequest, request)
      .then(({ body, error }) => {
        if (!this.#ended) this.#native.answerRequest(this.#number, number, body, error)
      })
      .catch((error) => this.fail(error))
  }

  #cancelTool(execution: number): void {
    const controller = this.#executions.get(execution)
    this.#executions.delete(execution)
    controller?.abort(this.#reason)
  }

  #finish(result: AgentResult): void {
    complete(result)
    for (const call of result.toolCalls) {
      // The caller gets back the very object its tool returned, with details that JSON cannot hold.
      const value = this.#values.get(call.callId)
      if (value !== undefined && call.result !== undefined)
        call.result = value as typeof call.result
    }
    const output = this.#output
    if (output !== undefined && hasOutput(result)) {
      const json = jsonOf(result.text)
      if (output.check === undefined) result.output = JSON.parse(json)
      else if (this.#checked?.json === json) result.output = this.#checked.value
      else {
        // The turn was parked here and has ended in another process.
        this.#completeChecked(output, result).catch((error) => this.#refuse(error))
        return
      }
    }
    this.#complete(result)
  }

  /** Completes a result whose answer this run has not checked. */
  async #completeChecked(output: Output, result: AgentResult): Promise<void> {
    const { problems, value } = await checkOutput(output, jsonOf(result.text))
    if (problems !== null) {
      throw refusal('invalid_context', 'output', `${OTHER_OUTPUT}${problems}`)
    }
    result.output = value
    this.#complete(result)
  }

  #complete(result: AgentResult): void {
    if (this.#aborted && this.#reason !== undefined && END_EARLY.has(result.stopReason)) {
      result.abortReason = this.#reason
    }
    this.#turnId = result.turnId
    try {
      this.#end()
    } finally {
      this.#resolve(result)
    }
  }

  /** The ledger has a run with its id. */
  #refused({ code, message, field, isSame }: Refusal): void {
    if (this.#attachment === undefined) {
      this.#refuse(new AgentEngineError(code, message, field))
    } else if (isSame) {
      this.#attach(this.#attachment())
    } else {
      const why = 'is the id of a run with another message or session; pass another one'
      this.#refuse(refusal(code, field, why))
    }
  }

  #refuse(error: AgentEngineError): void {
    this.#end(error)
    this.#reject(error)
  }

  /** Continues with the events and the result of another run. */
  async #attach(attached: Attachment): Promise<void> {
    this.#attached = attached
    this.#native.release(this.#number)
    hub.removeRun(this.#number)
    // Aborted before it was known which run that is.
    if (this.#aborted) this.abort()
    try {
      for await (const event of attached.events(this.#seq)) this.#deliverAttached(event)
      const result = await attached.result()
      if (this.#output === undefined || !hasOutput(result)) this.#complete(result)
      else await this.#completeChecked(this.#output, result)
    } catch (error) {
      this.#end(error)
      this.#reject(error)
    }
  }

  #deliverAttached(event: StreamEvent): void {
    if (event.type === 'token') {
      const { text, messageId } = event
      this.#call('onPartialReply', { text, messageId })
    } else if (event.type === 'reasoning') {
      this.#call('onReasoningStream', { text: event.text })
    }
    this.#deliver(event)
  }

  /** Ends the run: releases its resources, and ends the readers that wait for events; with `error` they reject. */
  #end(error?: unknown): void {
    this.#ended = true
    if (this.#attached === undefined) {
      this.#native.release(this.#number)
      hub.removeRun(this.#number)
    }
    this.#unlisten()
    for (const execution of [...this.#executions.keys()]) this.#cancelTool(execution)
    this.#values.clear()
    this.#log.end(error)
    this.#onEnd(this)
    hub.releaseProcess()
  }
}

export { AgentRun }
