// What a tool returned, made ready to cross: text and images for the model, JSON for the ledger, both bounded.
// It must never walk a value that is larger than what is stored of it.

import { boundedJson, fitting } from '../values/bounded-json.ts'

/** Characters (UTF-16 units) of JSON that are stored of a result. What is longer is cut before anything walks it. */
const MAX_RESULT = 4 * 1024 * 1024
/** Room for the sentence that marks a cut. */
const ROOM = MAX_RESULT - 256
/** Characters of base64 in a result's images: more than any request may carry. */
const MAX_IMAGES = 32 * 1024 * 1024
/** Blocks of one result. */
const MAX_BLOCKS = 10_000
const BOUND = `of one result ${MAX_RESULT} characters of JSON are kept`

interface TextBlock {
  type: 'text'
  text: string
}

type Block = TextBlock | { type: 'image'; mimeType: string; data: string }

/** A result in blocks, as far as it is read. */
interface PiResult {
  content?: unknown
  details?: unknown
  isError?: unknown
}

/** The JSON of an answer. Throws what cannot be read of the value: the tool has failed then. */
function answer(value: unknown): string {
  if (typeof value === 'string') {
    const stored = cutText(value, ROOM)
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
  const { json, cut } = boundedJson(value, ROOM)
  if (json === undefined) {
    throw new TypeError(
      `the tool returned ${typeof value}; return a string, JSON, or { content: [...] }`,
    )
  }
  if (!cut) return JSON.stringify({ content: [text(json)], resultJson: json, isError: false })
  const stored = `${fitting(json, ROOM)}\n[… the rest was cut here: ${BOUND} …]`
  return JSON.stringify({
    content: [text(stored)],
    resultJson: JSON.stringify(stored),
    isError: false,
  })
}

/** A result in blocks, as pi's tools return it. Its texts share the room. */
function piAnswer(value: PiResult, blocks: unknown[]): string {
  const count = blocks.length
  if (!(count <= MAX_BLOCKS)) {
    throw new RangeError(`the tool returned ${count} blocks; at most ${MAX_BLOCKS} are allowed`)
  }
  let room = ROOM
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
      block.text = cutText(block.text, room)
      room = Math.max(0, room - block.text.length)
    }
    content.push(block)
  }
  return JSON.stringify({
    content,
    resultJson: withDetails(content, value.details),
    isError: value.isError === true,
  })
}

/** A text as it is stored: of one whose JSON has no room, the beginning and the end. */
function cutText(value: string, room: number): string {
  // A character takes six of JSON at most. Only what may fit is looked at.
  if (value.length * 6 + 2 <= room) return value
  if (value.length + 2 <= room && JSON.stringify(value).length <= room) return value
  const end = Math.floor(room / 4)
  const tail = fitting(value, end, true)
  const head = fitting(value, room - end)
  const left = value.length - head.length - tail.length
  return `${head}\n[… ${left} of ${value.length} characters were cut here: ${BOUND} …]\n${tail}`
}

/** The stored result. Details are the host's own and need not be JSON, or small: they stay in this process then. */
function withDetails(content: Block[], details: unknown): string {
  const json = JSON.stringify({ content })
  try {
    const written = boundedJson(details, MAX_RESULT)
    if (written.json !== undefined && !written.cut) {
      return `${json.slice(0, -1)},"details":${written.json}}`
    }
  } catch {
    // What cannot be read is the tool's own affair: the result is whole without it.
  }
  return json
}

function text(value: string): TextBlock {
  return { type: 'text', text: value }
}

/** One block, each of its fields read once. */
function readBlock(item: unknown, index: number): Block {
  const { type, text: written, data, mimeType } = (item ?? {}) as Record<string, unknown>
  if (type === 'text' && typeof written === 'string') return text(written)
  if (type === 'image' && typeof data === 'string' && typeof mimeType === 'string') {
    return { type, mimeType, data }
  }
  throw new TypeError(`content[${index}] of the tool's result is neither a text nor an image block`)
}

/** The JSON of a call that failed. */
function failure(message: string): string {
  return JSON.stringify({ content: [text(message)], isError: true })
}

/** The JSON of a call whose outcome is unknown. */
function unknown(): string {
  return JSON.stringify({ content: [], isError: true, outcome: 'unknown' })
}

export { answer, failure, unknown }
