// Messages of `useChat` as messages of the engine. A client sent them: it must never trust their shape.

import type { FromMessagesOptions, UIMessageLike } from '../../ai-sdk.d.ts'
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

/** Messages for `history` and `currentMessage` of a context. */
function fromUIMessages(
  messages: readonly UIMessageLike[],
  options: FromMessagesOptions = {},
): MessageInput[] {
  return convertMessages(messages, (message, path) => {
    const parts = readParts(message?.parts, `${path}.parts`)
    const role: unknown = message?.role
    if (role === 'assistant') return assistantMessages(parts, path, options)
    if (role === 'user') return userMessage(parts, `${path}.parts`, options)
    if (role === 'system') return systemMessage(parts, path)
    return refuse(`${path}.role`, 'is not `system`, `user` or `assistant`')
  })
}

function systemMessage(parts: Part[], path: string): MessageInput[] {
  const texts = parts.filter(({ type }) => type === 'text')
  return [
    {
      role: 'system',
      content: texts.map((part) => readText(part, 'text', path)).join(''),
    },
  ]
}

function userMessage(parts: Part[], path: string, options: FromMessagesOptions): MessageInput[] {
  const content = convertParts(parts, path, (part, at) => userBlock(part, at, options))
  return content.length === 0 ? [] : [{ role: 'user', content }]
}

function userBlock(part: Part, path: string, options: FromMessagesOptions): Block | undefined {
  if (part.type === 'text') return textBlock(part, path)
  if (part.type !== 'file') return convertPart(part, options)
  const url = readText(part, 'url', path)
  return fileBlock(part, dataUrl(url, readText(part, 'mediaType', path)), path, options)
}

/** A message for each step, each followed by the results of its tools. */
function assistantMessages(
  parts: Part[],
  path: string,
  options: FromMessagesOptions,
): MessageInput[] {
  const messages: MessageInput[] = []
  let blocks: Block[] = []
  let results: MessageInput[] = []
  const endStep = () => {
    if (blocks.length > 0) messages.push({ role: 'assistant', content: blocks })
    messages.push(...results)
    blocks = []
    results = []
  }
  for (const [index, part] of parts.entries()) {
    const at = `${path}.parts[${index}]`
    const { type } = part
    if (type === 'step-start') endStep()
    else if (type === 'steering-message') {
      endStep()
      messages.push(...userMessage(readParts(part.parts, `${at}.parts`), `${at}.parts`, options))
    } else if (type === 'text') blocks.push(textBlock(part, at))
    else if (type === 'reasoning') blocks.push(reasoningBlock(part, at))
    else if (type === 'dynamic-tool' || type.startsWith('tool-')) {
      const call = toolCall(part, at)
      if (call === undefined) continue
      blocks.push(call.block)
      if (call.result !== undefined) results.push(call.result)
    } else {
      const block = convertPart(part, options)
      if (block !== undefined) blocks.push(block)
    }
  }
  endStep()
  return messages
}

/** A call and its result; undefined while its input is incomplete. A call without a result is one that the engine answers as interrupted. */
function toolCall(
  part: Part,
  path: string,
): { block: Block; result: MessageInput | undefined } | undefined {
  const { state, input } = part
  if (state === 'input-streaming') return undefined
  const toolCallId = readText(part, 'toolCallId', path)
  const toolName =
    part.type === 'dynamic-tool'
      ? readText(part, 'toolName', path)
      : part.type.slice('tool-'.length)
  const call = { toolCallId, toolName }
  const block = callBlock(toolCallId, toolName, input)
  if (state === 'output-available') {
    return { block, result: resultMessage(call, valueText(part.output), false) }
  }
  if (state === 'output-error') {
    return { block, result: resultMessage(call, readText(part, 'errorText', path), true) }
  }
  const { approved, reason } = (part.approval ?? {}) as { approved?: unknown; reason?: unknown }
  if (state === 'output-denied' || approved === false) {
    return { block, result: deniedMessage(call, reason) }
  }
  return { block, result: undefined }
}

export { fromUIMessages }
