// The engine as its caller holds it: options in, runs out, one close.
// It must never let a wrong option or context get further than this call.

import { Ledger } from '../ledger/ledger.js'
import * as native from '../native/addon.js'
import * as hub from '../native/hub.js'
import { lookedAt } from '../native/request-hook.js'
import { contextJson, readCallbacks, readContext } from '../run/context.js'
import { abortSession, attach, steerSession } from '../run/follow.js'
import { AgentRun } from '../run/run.js'
import { AgentEngineError, guarded, refusal } from '../values/errors.js'
import { readFields, readName, toJson } from '../values/reader.js'
import { compact } from './compaction.js'
import { askForKey } from './key-functions.js'
import { readOptions } from './options.js'
import { recoverAtOpen, resumption } from './recovery.js'
import { ScriptedProvider } from './scripted-provider.js'

class AgentEngine {
  #native
  #onRequest
  #closing
  #ledger
  #keys = 0

  constructor(options = {}) {
    const { json, functions, onRequest, providers, recovery } = readOptions(options)
    this.#onRequest = onRequest
    if (functions.size > 0) {
      this.#keys = hub.addKeys((number, place, refused) => {
        askForKey(functions.get(place), refused).then(({ key, expiresAt, error }) =>
          this.#native.answerKey(number, key, expiresAt, error),
        )
      })
    }
    try {
      this.#native = guarded(() => new native.NativeEngine(hub.nativeHub(), json, this.#keys))
    } catch (error) {
      hub.removeKeys(this.#keys)
      throw error
    }
    for (const [name, provider] of Object.entries(providers)) {
      if (ScriptedProvider.is(provider)) provider.attach(this.#native, name)
    }
    if (recovery.ledger) this.#ledger = new Ledger(this.#native)
    this.recovered = recoverAtOpen(this, recovery)
    // Nobody has to await it: what failed is in its list, and a ledger that cannot be read says so at the next call.
    this.recovered.catch(() => {})
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
    return this.#begin(context, readCallbacks(callbacks), (number, json, aborted, hooked) =>
      this.#native.run(number, json, aborted, hooked),
    )
  }

  #begin(context, callbacks, start, drain) {
    const { fields, tools, signal, onRequest = this.#onRequest } = readContext(context)
    const json = contextJson(fields)
    const run = new AgentRun({
      tools,
      callbacks,
      detached: fields.detached === true,
      coalesce: fields.coalesce !== false,
      signal,
      onRequest,
    })
    const hooked = onRequest !== undefined
    const native = (number, aborted) => guarded(() => start(number, json, aborted, hooked))
    return run.begin(native, drain)
  }

  models(filter = {}) {
    const fields = readFields(filter, 'filter', 'invalid_options', 'filter.')
    const json = toJson(fields, 'filter', () => 'invalid_options')
    return JSON.parse(guarded(() => this.#native.models(json)))
  }

  budgets() {
    return JSON.parse(guarded(() => this.#native.budgets()))
  }

  limits() {
    return JSON.parse(guarded(() => this.#native.limits()))
  }

  async countTokens(context, options = {}) {
    const { exact = false } = readFields(options, 'options', 'invalid_options')
    if (typeof exact !== 'boolean') {
      throw refusal('invalid_options', 'exact', 'is not true or false')
    }
    const { fields, onRequest = this.#onRequest } = readContext(context)
    const json = contextJson(fields)
    return lookedAt(this.#native, onRequest, (id, hooked) =>
      this.#native.countTokens(id, json, exact, hooked),
    )
  }

  /** Compacts a session between its turns; see `lib/compaction.js`. */
  async compact(label, options = {}) {
    return compact(this.#native, label, options, this.#onRequest)
  }

  /** The state of the auth profiles. */
  profiles() {
    return hub.request((id) => this.#native.profiles(id))
  }

  /** Forgets the failures of an auth profile. */
  async resetProfile(profileId) {
    readName(profileId, 'id', 'unknown_profile')
    await hub.request((id) => this.#native.resetProfile(id, profileId))
  }

  /** The turns that a crash has interrupted. */
  recover() {
    return hub.request((id) => this.#native.recover(id))
  }

  /** Goes on with an interrupted turn. A promise, because its context is read from the ledger first. */
  async resume(turnId, options = {}) {
    const { callbacks, fields } = resumption(turnId, options)
    const kept = await hub.request((id) => this.#native.interruptedContext(id, turnId))
    const told = await hub.request((id) => this.#native.lastEvent(id, turnId))
    const start = (number, json, aborted, hooked) =>
      this.#native.resume(number, turnId, told, json, aborted, hooked)
    return this.#begin({ ...kept, ...fields }, callbacks, start, hub.drainLater)
  }

  /** Closes an interrupted turn as failed, keeping what it produced. */
  async discard(turnId) {
    readName(turnId, 'turnId', 'invalid_context')
    await hub.request((id) => this.#native.discard(id, turnId))
  }

  /** The events of a run, of this process or another, after one of them; see `lib/follow.js`. */
  attach(runId, options = {}) {
    return attach(this.#native, runId, options)
  }

  /** Aborts the run that is under way in a session, in whatever process. */
  async abortSession(label) {
    return abortSession(this.#native, label)
  }

  /** Hands a message to the run that is under way in a session, in whatever process. */
  async steerSession(label, text) {
    return steerSession(this.#native, label, text)
  }

  close() {
    this.#closing ??= hub
      .request((id) => this.#native.close(id))
      .finally(() => hub.removeKeys(this.#keys))
    return this.#closing
  }
}

// `await using engine = …` where the runtime has it.
if (Symbol.asyncDispose !== undefined) {
  AgentEngine.prototype[Symbol.asyncDispose] = function dispose() {
    return this.close()
  }
}

export { AgentEngine }
