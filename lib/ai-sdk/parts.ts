// Parts of messages of the AI SDK as the engine's blocks, and what is wrong with them by path. It must never fetch a file, nor let one pass
// that the engine cannot send.

import type { FromMessagesOptions } from '../../ai-sdk.d.ts'
import type { Block, MessageInput } from '../../index.d.ts'

/** A part with the fields that a client may have sent. */
type Part = { readonly type: string } & Readonly<Record<string, unknown>>

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
const TEXTS = /^(?:text\/|application\/(?:json|xml)$)/

function refuse(path: string, why: string): never {
  throw new TypeError(`\`${path}\`: ${why}`)
}

/** The parts of a list, each an object with a type. */
function readParts(value: unknown, path: string): Part[] {
  if (!Array.isArray(value)) refuse(path, 'is not a list of parts')
  return value.map((part: unknown, index) => {
    const { type } = (part ?? {}) as { type?: unknown }
    if (typeof type !== 'string') refuse(`${path}[${index}]`, 'is not a part with a type')
    return part as Part
  })
}

/** The engine's messages of each message of a client; `path` is where that is. */
function convertMessages<M>(
  messages: readonly M[],
  convert: (message: M | null, path: string) => MessageInput[],
): MessageInput[] {
  if (!Array.isArray(messages)) refuse('messages', 'is not a list')
  return messages.flatMap((message: M | null, index) => convert(message, `messages[${index}]`))
}

/** The blocks that parts come to; a part that is left out has none. */
function convertParts(
  parts: readonly Part[],
  path: string,
  convert: (part: Part, path: string) => Block | undefined,
): Block[] {
  return parts.flatMap((part, index) => {
    const block = convert(part, `${path}[${index}]`)
    return block === undefined ? [] : [block]
  })
}

/** A field that must be a text. */
function readText(part: Part, name: string, path: string): string {
  const value = part[name]
  if (typeof value !== 'string') refuse(`${path}.${name}`, 'is not a string')
  return value
}

function textBlock(part: Part, path: string): Block {
  return { type: 'text', text: readText(part, 'text', path) }
}

/** What the host makes of a part; undefined where it leaves it out. */
function convertPart(part: Part, { part: convert }: FromMessagesOptions): Block | undefined {
  const made = convert?.(part)
  return typeof made === 'string' ? { type: 'text', text: made } : made
}

/** A file in a user's message: an image or a text in the message itself, else what the host makes of it. */
function fileBlock(
  part: Part,
  file: { mediaType: string; bytes: Uint8Array | string } | undefined,
  path: string,
  options: FromMessagesOptions,
): Block | undefined {
  if (file !== undefined && IMAGES.includes(file.mediaType)) {
    return { type: 'image', mimeType: file.mediaType, data: base64(file.bytes) }
  }
  if (file !== undefined && TEXTS.test(file.mediaType)) {
    return { type: 'text', text: Buffer.from(base64(file.bytes), 'base64').toString('utf8') }
  }
  if (options.part !== undefined) return convertPart(part, options)
  const what =
    file === undefined
      ? 'a file by its address'
      : `a file of the type \`${file.mediaType.slice(0, 100)}\``
  refuse(
    path,
    `is ${what}: the engine takes images (PNG, JPEG, GIF, WebP) and texts in the message itself; convert it with the option \`part\``,
  )
}

/** The type and the bytes of a data URL; undefined for another address. */
function dataUrl(
  url: string,
  mediaType: string,
): { mediaType: string; bytes: Uint8Array | string } | undefined {
  const [, type = '', encoding, content = ''] =
    /^data:([^;,]*)(?:;[^;,]*?)*?(;base64)?,(.*)$/s.exec(url) ?? []
  if (!url.startsWith('data:')) return undefined
  const bytes = encoding === undefined ? Buffer.from(decodeURIComponent(content)) : content
  return { mediaType: (type || mediaType).toLowerCase(), bytes }
}

function base64(bytes: Uint8Array | string): string {
  return typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString('base64')
}

/** Shown reasoning, with the signature where the AI SDK's own provider has stored one. */
function reasoningBlock(part: Part, path: string): Block {
  const metadata = (part.providerMetadata ?? part.providerOptions) as
    | { anthropic?: { signature?: unknown; redactedData?: unknown } }
    | undefined
  const { signature, redactedData } = metadata?.anthropic ?? {}
  if (typeof redactedData === 'string') return { type: 'redacted_thinking', data: redactedData }
  const thinking = readText(part, 'text', path)
  return typeof signature === 'string'
    ? { type: 'thinking', thinking, signature }
    : { type: 'thinking', thinking }
}

/** The call of a tool. */
function callBlock(id: string, name: string, input: unknown): Block {
  return { type: 'tool_call', id, name, argumentsJson: JSON.stringify(input ?? {}) }
}

/** The result of a tool as a message. */
function resultMessage(
  call: { toolCallId: string; toolName: string },
  content: string | Block[],
  isError: boolean,
): MessageInput {
  return { role: 'tool', ...call, content, isError }
}

/** The result of a call that was denied. */
function deniedMessage(
  call: { toolCallId: string; toolName: string },
  reason: unknown,
): MessageInput {
  return resultMessage(call, typeof reason === 'string' ? reason : 'The call was denied.', true)
}

/** A value as the text that a model reads. */
function valueText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

export type { Part }
export {
  callBlock,
  convertMessages,
  convertPart,
  convertParts,
  dataUrl,
  deniedMessage,
  fileBlock,
  readParts,
  readText,
  reasoningBlock,
  refuse,
  resultMessage,
  textBlock,
  valueText,
}
