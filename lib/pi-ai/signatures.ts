// pi's opaque strings and the engine's provider data of a block: the same facts in two forms. It must never change what a provider signed.

import type { Block } from '../../index.d.ts'
import type { TextContent, ThinkingContent, ToolCall } from '../../pi-ai.d.ts'

type Text = Extract<Block, { type: 'text' }>
type Thinking = Extract<Block, { type: 'thinking' }>
type Call = Extract<Block, { type: 'tool_call' }>

/** What 0.73 shows of thinking that the provider hides. */
const REDACTED = '[Reasoning redacted]'

/** A JSON object; undefined for any other text. */
function objectOf(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined || !text.startsWith('{')) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The only field of provider data, where it is a text; else the whole as it is. */
function fieldOf(data: string | undefined, name: string): string | undefined {
  if (data === undefined) return undefined
  const fields = objectOf(data)
  const value = fields?.[name]
  const isAll = typeof value === 'string' && Object.keys(fields ?? {}).length === 1
  return isAll ? value : data
}

/** The other way round: a text that is no JSON is the value of the field. */
function dataOf(text: string | undefined, name: string): string | undefined {
  if (text === undefined || text === '') return undefined
  return text.startsWith('{') ? text : JSON.stringify({ [name]: text })
}

/** The field of provider data that pi has as a text of its own, by API. */
function fieldName(api: string): string {
  return api === 'openai-completions' || api === 'mistral-conversations'
    ? 'field'
    : 'thoughtSignature'
}

const isResponses = (api: string) => api === 'openai-responses' || api === 'azure-openai-responses'
const isGoogle = (api: string) => api === 'google-generative-ai' || api === 'google-vertex'

function textOf(block: Text, api: string): TextContent {
  const { text, providerData } = block
  const textSignature = signatureOfText(providerData, api)
  return textSignature === undefined
    ? { type: 'text', text }
    : { type: 'text', text, textSignature }
}

/** OpenAI: the id of the item, with its phase as 0.73 writes it. */
function signatureOfText(data: string | undefined, api: string): string | undefined {
  if (data === undefined) return undefined
  if (isGoogle(api)) return fieldOf(data, 'thoughtSignature')
  if (!isResponses(api)) return undefined
  const item = objectOf(data)?.item as { id?: unknown; phase?: unknown } | undefined
  if (typeof item?.id !== 'string') return undefined
  const { id, phase } = item
  return typeof phase === 'string' ? JSON.stringify({ v: 1, id, phase }) : id
}

function textBlock({ text, textSignature }: TextContent, api: string): Text {
  const providerData = dataOfText(textSignature, api)
  return providerData === undefined ? { type: 'text', text } : { type: 'text', text, providerData }
}

function dataOfText(signature: string | undefined, api: string): string | undefined {
  if (!signature) return undefined
  if (isGoogle(api)) return dataOf(signature, 'thoughtSignature')
  if (!isResponses(api)) return undefined
  const { id = signature, phase } = objectOf(signature) ?? {}
  const item = phase === undefined ? { id } : { id, phase }
  return JSON.stringify({
    item: { ...item, status: 'completed' },
    part: { type: 'output_text', annotations: [] },
  })
}

function thinkingOf(block: Thinking, api: string): ThinkingContent {
  const { thinking, signature, providerData } = block
  const own = isResponses(api) ? providerData : fieldOf(providerData, fieldName(api))
  const thinkingSignature = signature ?? own
  if (thinkingSignature === undefined) return { type: 'thinking', thinking }
  return { type: 'thinking', thinking, thinkingSignature }
}

function redactedOf(data: string): ThinkingContent {
  return { type: 'thinking', thinking: REDACTED, thinkingSignature: data, redacted: true }
}

function thinkingBlock(content: ThinkingContent, api: string): Block {
  const { thinking, thinkingSignature, redacted } = content
  if (redacted === true && thinkingSignature) {
    return { type: 'redacted_thinking', data: thinkingSignature }
  }
  if (!thinkingSignature) return { type: 'thinking', thinking }
  if (api === 'anthropic-messages' || api === 'bedrock-converse-stream') {
    return { type: 'thinking', thinking, signature: thinkingSignature }
  }
  const providerData = dataOf(thinkingSignature, fieldName(api))
  return { type: 'thinking', thinking, ...(providerData && { providerData }) }
}

function signatureOfCall(block: Call, api: string): string | undefined {
  return isGoogle(api) ? fieldOf(block.providerData, 'thoughtSignature') : block.providerData
}

function callBlock(call: ToolCall): Call {
  const { id, name, thoughtSignature } = call
  const argumentsJson = JSON.stringify(call.arguments ?? {})
  const providerData = dataOf(thoughtSignature, 'thoughtSignature')
  return {
    type: 'tool_call',
    id: callIdOf(id),
    name,
    argumentsJson,
    ...(providerData && { providerData }),
  }
}

/** pi joins the ids of a call and of its item: the engine sends the call's alone. */
function callIdOf(id: string): string {
  const bar = id.indexOf('|')
  return bar > 0 ? id.slice(0, bar) : id
}

/** The signature of a part of Google's that has no text. */
function signatureOfOpaque(rawJson: string, api: string): string | undefined {
  if (!isGoogle(api)) return undefined
  const part = objectOf(rawJson)
  const { text, thoughtSignature } = part ?? {}
  return text === '' && typeof thoughtSignature === 'string' ? thoughtSignature : undefined
}

export {
  callBlock,
  callIdOf,
  redactedOf,
  signatureOfCall,
  signatureOfOpaque,
  textBlock,
  textOf,
  thinkingBlock,
  thinkingOf,
}
