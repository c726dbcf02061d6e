// A conversation for another model: what it may not see is removed, and each call has a result. It must never change a message.

import type {
  AssistantMessage,
  ImageContent,
  Message,
  Model,
  TextContent,
  ToolCall,
  ToolResultMessage,
} from '../../pi-ai.d.ts'

type Part = AssistantMessage['content'][number]
type Normalize = (id: string, model: Model, source: AssistantMessage) => string

const IMAGE = '(image omitted: model does not support images)'
const TOOL_IMAGE = '(tool image omitted: model does not support images)'
const NO_RESULT = 'No result provided'

/** The messages as `model` may read them. Answers that failed are left out, with the results of their calls. */
function transformMessages(
  messages: Message[],
  model: Model,
  normalizeToolCallId?: Normalize,
): Message[] {
  const ids = new Map<string, string>()
  const adapted = messages.map((message) => adapt(message, model, ids, normalizeToolCallId))
  return paired(adapted)
}

function adapt(
  message: Message,
  model: Model,
  ids: Map<string, string>,
  normalize: Normalize | undefined,
): Message {
  const seesImages = model.input.includes('image')
  if (message.role === 'user') {
    if (seesImages || typeof message.content === 'string') return message
    return { ...message, content: withoutImages(message.content, IMAGE) }
  }
  if (message.role === 'toolResult') {
    const toolCallId = ids.get(message.toolCallId) ?? message.toolCallId
    if (seesImages && toolCallId === message.toolCallId) return message
    const content = seesImages ? message.content : withoutImages(message.content, TOOL_IMAGE)
    return { ...message, toolCallId, content }
  }
  const { provider, api, model: id } = message
  const isSame = provider === model.provider && api === model.api && id === model.id
  const content: AssistantMessage['content'] = []
  for (const part of message.content) {
    const kept = isSame ? own(part) : foreign(part, message, model, ids, normalize)
    if (kept !== undefined) content.push(kept)
  }
  return { ...message, content }
}

/** A part for the model that wrote it. */
function own(part: Part): Part | undefined {
  const isEmpty = part.type === 'thinking' && !part.thinkingSignature && !part.thinking.trim()
  return isEmpty ? undefined : part
}

/** A part for another model. */
function foreign(
  part: Part,
  source: AssistantMessage,
  model: Model,
  ids: Map<string, string>,
  normalize: Normalize | undefined,
): Part | undefined {
  switch (part.type) {
    case 'thinking': {
      const isHidden = part.redacted || !part.thinking.trim()
      return isHidden ? undefined : { type: 'text', text: part.thinking }
    }
    case 'text':
      return { type: 'text', text: part.text }
    case 'toolCall':
      return foreignCall(part, source, model, ids, normalize)
  }
}

function foreignCall(
  call: ToolCall,
  source: AssistantMessage,
  model: Model,
  ids: Map<string, string>,
  normalize: Normalize | undefined,
): ToolCall {
  const { thoughtSignature, ...rest } = call
  const id = normalize?.(call.id, model, source) ?? call.id
  if (id !== call.id) ids.set(call.id, id)
  if (id === call.id && thoughtSignature === undefined) return call
  return { ...rest, id }
}

function withoutImages(
  content: readonly (TextContent | ImageContent)[],
  text: string,
): TextContent[] {
  const kept: TextContent[] = []
  for (const part of content) {
    if (part.type === 'text') kept.push(part)
    else if (kept.at(-1)?.text !== text) kept.push({ type: 'text', text })
  }
  return kept
}

/** Each call is followed by a result, and no result is without its call. */
function paired(messages: readonly Message[]): Message[] {
  const out: Message[] = []
  let pending: ToolCall[] = []
  let answered = new Set<string>()
  const close = () => {
    for (const { id, name } of pending) if (!answered.has(id)) out.push(missing(id, name))
    pending = []
    answered = new Set()
  }
  for (const message of messages) {
    if (message.role === 'toolResult') {
      if (!pending.some(({ id }) => id === message.toolCallId)) continue
      answered.add(message.toolCallId)
      out.push(message)
      continue
    }
    close()
    if (message.role === 'assistant') {
      const { stopReason, content } = message
      if (stopReason === 'error' || stopReason === 'aborted') continue
      pending = content.filter((part) => part.type === 'toolCall')
    }
    out.push(message)
  }
  close()
  return out
}

function missing(toolCallId: string, toolName: string): ToolResultMessage {
  return {
    role: 'toolResult',
    toolCallId,
    toolName,
    content: [{ type: 'text', text: NO_RESULT }],
    isError: true,
    timestamp: Date.now(),
  }
}

export { transformMessages }
