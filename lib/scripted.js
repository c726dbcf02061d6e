'use strict'
// The scripted provider: a model that answers as a script says, for tests and demos. No key, no network.
// It must never behave unlike a real provider on the way to the engine: it runs where they run.

const { AgentEngineError } = require('./errors.js')

class ScriptedProvider {
  #replies
  #options
  #native
  #name
  #opened = []

  constructor(replies, options) {
    if (!Array.isArray(replies)) {
      throw new AgentEngineError(
        'invalid_options',
        '`script`: is not an array of replies',
        'script',
      )
    }
    this.#replies = replies
    this.#options = options
  }

  /** Lets calls that wait at the gate `name` go on, now and later. */
  open(name) {
    if (this.#native === undefined) this.#opened.push(name)
    else this.#native.openGate(this.#name, name)
  }

  /** What the engine asked, oldest first (the last 1,000 requests). */
  get requests() {
    return this.#native === undefined ? [] : JSON.parse(this.#native.scriptedRequests(this.#name))
  }

  /** @internal The engine that uses it. */
  attach(native, name) {
    this.#native = native
    this.#name = name
    for (const gate of this.#opened.splice(0)) native.openGate(name, gate)
  }

  toJSON() {
    return { api: 'scripted', script: { replies: this.#replies, repeat: this.#options.repeat } }
  }
}

/** A provider that answers as `replies` say, one a call. */
function scriptedProvider(replies, options = {}) {
  return new ScriptedProvider(replies, options)
}

module.exports = { ScriptedProvider, scriptedProvider }
