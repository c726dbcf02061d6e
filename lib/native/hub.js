// The one queue between Rust and this JavaScript environment: woken, it drains every run in one crossing.
// It must never throw into the wake, starve the event loop, or keep the process alive when nothing runs.

import { performance } from 'node:perf_hooks'
import { AgentEngineError, clip, fromNative, messageOf } from '../values/errors.js'
import * as native from './addon.js'

const HEADER = 2
const WIDTH = 5
/** A drain that took longer gives way to timers and I/O. */
const SLICE_MS = 8

const rows = new Uint32Array(HEADER + WIDTH * 4096)
const runs = new Map()
const requests = new Map()
let nextRun = 1
let nextRequest = 1
const keyHosts = new Map()
/** Who looks at the requests of a compaction or a count, by the number of its request. */
const hooks = new Map()
let nextKeys = 1
let hub
let alive
let busy = 0
let sliceStart = 0

function nativeHub() {
  if (hub === undefined) {
    hub = new native.NativeHub(wake)
    // What keeps the process alive while something runs: a timer that never fires, held only then.
    alive = setInterval(() => {}, 2 ** 30)
    alive.unref()
  }
  return hub
}

function hold() {
  if (busy++ === 0) alive.ref()
}

function letGo() {
  if (--busy === 0) alive.unref()
}

/** Drains once the caller's code is done: what a run tells at its start comes without a wake. */
function drainSoon() {
  queueMicrotask(wake)
}

/** Drains once those who wait for a promise have gone on: they may still add listeners. */
function drainLater() {
  setImmediate(wake)
}

function wake() {
  sliceStart = performance.now()
  drain()
}

function drain() {
  for (;;) {
    const text = take()
    const count = rows[0]
    const more = rows[1] !== 0
    let start = 0
    for (let i = 0, p = HEADER; i < count; i++, p += WIDTH) {
      const end = rows[p + 4]
      const number = rows[p]
      if (text === undefined) lose(number)
      else if (number === 0) reply(text.slice(start, end))
      else hand(number, rows[p + 1], rows[p + 2], rows[p + 3], text, start, end)
      start = end
    }
    if (!more) return
    if (sliceOver()) {
      setImmediate(wake)
      return
    }
  }
}

/** The text of the next records; nothing where it cannot be had. */
function take() {
  rows[0] = 0
  rows[1] = 0
  try {
    return hub.drain(rows)
  } catch {
    // Their rows are there: each run of them ends, and the others go on.
    return undefined
  }
}

/** Hands a record to its run. What goes wrong with one run ends that one. */
function hand(number, kind, seqFrom, seq, text, start, end) {
  const run = runs.get(number)
  if (run === undefined) return
  try {
    run.record(kind, seqFrom, seq, text, start, end)
  } catch (error) {
    run.fail(error)
  }
}

/** A record of run `number` is lost. */
function lose(number) {
  const error = new Error('its records could not be handed out')
  if (number !== 0) {
    runs.get(number)?.fail(error)
    return
  }
  // Nobody knows whose answers they were.
  for (const id of [...requests.keys()])
    settle(id, { error: { code: 'internal', message: error.message } })
}

/** Whether this turn of the event loop has worked long enough. */
function sliceOver() {
  return performance.now() - sliceStart > SLICE_MS
}

function newSlice() {
  sliceStart = performance.now()
}

/** Registers a run under a new number. */
function addRun(run) {
  let number = nextRun
  while (runs.has(number) || number === 0) number = (number + 1) >>> 0
  nextRun = (number + 1) >>> 0
  runs.set(number, run)
  return number
}

function removeRun(number) {
  runs.delete(number)
}

/** Sends a request to the native side; the answer comes through the queue. It holds the process unless it need not. */
function request(send, holds = true) {
  nativeHub()
  const id = nextRequest
  nextRequest = nextRequest === 0xffffffff ? 1 : nextRequest + 1
  return new Promise((resolve, reject) => {
    requests.set(id, { resolve, reject, holds })
    if (holds) hold()
    try {
      send(id)
    } catch (error) {
      requests.delete(id)
      if (holds) letGo()
      reject(fromNative(error))
    }
  })
}

/** Registers who is asked for keys; gives the number the native side asks under. */
function addKeys(ask) {
  const keys = nextKeys++
  keyHosts.set(keys, ask)
  return keys
}

function removeKeys(keys) {
  keyHosts.delete(keys)
}

/** Registers who looks at the requests that the native side makes for request `id`. */
function addHook(id, ask) {
  hooks.set(id, ask)
}

function removeHook(id) {
  hooks.delete(id)
}

/** An answer: to a request, or a question for a key, or a request to look at. */
function reply(json) {
  let answer
  try {
    answer = JSON.parse(json)
  } catch (error) {
    const message = `the answer cannot be read: ${clip(messageOf(error, 'it'))}`
    // Its number comes first, whatever follows.
    const id = Number(/^\{"id":(\d+)/.exec(json.slice(0, 32))?.[1])
    answer = { id, error: { code: 'internal', message } }
  }
  const { id, keys, number, place, refused, hook, request } = answer
  if (hook !== undefined) hooks.get(hook)?.(number, request)
  else if (keys !== undefined) keyHosts.get(keys)?.(number, place, refused)
  else settle(id, answer)
}

function settle(id, { ok, error }) {
  const waiting = requests.get(id)
  if (waiting === undefined) return
  requests.delete(id)
  if (waiting.holds) letGo()
  if (error) {
    waiting.reject(new AgentEngineError(error.code, error.message, error.field, error.error))
  } else {
    waiting.resolve(ok)
  }
}

export {
  addHook,
  addKeys,
  addRun,
  drainLater,
  drainSoon,
  hold,
  letGo,
  nativeHub,
  newSlice,
  removeHook,
  removeKeys,
  removeRun,
  request,
  sliceOver,
}
