// The option `memory` of an engine: what crosses as JSON, and the function that embeds.
// It must never read a text that is remembered.

import { refusal } from '../values/errors.ts'
import { type Fields, isObject, readFields } from '../values/reader.ts'
import type { EmbedFunction } from './embedder.ts'

const CODE = 'invalid_options'

/** The option after reading. */
interface ReadMemory {
  /** The JSON value for the native side. */
  crossing: unknown
  embed?: EmbedFunction
}

/** Reads the option. What is not about the function is checked by the native side. */
function readMemory(given: unknown): ReadMemory {
  if (!isObject(given)) {
    if (given === undefined || given === null || typeof given === 'boolean') {
      return { crossing: given }
    }
    throw refusal(CODE, 'memory', 'is not an object; pass `true`, or an object of options')
  }
  const { embedder, ...fields } = readFields(given, 'memory', CODE, 'memory.')
  if (embedder === undefined || embedder === null || embedder === 'none') {
    return { crossing: fields }
  }
  if (typeof embedder === 'function') {
    return {
      crossing: { ...fields, embedder: { model: 'host' } },
      embed: embedder as EmbedFunction,
    }
  }
  if (!isObject(embedder)) {
    const message = "is no embedder; pass `{ provider, model }`, a function, `{ embed }`, or 'none'"
    throw refusal(CODE, 'memory.embedder', message)
  }
  const read: Fields = readFields(embedder, 'memory.embedder', CODE, 'memory.embedder.')
  const { embed, model = 'host', ...rest } = read
  if (read.provider !== undefined) {
    if (embed === undefined) return { crossing: { ...fields, embedder: read } }
    throw refusal(CODE, 'memory.embedder.embed', 'is set beside `provider`; pass one of them')
  }
  if (typeof embed !== 'function') {
    throw refusal(
      CODE,
      'memory.embedder.embed',
      'is not a function; pass one, or `provider` and `model`',
    )
  }
  return { crossing: { ...fields, embedder: { model, ...rest } }, embed: embed as EmbedFunction }
}

export { readMemory }
