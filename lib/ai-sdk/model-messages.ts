// Messages of `generateText` and `streamText` as messages of the engine. It must never fetch a file.

import type { FromMessagesOptions, ModelMessageLike } from '../../ai-sdk.d.ts'
import type { Block, MessageInput } from '../../index.d.ts'
import {
  callBlock,
  convertMessages,
  convertPart,
  convertParts,
  dataUrl,
  deniedMessage,
  fileBlock,
  type Part,
  readParts,
  readText,
  reasoningBlock,
  refuse,
  resultMessage,
  textBlock,
  valueText,
} from './parts.ts'

type File = { mediaType: string; bytes: Uint8Array | string }

/** Messages for the `history` of a context. */
function fromModelMessages(
  messages: readonly ModelMessageLike[],
  options: FromMessagesOptions = {},
): MessageInput[] {
  return convertMessages(messages, (message, path) => {
    const role: unknown = message?.role
    const content = message?.content
    if (role !== 'system' && role !== 'user' && role !== 'assistant' && role !== 'tool') {
      refuse(`${path}.role`, 'is not `system`, `user`, `assistant` or `tool`')
    }
    if (typeof content === 'string') return [{ role, content }]
    const parts = readParts(content, `${path}.content`)
    const results: MessageInput[] = []
    const blocks = convertParts(parts, `${path}.content`, (part, at) => {
      if (part.type !== 'tool-result') return contentBlock(part, role, at, options)
      results.push(toolResult(part, at, options))
      return undefined
    })
    return blocks.length === 0 ? results : [{ role, content: blocks }, ...results]
  })
}

function contentBlock(
  part: Part,
  role: string,
  path: string,
  options: FromMessagesOptions,
): Block | undefined {
  switch (part.type) {
    case 'text':
      return textBlock(part, path)
    case 'reasoning':
      return reasoningBlock(part, path)
    case 'tool-call':
      return callBlock(
        readText(part, 'toolCallId', path),
        readText(part, 'toolName', path),
        part.input,
      )
    case 'image':
    case 'file':
      if (role !== 'user') return convertPart(part, options)
      return fileBlock(part, fileOf(part), path, options)
    default:
      return convertPart(part, options)
  }
}

/** The bytes of a file or an image; undefined for one by its address or reference. */
function fileOf(part: Part): File | undefined {
  const given = part.type === 'image' ? part.image : part.data
  // An image without a type is one of the engine's four: its first bytes show which.
  const mediaType = typeof part.mediaType === 'string' ? part.mediaType : ''
  return bytesOf(given, mediaType)
}

function bytesOf(given: unknown, mediaType: string): File | undefined {
  if (typeof given === 'string') {
    if (/^https?:/.test(given)) return undefined
    return dataUrl(given, mediaType) ?? typed(given, mediaType)
  }
  if (given instanceof Uint8Array) return typed(given, mediaType)
  if (given instanceof ArrayBuffer) return typed(new Uint8Array(given), mediaType)
  if (given instanceof URL) return dataUrl(given.href, mediaType)
  const { type, data, url, text } = (given ?? {}) as Record<string, unknown>
  if (type === 'data') return bytesOf(data, mediaType)
  if (type === 'url') return dataUrl(String(url), mediaType)
  if (type === 'text' && typeof text === 'string') return typed(Buffer.from(text), mediaType)
  return undefined
}

/** The first bytes of the images, in base64. */
const MAGIC: [start: string, mediaType: string][] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp'],
]

function typed(bytes: Uint8Array | string, mediaType: string): File {
  // `image` and `image/*` name no format either.
  if (mediaType !== '' && !/^image(?:\/\*)?$/.test(mediaType)) {
    return { mediaType: mediaType.toLowerCase(), bytes }
  }
  const start =
    typeof bytes === 'string' ? bytes : Buffer.from(bytes.slice(0, 12)).toString('base64')
  return { mediaType: MAGIC.find(([magic]) => start.startsWith(magic))?.[1] ?? mediaType, bytes }
}

function toolResult(part: Part, path: string, options: FromMessagesOptions): MessageInput {
  const call = {
    toolCallId: readText(part, 'toolCallId', path),
    toolName: readText(part, 'toolName', path),
  }
  const { type, value, reason } = (part.output ?? {}) as Record<string, unknown>
  switch (type) {
    case 'text':
    case 'json':
      return resultMessage(call, valueText(value), false)
    case 'error-text':
    case 'error-json':
      return resultMessage(call, valueText(value), true)
    case 'execution-denied':
      return deniedMessage(call, reason)
    case 'content':
      return resultMessage(call, resultBlocks(value, `${path}.output.value`, options), false)
    default:
      return refuse(`${path}.output`, 'is not the output of a tool')
  }
}

/** The parts of a result: texts, and images in it. */
function resultBlocks(value: unknown, path: string, options: FromMessagesOptions): Block[] {
  return convertParts(readParts(value, path), path, (part, at) => {
    if (part.type === 'text') return textBlock(part, at)
    const isFile = /^(?:media|file|file-data|image-data)$/.test(part.type)
    if (!isFile) return convertPart(part, options)
    return fileBlock(part, bytesOf(part.data, String(part.mediaType ?? '')), at, options)
  })
}

export { fromModelMessages }
