// The scripted provider: a model that answers as a script says, for tests and demos. No key, no network.
// It must never behave unlike a real provider on the way to the engine: it runs where they run.

import { refusal } from '../values/errors.js'
import { readFields, readList, readName } from '../values/reader.js'

const CODE = 'invalid_options'

class ScriptedProvider {
  #replies
  #repeat
  #native
  #name
  #opened = []

  constructor(replies, options) {
    const list = readList(replies, 'script', CODE)
    if (list === undefined) throw refusal(CODE, 'script', 'is not an array of replies')
    this.#replies = list
    this.#repeat = readFields(options, 'options', CODE).repeat
  }

  /** Lets calls that wait at the gate `name` go on, now and later. */
  open(name) {
    readName(name, 'name', CODE)
    if (this.#native === undefined) this.#opened.push(name)
    else this.#native.openGate(this.#name, name)
  }

  /** What the engine asked, oldest first (the last 1,000 requests). */
  get requests() {
    return this.#native === undefined ? [] : JSON.parse(this.#native.scriptedRequests(this.#name))
  }

  /** @internal Whether a value is one. Asked of the value itself, so that no proxy can answer for it. */
  static is(value) {
    return value !== null && typeof value === 'object' && #replies in value
  }

  /** @internal The engine that uses it. */
  attach(native, name) {
    this.#native = native
    this.#name = name
    for (const gate of this.#opened.splice(0)) native.openGate(name, gate)
  }

  toJSON() {
    return { api: 'scripted', script: { replies: this.#replies, repeat: this.#repeat } }
  }
}

/** A provider that answers as `replies` say, one a call. */
function scriptedProvider(replies, options = {}) {
  return new ScriptedProvider(replies, options)
}

export { ScriptedProvider, scriptedProvider }
