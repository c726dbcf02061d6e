'use strict'
// The engine as its caller holds it: options in, runs out, one close.
// It must never let a wrong option or context get further than this call.

const native = require('../binding.js')
const hub = require('./hub.js')
const { AgentEngineError, guarded } = require('./errors.js')
const { Ledger, toJson } = require('./ledger.js')
const { AgentRun } = require('./run.js')
const { ScriptedProvider } = require('./scripted.js')
const { readTools } = require('./tools.js')

class AgentEngine {
  #native
  #closing
  #ledger

  constructor(options = {}) {
    if (options === null || typeof options !== 'object') {
      throw new AgentEngineError('invalid_options', '`options`: is not an object', 'options')
    }
    this.#native = guarded(
      () => new native.NativeEngine(hub.nativeHub(), toJson(options, 'invalid_options')),
    )
    for (const [name, provider] of Object.entries(options.providers ?? {})) {
      if (provider instanceof ScriptedProvider) provider.attach(this.#native, name)
    }
    if (options.ledger) this.#ledger = new Ledger(this.#native)
  }

  get ledger() {
    if (this.#ledger === undefined) {
      throw new AgentEngineError('no_ledger', 'the engine has no ledger; pass `ledger: { path }`', 'ledger')
    }
    return this.#ledger
  }

  run(context, callbacks) {
    if (context === null || typeof context !== 'object') {
      throw new AgentEngineError('invalid_context', '`context`: is not an object', 'context')
    }
    const { abortSignal, tools, ...rest } = context
    if (abortSignal !== undefined && abortSignal !== null && !isSignal(abortSignal)) {
      throw new AgentEngineError('invalid_context', '`abortSignal`: is not an AbortSignal', 'abortSignal')
    }
    const { definitions, byName } = readTools(tools)
    const json = toJson({ ...rest, tools: definitions })
    const run = new AgentRun({
      tools: byName,
      callbacks,
      detached: rest.detached === true,
      coalesce: rest.coalesce !== false,
      signal: abortSignal,
    })
    return run.begin((number, aborted) => guarded(() => this.#native.run(number, json, aborted)))
  }

  close() {
    this.#closing ??= hub.request((id) => this.#native.close(id))
    return this.#closing
  }
}

function isSignal(value) {
  return typeof value.addEventListener === 'function' && typeof value.removeEventListener === 'function'
}

// `await using engine = …` where the runtime has it.
if (Symbol.asyncDispose !== undefined) {
  AgentEngine.prototype[Symbol.asyncDispose] = function dispose() {
    return this.close()
  }
}

module.exports = { AgentEngine }
