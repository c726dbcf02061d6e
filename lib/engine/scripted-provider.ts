// The scripted provider: a model that answers from a script, for tests and demos. No key, no network.
// It must never bypass the path of a real provider: its script runs on the native side.

import type { NativeEngine } from '../../binding.d.ts'
import type { ScriptedProvider as Declared, ScriptedReply, ScriptedRequest } from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { readFields, readList, readName } from '../values/reader.ts'

const CODE = 'invalid_options'

class ScriptedProvider implements Declared {
  #replies: unknown[]
  #repeat: unknown
  /** The engine that uses it, and its name there. */
  #attached: { native: NativeEngine; name: string } | undefined
  /** Gates that were opened before an engine used it. */
  #opened: string[] = []

  constructor(replies: unknown, options: unknown) {
    const list = readList(replies, 'script', CODE)
    if (list === undefined) throw refusal(CODE, 'script', 'is not an array of replies')
    this.#replies = list
    this.#repeat = readFields(options, 'options', CODE).repeat
  }

  /** Opens the gate `name`: calls that wait at it continue, and later calls do not wait. */
  open(name: string): void {
    readName(name, 'name', CODE)
    if (this.#attached === undefined) this.#opened.push(name)
    else this.#attached.native.openGate(this.#attached.name, name)
  }

  /** The requests that the engine made, oldest first (the last 1,000). */
  get requests(): ScriptedRequest[] {
    if (this.#attached === undefined) return []
    return JSON.parse(this.#attached.native.scriptedRequests(this.#attached.name))
  }

  /** @internal Whether a value is a scripted provider. It checks a private field, so that no proxy can pass for one. */
  static is(value: unknown): value is ScriptedProvider {
    return value !== null && typeof value === 'object' && #replies in value
  }

  /** @internal The engine that uses it. */
  attach(native: NativeEngine, name: string): void {
    this.#attached = { native, name }
    for (const gate of this.#opened.splice(0)) native.openGate(name, gate)
  }

  toJSON(): unknown {
    return { api: 'scripted', script: { replies: this.#replies, repeat: this.#repeat } }
  }
}

/** A provider that answers with `replies`, one per call. */
function scriptedProvider(
  replies: readonly ScriptedReply[],
  options: { repeat?: boolean } = {},
): Declared {
  return new ScriptedProvider(replies, options)
}

export { ScriptedProvider, scriptedProvider }
