// The queue between Rust and this JavaScript environment: after a wake, it drains every run in one crossing.
// It must never throw in the wake callback, starve the event loop, or keep the process alive when nothing runs.

import { performance } from 'node:perf_hooks'
import type { NativeHub } from '../../binding.d.ts'
import type { OutgoingRequest } from '../../index.d.ts'
import type { ServerRequest } from '../engine/client-functions.ts'
import {
  AgentEngineError,
  clip,
  fromNative,
  messageOf,
  type NativeError,
} from '../values/errors.ts'
import * as addon from './addon.ts'

const HEADER = 2
const WIDTH = 5
/** A longer drain yields to timers and I/O. */
const SLICE_MS = 8

/** The receiver of the records of one run. */
interface RecordTarget {
  record(kind: number, seqFrom: number, seq: number, text: string, start: number, end: number): void
  fail(error: unknown): void
}

/** A request that waits for its answer. */
interface Waiting {
  resolve(value: unknown): void
  reject(error: unknown): void
  /** It keeps the process alive. */
  holds: boolean
}

/** Whether the last key was refused, and by which challenge. */
interface Refused {
  refused: boolean
  challenge?: string | undefined
}

/**
 * Requests the key of a profile: the request's number, the profile's index, and whether its last key was refused; or with `ask` an answer to
 * an MCP server.
 */
type KeySource = (number: number, profile: number, refused: Refused, ask?: ServerRequest) => void

/** Embeds texts for the memory of an engine: the request's number, the texts, and whether they are a search. */
type EmbedSource = (number: number, texts: string[], isQuery: boolean) => void

/** Calls `onRequest` for one request that the native side is about to send. */
type Hook = (number: number, request: OutgoingRequest) => void

/** The answer to a request. */
interface Answer {
  ok?: unknown
  error?: NativeError
}

/** Receives what a call reports before its answer. */
type Update = (update: unknown) => void

/** An answer, a report, a request for a key or for vectors, or a request for `onRequest`, as the native side writes it. */
type Reply = Answer & {
  id: number
  keys?: number
  number: number
  profile: number
  refused: boolean
  /** The `WWW-Authenticate` of a server that refused it. */
  challenge?: string
  embed?: number
  texts: string[]
  isQuery: boolean
  ask?: ServerRequest
  hook?: number
  request: OutgoingRequest
  broker?: number
  event: unknown
  update?: unknown
}

const rows = new Uint32Array(HEADER + WIDTH * 4096)
const runs = new Map<number, RecordTarget>()
const requests = new Map<number, Waiting>()
let nextRun = 1
let nextRequest = 1
const keySources = new Map<number, KeySource>()
/** The embedders of engines, by the number of their key functions. */
const embedSources = new Map<number, EmbedSource>()
/** The `onRequest` of a compaction or a count, by the number of its request, and those of the memories of engines. */
const hooks = new Map<number, Hook>()
/** Who receives the updates of a request, by its number. */
const updates = new Map<number, Update>()
let nextKeys = 1
/** The brokers of this environment, by number. */
const brokers = new Map<number, (event: unknown) => void>()
let nextBroker = 1
let hub: NativeHub | undefined
/** Keeps the process alive while something runs: a timer that never fires, referenced only then. */
let keepAlive: NodeJS.Timeout | undefined
let busy = 0
let sliceStart = 0

/** The queue, created at its first use. */
function nativeHub(): NativeHub {
  if (hub === undefined) {
    hub = new addon.NativeHub(wake)
    keepAlive = setInterval(() => {}, 2 ** 30)
    keepAlive.unref()
  }
  return hub
}

/** Keeps the process alive until an equal number of calls of `releaseProcess`. */
function holdProcess(): void {
  if (busy++ === 0) keepAlive?.ref()
}

function releaseProcess(): void {
  if (--busy === 0) keepAlive?.unref()
}

/** Drains once the caller's code is done: the first events of a run come without a wake. */
function drainSoon(): void {
  queueMicrotask(wake)
}

/** Drains after the continuations of a promise: they may still add listeners. */
function drainLater(): void {
  setImmediate(wake)
}

function wake(): void {
  sliceStart = performance.now()
  drain()
}

function drain(): void {
  for (;;) {
    const text = takeRecords()
    const count = rows[0]
    const more = rows[1] !== 0
    let start = 0
    for (let i = 0, p = HEADER; i < count; i++, p += WIDTH) {
      const end = rows[p + 4]
      const number = rows[p]
      if (text === undefined) failLost(number)
      else if (number === 0) dispatch(text.slice(start, end))
      else deliver(number, rows[p + 1], rows[p + 2], rows[p + 3], text, start, end)
      start = end
    }
    if (!more) return
    if (sliceOver()) {
      setImmediate(wake)
      return
    }
  }
}

/** The text of the next records; undefined where it cannot be created. */
function takeRecords(): string | undefined {
  rows[0] = 0
  rows[1] = 0
  try {
    return hub?.drain(rows)
  } catch {
    // Their rows are available: each of their runs ends, and the others continue.
    return undefined
  }
}

/** Delivers a record to its run. A failure in one run ends only that run. */
function deliver(
  number: number,
  kind: number,
  seqFrom: number,
  seq: number,
  text: string,
  start: number,
  end: number,
): void {
  const run = runs.get(number)
  if (run === undefined) return
  try {
    run.record(kind, seqFrom, seq, text, start, end)
  } catch (error) {
    run.fail(error)
  }
}

/** Fails the run whose record is lost, or, for number 0, every open request. */
function failLost(number: number): void {
  const error = new Error('its records could not be read')
  if (number !== 0) {
    runs.get(number)?.fail(error)
    return
  }
  // The requests of the lost answers are unknown.
  for (const id of [...requests.keys()])
    settle(id, { error: { code: 'internal', message: error.message } })
}

/** Whether the drain has used up its time in this turn of the event loop. */
function sliceOver(): boolean {
  return performance.now() - sliceStart > SLICE_MS
}

function newSlice(): void {
  sliceStart = performance.now()
}

/** Registers a run under a new number. */
function addRun(run: RecordTarget): number {
  let number = nextRun
  while (runs.has(number) || number === 0) number = (number + 1) >>> 0
  nextRun = (number + 1) >>> 0
  runs.set(number, run)
  return number
}

function removeRun(number: number): void {
  runs.delete(number)
}

/** Sends a request to the native side; the answer arrives through the queue. By default it keeps the process alive. */
function request<Value>(send: (id: number) => void, holds = true): Promise<Value> {
  nativeHub()
  const id = nextRequest
  nextRequest = nextRequest === 0xffffffff ? 1 : nextRequest + 1
  return new Promise((resolve, reject) => {
    requests.set(id, { resolve: resolve as Waiting['resolve'], reject, holds })
    if (holds) holdProcess()
    try {
      send(id)
    } catch (error) {
      requests.delete(id)
      if (holds) releaseProcess()
      reject(fromNative(error))
    }
  })
}

/** Registers the key functions and the embedder of an engine; returns their number for the native side. */
function addKeySource(source: KeySource, embedSource?: EmbedSource): number {
  const keys = nextKeys++
  keySources.set(keys, source)
  if (embedSource !== undefined) embedSources.set(keys, embedSource)
  return keys
}

function removeKeySource(keys: number): void {
  keySources.delete(keys)
  embedSources.delete(keys)
}

/** Registers the `onRequest` of request `id`. */
function addHook(id: number, hook: Hook): void {
  hooks.set(id, hook)
}

/** Registers the `onRequest` of an engine's memory under a number that no request has. */
function addEngineHook(hook: Hook): number {
  const id = nextRequest
  nextRequest = nextRequest === 0xffffffff ? 1 : nextRequest + 1
  hooks.set(id, hook)
  return id
}

function removeHook(id: number): void {
  hooks.delete(id)
}

/** Registers a broker; returns its number for the native side. */
function addBroker(receive: (event: unknown) => void): number {
  const broker = nextBroker++
  brokers.set(broker, receive)
  return broker
}

function removeBroker(broker: number): void {
  brokers.delete(broker)
}

/** Has the updates of request `id` received, until `removeUpdates`. */
function addUpdates(id: number, update: Update): void {
  updates.set(id, update)
}

function removeUpdates(id: number): void {
  updates.delete(id)
}

/** Dispatches an answer, an event of a broker, an update, a request for a key or for vectors, or a request for `onRequest`. */
function dispatch(json: string): void {
  let reply: Reply
  try {
    reply = JSON.parse(json)
  } catch (error) {
    const message = `the answer cannot be read: ${clip(messageOf(error, 'it'))}`
    // Its number comes first, whatever follows.
    const id = Number(/^\{"id":(\d+)/.exec(json.slice(0, 32))?.[1])
    settle(id, { error: { code: 'internal', message } })
    return
  }
  const {
    id,
    keys,
    number,
    profile,
    refused,
    challenge,
    ask,
    hook,
    request,
    broker,
    event,
    update,
  } = reply
  const { embed, texts, isQuery } = reply
  if (broker !== undefined) brokers.get(broker)?.(event)
  else if (update !== undefined) updates.get(id)?.(update)
  else if (hook !== undefined) hooks.get(hook)?.(number, request)
  else if (embed !== undefined) embedSources.get(embed)?.(number, texts, isQuery)
  else if (keys !== undefined) keySources.get(keys)?.(number, profile, { refused, challenge }, ask)
  else settle(id, reply)
}

/** Settles the promise of request `id`. */
function settle(id: number, { ok, error }: Answer): void {
  const waiting = requests.get(id)
  if (waiting === undefined) return
  requests.delete(id)
  if (waiting.holds) releaseProcess()
  if (error) {
    waiting.reject(new AgentEngineError(error.code, error.message, error.field, error.error))
  } else {
    waiting.resolve(ok)
  }
}

export type { RecordTarget, Refused }
export {
  addBroker,
  addEngineHook,
  addHook,
  addKeySource,
  addRun,
  addUpdates,
  drainLater,
  drainSoon,
  holdProcess,
  nativeHub,
  newSlice,
  releaseProcess,
  removeBroker,
  removeHook,
  removeKeySource,
  removeRun,
  removeUpdates,
  request,
  sliceOver,
}
