// What was made of pi's messages, so that each is converted once: a host passes all of them again with each call. It must never return what was made of
// a message that has changed since, at any depth, nor change a message.

import type { Message as EngineMessage } from '../../../index.d.ts'
import type { Message } from '../../../pi-ai.d.ts'
import { isLeaf, isPlainList, isPlainObject, plainOf, UNUSUAL } from './plain-copy.ts'

type Part = Exclude<Message['content'], string>[number]
type Convert = (message: Message) => EngineMessage

/** A conversion, and the values of the message that it was made of: a copy with the fields that a conversion reads. */
interface Conversion {
  of: Message
  made: EngineMessage
}

/** The depth of the list of parts in a message, and of a part. */
const CONTENT = 1
const PART = 2

const conversions = new WeakMap<Message, Conversion>()

/** What `convert` makes of the messages, or made before of the same values, frozen. A message that is not plain data is converted each time. */
function converted(messages: readonly Message[], convert: Convert): EngineMessage[] {
  const all: EngineMessage[] = []
  for (const message of messages) {
    const known = conversions.get(message)
    const isKnown =
      known !== undefined && isSame(message, known.of, known.of.role === 'assistant', 0)
    all.push(isKnown ? known.made : convertedAnew(message, convert))
  }
  return all
}

function convertedAnew(message: Message, convert: Convert): EngineMessage {
  const of = copyOf(message)
  if (of === undefined) return convert(message)
  const made = frozen(convert(of))
  conversions.set(message, { of, made })
  return made
}

/** How an object may differ from its copy: in other fields, in their order, or not at all. */
const ANY = 0
const ORDER = 1
const NOT = 2

/**
 * Whether a value has what its copy has. `depth` counts from the message. One function that calls itself, and reads fields by name: several are put into each
 * other by the compiler of V8, which takes longer than a run.
 */
function isSame(value: unknown, copy: unknown, isAnswer: boolean, depth: number): boolean {
  if (typeof copy !== 'object' || copy === null) return value === copy
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(copy)) {
    if (!Array.isArray(value) || value.length !== copy.length) return false
    if (depth > CONTENT && !isPlainList(value)) return false
    for (let at = 0; at < copy.length; at++) {
      if (!isSame(value[at], copy[at], isAnswer, depth + 1)) return false
    }
    return true
  }
  const names = Object.keys(copy)
  const differs = depth > PART ? NOT : depth < CONTENT || isAnswer ? ANY : ORDER
  if (differs !== ANY) {
    const given = Object.keys(value)
    if (given.length !== names.length || !isPlainObject(value)) return false
    for (let at = 0; differs === NOT && at < names.length; at++) {
      if (given[at] !== names[at]) return false
    }
  }
  for (let at = 0; at < names.length; at++) {
    const name = names[at] as keyof typeof value
    if (!isSame(value[name], copy[name], isAnswer, depth + 1)) return false
  }
  return true
}

/** The fields of a message that a conversion reads, each read once; undefined where one is not plain. */
function copyOf(message: Message): Message | undefined {
  const { role, timestamp, content: given } = message
  const content = typeof given === 'string' ? given : partsOf(given, role !== 'assistant')
  if (content === undefined || !isLeaf(timestamp)) return undefined
  switch (role) {
    case 'user':
      return { role, content, timestamp } as Message
    case 'assistant': {
      const { api, provider, model } = message
      if (typeof content === 'string' || ![api, provider, model].every(isLeaf)) return undefined
      return { role, content, api, provider, model, timestamp } as Message
    }
    case 'toolResult': {
      const { toolCallId, toolName, isError } = message
      if (typeof content === 'string' || typeof toolCallId !== 'string') return undefined
      if (![toolName, isError].every(isLeaf)) return undefined
      return { role, toolCallId, toolName, content, isError, timestamp } as Message
    }
  }
}

function partsOf(list: unknown, passes: boolean): Part[] | undefined {
  if (!Array.isArray(list)) return undefined
  const parts: Part[] = []
  for (let at = 0; at < list.length; at++) {
    const part = copyOfPart(list[at], passes)
    if (part === undefined) return undefined
    parts.push(part)
  }
  return parts
}

function copyOfPart(part: Part | null | undefined, passes: boolean): Part | undefined {
  if (typeof part !== 'object' || part === null || (passes && !isPlainPart(part))) return undefined
  switch (part.type) {
    case 'text': {
      const { type, text, textSignature } = part
      if (typeof text !== 'string' || !isLeaf(textSignature)) return undefined
      // What is passed on has these fields alone; else a field that is missing is compared, too.
      const isShort = passes && textSignature === undefined
      return isShort ? { type, text } : ({ type, text, textSignature } as Part)
    }
    case 'image': {
      const { type, data, mimeType } = part
      return isLeaf(data) && isLeaf(mimeType) ? { type, data, mimeType } : undefined
    }
    case 'thinking': {
      const { type, thinking, thinkingSignature, redacted } = part
      if (![thinking, thinkingSignature, redacted].every(isLeaf)) return undefined
      return { type, thinking, thinkingSignature, redacted } as Part
    }
    case 'toolCall': {
      const { type, id, name, thoughtSignature, arguments: given } = part
      const plain = plainOf(given)
      if (plain === UNUSUAL || ![name, thoughtSignature].every(isLeaf)) return undefined
      if (typeof id !== 'string') return undefined
      return { type, id, name, thoughtSignature, arguments: plain } as Part
    }
    default:
      return undefined
  }
}

/** Whether a part of a user or of a result has the fields of pi alone. */
function isPlainPart(part: Part): boolean {
  if (!isPlainObject(part)) return false
  const isText = part.type === 'text'
  if (!isText && part.type !== 'image') return false
  for (const name in part) {
    if (name === 'type') continue
    if (
      isText ? name !== 'text' && name !== 'textSignature' : name !== 'data' && name !== 'mimeType'
    )
      return false
  }
  return true
}

/** A value that was just made, with all that it has. */
function frozen<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const name of Object.keys(value)) frozen((value as Record<string, unknown>)[name])
  return Object.freeze(value)
}

export { converted }
