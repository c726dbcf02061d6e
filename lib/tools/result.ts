// A tool's return value, prepared for the native side: text and images for the model, JSON for the ledger, both bounded.
// It must never traverse more of a value than it stores.

import { types } from 'node:util'
import { boundedJson, fitting } from '../values/bounded-json.ts'

/** The maximum of stored JSON of a result, in UTF-16 units. A longer one is cut before it is traversed. */
const MAX_RESULT = 4 * 1024 * 1024
/** The limit of a stored result; the sentence that marks a cut needs the rest. */
const LIMIT = MAX_RESULT - 256
/** The maximum of base64 characters in a result's images: more than any request may contain. */
const MAX_IMAGES = 32 * 1024 * 1024
/** Blocks of one result. */
const MAX_BLOCKS = 10_000
const BOUND = `of one result ${MAX_RESULT} characters of JSON are stored`

interface TextBlock {
  type: 'text'
  text: string
}

type Block = TextBlock | { type: 'image'; mimeType: string; data: string }

/** The field of a result with the session of the agent that the call has started: only the broker's tools have it. */
const SPAWNED = Symbol('spawnedSessionLabel')

/** The used part of a result in blocks. */
interface PiResult {
  [SPAWNED]?: string
  content?: unknown
  details?: unknown
  isError?: unknown
}

/** The JSON of an answer. Throws if the value cannot be read: the tool has failed then. */
function answer(value: unknown): string {
  if (typeof value === 'string') {
    const stored = cutText(value, LIMIT)
    return JSON.stringify({
      content: [text(stored)],
      resultJson: JSON.stringify(stored),
      isError: false,
    })
  }
  const object: PiResult | undefined =
    value !== null && typeof value === 'object' ? value : undefined
  const blocks = object?.content
  if (object !== undefined && Array.isArray(blocks)) return piAnswer(object, blocks)
  const { json, cut } = boundedJson(value, LIMIT, 'the result')
  if (json === undefined) {
    throw new TypeError(
      `the tool returned ${value === undefined ? 'undefined' : `a ${typeof value}`}; return a string, JSON, or { content: [...] }`,
    )
  }
  if (!cut) return JSON.stringify({ content: [text(json)], resultJson: json, isError: false })
  const stored = `${fitting(json, LIMIT)}\n[… the rest was cut here: ${BOUND} …]`
  return JSON.stringify({
    content: [text(stored)],
    resultJson: JSON.stringify(stored),
    isError: false,
  })
}

/** A result in blocks, as pi's tools return it. The limit is for all its texts together. */
function piAnswer(value: PiResult, blocks: unknown[]): string {
  const count = blocks.length
  if (!(count <= MAX_BLOCKS)) {
    throw new RangeError(`the tool returned ${count} blocks; at most ${MAX_BLOCKS} are allowed`)
  }
  let limit = LIMIT
  let images = 0
  const content: Block[] = []
  for (let index = 0; index < count; index++) {
    const block = readBlock(blocks[index], index)
    if (block.type === 'image') {
      images += block.data.length
      if (images > MAX_IMAGES) {
        throw new RangeError(
          `the tool returned ${images} characters of images; at most ${MAX_IMAGES} are allowed`,
        )
      }
    } else {
      block.text = cutText(block.text, limit)
      limit = Math.max(0, limit - block.text.length)
    }
    content.push(block)
  }
  return JSON.stringify({
    content,
    resultJson: withDetails(content, value.details),
    isError: value.isError === true,
    spawnedSessionLabel: value[SPAWNED],
  })
}

/** A text as it is stored: the beginning and the end of one whose JSON is longer than `limit`. */
function cutText(value: string, limit: number): string {
  // A character needs at most six characters of JSON. Only a text that may fit is converted.
  if (value.length * 6 + 2 <= limit) return value
  if (value.length + 2 <= limit && JSON.stringify(value).length <= limit) return value
  const end = Math.floor(limit / 4)
  const tail = fitting(value, end, true)
  const head = fitting(value, limit - end)
  const left = value.length - head.length - tail.length
  return `${head}\n[… ${left} of ${value.length} characters were cut here: ${BOUND} …]\n${tail}`
}

/** The stored result. Details belong to the host and need not be JSON, or small: they stay in this process then. */
function withDetails(content: Block[], details: unknown): string {
  const json = JSON.stringify({ content })
  try {
    const written = boundedJson(details, MAX_RESULT)
    if (written.json !== undefined && !written.cut) {
      return `${json.slice(0, -1)},"details":${written.json}}`
    }
  } catch {
    // Unreadable details are left out: the result is complete without them.
  }
  return json
}

function text(value: string): TextBlock {
  return { type: 'text', text: value }
}

/** One block, each of its fields read exactly once. */
function readBlock(item: unknown, index: number): Block {
  const { type, text: written, data, mimeType } = (item ?? {}) as Record<string, unknown>
  if (type === 'text' && typeof written === 'string') return text(written)
  if (type === 'image' && typeof data === 'string' && typeof mimeType === 'string') {
    return { type, mimeType, data }
  }
  throw new TypeError(`content[${index}] of the tool's result is neither a text nor an image block`)
}

/** Whether a value is an error, of whatever realm. */
function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

/** The JSON of a call that failed. */
function failure(message: string): string {
  return JSON.stringify({ content: [text(message)], isError: true })
}

/** The JSON of a call whose outcome is unknown. */
function unknown(): string {
  return JSON.stringify({ content: [], isError: true, outcome: 'unknown' })
}

export { answer, failure, isError, SPAWNED, unknown }
