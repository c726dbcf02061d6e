// What was made of pi's messages, so that each is converted once: a host passes all of them again with each call. It must never return what was made of
// a message that has changed since, at any depth, nor change a message.

import type { Message as EngineMessage } from '../../index.d.ts'
import type { Message } from '../../pi-ai.d.ts'
import { isLeaf, isPlainObject, isSameValue, plainOf, UNUSUAL } from './plain-copy.ts'

type Part = Exclude<Message['content'], string>[number]
type Convert = (message: Message) => EngineMessage

/** A conversion, and the values of the message that it was made of: a copy with the fields that a conversion reads. */
interface Conversion {
  of: Message
  made: EngineMessage
}

const conversions = new WeakMap<Message, Conversion>()

/** What `convert` makes of the message, frozen; or what it made before of the same values. A message that is not plain data is converted each time. */
function converted(message: Message, convert: Convert): EngineMessage {
  const known = conversions.get(message)
  if (known !== undefined && isSame(message, known.of)) return known.made
  const of = copyOf(message)
  if (of === undefined) return convert(message)
  const made = frozen(convert(of))
  conversions.set(message, { of, made })
  return made
}

/** The fields of a message that a conversion reads beside its content. */
const FIELDS: Readonly<Record<Message['role'], readonly string[]>> = {
  user: ['role', 'timestamp'],
  assistant: ['role', 'timestamp', 'api', 'provider', 'model'],
  toolResult: ['role', 'timestamp', 'toolCallId', 'toolName', 'isError'],
}
/** Those of a part, beside its arguments. */
const PART_FIELDS: Readonly<Record<Part['type'], readonly string[]>> = {
  text: ['type', 'text', 'textSignature'],
  image: ['type', 'data', 'mimeType'],
  thinking: ['type', 'thinking', 'thinkingSignature', 'redacted'],
  toolCall: ['type', 'id', 'name', 'thoughtSignature'],
}

/** Whether all that a conversion reads of a message is as it was. */
function isSame(message: Message, copy: Message): boolean {
  if (!haveSame(message, copy, FIELDS[copy.role])) return false
  const { content } = message
  const { content: before } = copy
  if (typeof before === 'string' || typeof content === 'string') return content === before
  if (!Array.isArray(content) || content.length !== before.length) return false
  const passes = copy.role !== 'assistant'
  for (let at = 0; at < before.length; at++) {
    if (!isSamePart(content[at] as Part, before[at] as Part, passes)) return false
  }
  return true
}

/** `passes`: the part is passed on as it is, so that it must have no other fields. */
function isSamePart(part: Part, copy: Part, passes: boolean): boolean {
  if (typeof part !== 'object' || part === null) return false
  if (!haveSame(part, copy, PART_FIELDS[copy.type])) return false
  if (passes) return isPlainObject(part) && countOf(part) === countOf(copy)
  return copy.type !== 'toolCall' || isSameValue((part as typeof copy).arguments, copy.arguments)
}

/** Whether two values have the same in these fields. Read by name in one place: for fields that are written out V8 compiles code for each form of a message. */
function haveSame(value: object, copy: object, names: readonly string[]): boolean {
  for (let at = 0; at < names.length; at++) {
    const name = names[at] as keyof typeof value
    if (value[name] !== copy[name]) return false
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
      return textSignature === undefined ? { type, text } : { type, text, textSignature }
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

/** The number of fields. */
function countOf(part: Part): number {
  let count = 0
  for (const _ in part) count++
  return count
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
