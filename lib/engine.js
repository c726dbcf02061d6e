'use strict'
// The engine as its caller holds it: options in, runs out, one close.
// It must never let a wrong option or context get further than this call.

const native = require('../binding.js')
const hub = require('./hub.js')
const { readContext, toJson } = require('./context.js')
const { AgentEngineError, guarded } = require('./errors.js')
const { Ledger } = require('./ledger.js')
const { readOptions } = require('./options.js')
const { AgentRun } = require('./run.js')
const { ScriptedProvider } = require('./scripted.js')

class AgentEngine {
  #native
  #closing
  #ledger

  constructor(options = {}) {
    const json = readOptions(options)
    this.#native = guarded(() => new native.NativeEngine(hub.nativeHub(), json))
    for (const [name, provider] of Object.entries(options.providers ?? {})) {
      if (provider instanceof ScriptedProvider) provider.attach(this.#native, name)
    }
    if (options.ledger) this.#ledger = new Ledger(this.#native)
  }

  get ledger() {
    if (this.#ledger === undefined) {
      throw new AgentEngineError(
        'no_ledger',
        'the engine has no ledger; pass `ledger: { path }`',
        'ledger',
      )
    }
    return this.#ledger
  }

  run(context, callbacks) {
    const { fields, tools, signal } = readContext(context)
    const json = toJson(fields, 'context')
    const run = new AgentRun({
      tools,
      callbacks,
      detached: fields.detached === true,
      coalesce: fields.coalesce !== false,
      signal,
    })
    return run.begin((number, aborted) => guarded(() => this.#native.run(number, json, aborted)))
  }

  close() {
    this.#closing ??= hub.request((id) => this.#native.close(id))
    return this.#closing
  }
}

// `await using engine = …` where the runtime has it.
if (Symbol.asyncDispose !== undefined) {
  AgentEngine.prototype[Symbol.asyncDispose] = function dispose() {
    return this.close()
  }
}

module.exports = { AgentEngine }
