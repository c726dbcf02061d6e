// One run as its caller holds it: an async iterator of stream events, a result, a stream handle.
// It must never lose an event, hand one out twice, or let a throw of the caller's code reach the process.

import * as hub from '../native/hub.js'
import { look } from '../native/request-hook.js'
import { toolController } from '../tools/signal.js'
import { runTool } from '../tools/tools.js'
import { AgentEngineError, clip, messageOf, refusal } from '../values/errors.js'
import * as signals from '../values/signals.js'

const TOKEN = 0
const REASONING = 1
const MESSAGE = 2
const EVENT = 3
const PHASE = 4
const RESULT = 5
const TOOL = 6
const TOOL_CANCEL = 7
const DEFECT = 8
const REQUEST = 9
const UNREADABLE = 10

/** A reader this far behind gets merged deltas (docs/rules/turns-and-streams.md#coalescing). */
const MERGE_ABOVE = 4096
/** Events handed out between two looks at the clock. */
const CHECK_EVERY = 256

const DONE = Object.freeze({ value: undefined, done: true })

class AgentRun {
  #number
  #native = hub.nativeHub()
  #tools
  #callbacks
  #detached
  #coalesce
  #signal
  #onRequest
  #listeners = []
  #buffer = []
  #head = 0
  #waiting = []
  #served = 0
  #reading = true
  /** Somebody has asked for events. Before that the socket waits for nobody (docs/rules/turns-and-streams.md#backpressure). */
  #read = false
  /** Events in the buffer that the native side counts as consumed. */
  #told = 0
  #ended = false
  #aborted = false
  #messageId = ''
  #executions = new Map()
  #values = new Map()
  #settle
  #warned = false

  constructor({ tools, callbacks, detached, coalesce, signal, onRequest }) {
    this.#tools = tools
    this.#callbacks = callbacks
    this.#detached = detached
    this.#coalesce = coalesce
    this.#signal = signal
    this.#onRequest = onRequest
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // Nobody has to await the result: a run that is only iterated is not an unhandled rejection.
    this.result.catch(() => {})
    this.stream = Object.freeze({
      onEvent: (callback) => this.#onEvent(callback),
      abort: () => this.abort(),
      steer: (message) => this.steer(message),
      isStreaming: () => !this.#ended && this.#native.isStreaming(this.#number),
      isCompacting: () => !this.#ended && this.#native.isCompacting(this.#number),
    })
  }

  /** @internal Begins: `start(number, aborted)` makes the native run, `drain` hands out what it tells at once. */
  begin(start, drain = hub.drainSoon) {
    const signal = this.#signal
    const at = ['abortSignal', 'invalid_context']
    // Before anything starts: a signal that cannot be used is a refusal.
    const aborted = signal !== undefined && signals.isAborted(signal, ...at)
    if (signal !== undefined && !aborted) signals.listen(signal, this, ...at)
    this.#number = hub.addRun(this)
    try {
      // A signal may also have called while it was listened to.
      start(this.#number, aborted || this.#aborted)
    } catch (error) {
      hub.removeRun(this.#number)
      this.#unlisten()
      throw error
    } finally {
      drain()
    }
    hub.hold()
    return this
  }

  /** @internal What came of the run cannot be read: it ends, and no other run with it. */
  fail(error) {
    if (this.#ended) return
    this.abort()
    this.#end()
    const why = `what came of the run cannot be read: ${clip(messageOf(error, 'it'))}`
    this.#settle.reject(new AgentEngineError('internal', why))
  }

  #unlisten() {
    if (this.#signal === undefined) return
    try {
      signals.unlisten(this.#signal, this)
    } catch (error) {
      this.#warn(error)
    }
  }

  abort() {
    if (this.#ended) return
    this.#aborted = true
    // A signal may call while it is listened to, before there is a run.
    if (this.#number !== undefined) this.#native.abort(this.#number)
  }

  steer(message) {
    if (typeof message !== 'string' || message === '' || this.#ended) return false
    return this.#native.steer(this.#number, message)
  }

  [Symbol.asyncIterator]() {
    return this
  }

  next() {
    this.#read = true
    if (this.#head < this.#buffer.length) {
      const value = this.#take()
      if (++this.#served % CHECK_EVERY === 0 && hub.sliceOver()) {
        // A reader of ready events never leaves the microtask queue: let timers and I/O have their turn.
        return new Promise((resolve) => {
          setImmediate(() => {
            hub.newSlice()
            resolve({ value, done: false })
          })
        })
      }
      return Promise.resolve({ value, done: false })
    }
    if (this.#ended || !this.#reading) return Promise.resolve(DONE)
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  return(value) {
    this.#stopReading()
    return Promise.resolve({ value, done: true })
  }

  throw(error) {
    this.#stopReading()
    return Promise.reject(error)
  }

  #stopReading() {
    if (!this.#reading) return
    this.#reading = false
    if (!this.#coalesce && !this.#ended) this.#native.consumed(this.#number, 0xffffffff)
    this.#buffer = []
    this.#head = 0
    for (const resolve of this.#waiting.splice(0)) resolve(DONE)
    if (!this.#detached) this.abort()
  }

  #take() {
    const value = this.#buffer[this.#head]
    this.#buffer[this.#head++] = undefined
    if (this.#head === this.#buffer.length) {
      this.#buffer = []
      this.#head = 0
    }
    if (!this.#coalesce && !this.#ended) {
      if (this.#told > 0) this.#told--
      else this.#native.consumed(this.#number, 1)
    }
    return value
  }

  /** @internal One record of the queue. */
  record(kind, seqFrom, seq, text, start, end) {
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
      case TOOL:
        this.#runTool(JSON.parse(text.slice(start, end)))
        break
      case TOOL_CANCEL:
        this.#cancelTool(Number(text.slice(start, end)))
        break
      case REQUEST:
        this.#look(JSON.parse(text.slice(start, end)))
        break
      case DEFECT:
        this.#end()
        this.#settle.reject(new AgentEngineError('internal', text.slice(start, end)))
        break
      case UNREADABLE: {
        const { code, message } = JSON.parse(text.slice(start, end))
        this.#end()
        this.#settle.reject(new AgentEngineError(code, message))
        break
      }
    }
  }

  #delta(type, text, seqFrom, seq) {
    const messageId = this.#messageId
    const event =
      seqFrom === seq ? { type, text, messageId, seq } : { type, text, messageId, seq, seqFrom }
    if (type === 'token') this.#call('onPartialReply', { text, messageId })
    else this.#call('onReasoningStream', { text })
    this.#deliver(event)
  }

  #deliver(event) {
    if (event.type === 'tool_status') {
      const { toolCallId, toolName, status, summary } = event
      this.#call('onToolResult', { toolCallId, toolName, status, summary })
    }
    for (const listener of this.#listeners) this.#invoke(listener, event)
    if (!this.#reading) {
      if (!this.#coalesce && !this.#ended) this.#native.consumed(this.#number, 1)
      return
    }
    const resolve = this.#waiting.shift()
    if (resolve !== undefined) {
      if (!this.#coalesce) this.#native.consumed(this.#number, 1)
      resolve({ value: event, done: false })
      return
    }
    const last = this.#buffer[this.#buffer.length - 1]
    if (
      this.#coalesce &&
      this.#buffer.length - this.#head > MERGE_ABOVE &&
      (event.type === 'token' || event.type === 'reasoning') &&
      last.type === event.type &&
      last.messageId === event.messageId
    ) {
      this.#buffer[this.#buffer.length - 1] = {
        ...last,
        text: last.text + event.text,
        seq: event.seq,
        seqFrom: last.seqFrom ?? last.seq,
      }
      return
    }
    this.#buffer.push(event)
    if (!this.#coalesce && !this.#read) {
      this.#told++
      this.#native.consumed(this.#number, 1)
    }
  }

  #onEvent(callback) {
    if (typeof callback !== 'function') {
      throw refusal('invalid_options', 'callback', 'is not a function')
    }
    this.#listeners.push(callback)
  }

  #call(name, payload) {
    const callback = this.#callbacks[name]
    if (callback !== undefined) this.#invoke(callback, payload)
  }

  /** Calls the caller's code. What it throws is told as a process warning, once a run, and harms nothing. */
  #invoke(callback, payload) {
    try {
      const returned = callback(payload)
      if (typeof returned?.then === 'function')
        returned.then(undefined, (error) => this.#warn(error))
    } catch (error) {
      this.#warn(error)
    }
  }

  #warn(error) {
    if (this.#warned) return
    this.#warned = true
    const detail = clip(messageOf(error, 'it'))
    process.emitWarning(`a callback of an agent run threw: ${detail}`, {
      code: 'AGENT_ENGINE_CALLBACK',
    })
  }

  #runTool(call) {
    // The request may have been on its way when the run was aborted: no tool begins after that.
    if (this.#aborted) return
    const { execution, callId, toolCallId, name } = call
    const controller = toolController((error) => this.#warn(error))
    this.#executions.set(execution, controller)
    // Told only while somebody waits: after a time limit, an abort or the end there is no call to tell of.
    const onUpdate = (partial) => {
      if (!this.#executions.has(execution)) return
      this.#call('onToolUpdate', { toolCallId, toolName: name, partial })
    }
    runTool(this.#tools.get(name), call, controller.signal, onUpdate)
      .then(({ json, value }) => {
        if (!this.#executions.delete(execution)) return
        if (value !== undefined) this.#values.set(callId, value)
        this.#native.answerTool(this.#number, execution, json)
      })
      .catch((error) => this.fail(error))
  }

  #look({ number, request }) {
    // As for tools: nothing of the caller's begins after an abort.
    if (this.#aborted) return
    look(this.#onRequest, request)
      .then(({ body, error }) => {
        if (!this.#ended) this.#native.answerRequest(this.#number, number, body, error)
      })
      .catch((error) => this.fail(error))
  }

  #cancelTool(execution) {
    const controller = this.#executions.get(execution)
    this.#executions.delete(execution)
    controller?.abort()
  }

  #finish(result) {
    for (const call of result.toolCalls) {
      // The caller gets back the very object its tool returned, with details that JSON cannot hold.
      const value = this.#values.get(call.callId)
      if (value !== undefined && call.result !== undefined) call.result = value
    }
    try {
      this.#end()
    } finally {
      this.#settle.resolve(result)
    }
  }

  /** Nothing comes any more: gives back what the run held, and ends who waits for events. */
  #end() {
    this.#ended = true
    this.#native.release(this.#number)
    hub.removeRun(this.#number)
    this.#unlisten()
    for (const execution of [...this.#executions.keys()]) this.#cancelTool(execution)
    this.#values.clear()
    for (const resolve of this.#waiting.splice(0)) resolve(DONE)
    hub.letGo()
  }
}

export { AgentRun }
