// The summary of a part of a session: the conversation as a text, and a call of the model. It must never return an empty summary.

import type { Message, Model, SimpleStreamOptions, StreamFunction } from '../../../pi-ai.d.ts'
import { streamSimple } from '../../../pi-ai.js'
import { convertToLlm } from '../context.ts'

type AgentMessages = Parameters<typeof convertToLlm>[0]

/** The share of the reserved tokens that a summary may have. */
const SHARE = 0.8
/** How much of a tool's result is summarised, in characters. */
const MAX_RESULT = 2_000

const SYSTEM = `You summarise conversations between a user and an AI assistant that works with tools. You only write the summary: you do not continue the conversation, \
and you do not answer questions in it.`
const FORM = `Use exactly this form:

## Goal
[What the user wants; several points if there are several tasks.]

## Constraints & Preferences
- [What the user requires or prefers, or "(none)"]

## Progress
### Done
- [x] [What is finished]

### In Progress
- [ ] [What is under way]

### Blocked
- [What prevents progress, if anything]

## Key Decisions
- **[Decision]**: [Why]

## Next Steps
1. [What comes next, in order]

## Critical Context
- [Data, examples and references that are needed to go on, or "(none)"]

Be brief. Repeat paths of files, names of functions and texts of errors exactly.`
const FIRST = `Summarise the conversation above, so that another model can go on with the work.\n\n${FORM}`
const UPDATE = `The conversation above follows what <previous-summary> summarises. Write one summary of both: keep what is still relevant, add what is new, and \
move what is finished to "Done".\n\n${FORM}`

function serializeConversation(messages: Message[]): string {
  return messages.flatMap(linesOf).join('\n\n')
}

function linesOf(message: Message): string[] {
  if (message.role === 'user') return lineOf('User', textOf(message.content))
  if (message.role === 'toolResult')
    return lineOf('Tool result', shortened(textOf(message.content)))
  const { content } = message
  const texts = content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
  const thinking = content.flatMap((part) => (part.type === 'thinking' ? [part.thinking] : []))
  const calls = content.flatMap((part) => {
    if (part.type !== 'toolCall') return []
    const values = Object.entries(part.arguments ?? {})
    const given = values.map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    return [`${part.name}(${given.join(', ')})`]
  })
  return [
    ...lineOf('Assistant thinking', thinking.join('\n')),
    ...lineOf('Assistant', texts.join('\n')),
    ...lineOf('Assistant tool calls', calls.join('; ')),
  ]
}

function lineOf(who: string, text: string): string[] {
  return text === '' ? [] : [`[${who}]: ${text}`]
}

function textOf(content: Message['content']): string {
  if (typeof content === 'string') return content
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('')
}

function shortened(text: string): string {
  if (text.length <= MAX_RESULT) return text
  return `${text.slice(0, MAX_RESULT)}\n\n[... ${text.length - MAX_RESULT} more characters truncated]`
}

/** What a summary is made with. */
interface SummaryOptions extends SimpleStreamOptions {
  customInstructions?: string | undefined
  previousSummary?: string | undefined
  streamFn?: StreamFunction | undefined
}

async function summarize(
  messages: AgentMessages,
  model: Model,
  reserveTokens: number,
  options: SummaryOptions,
): Promise<string> {
  const { customInstructions, previousSummary, streamFn = streamSimple, ...others } = options
  const parts = [
    `<conversation>\n${serializeConversation(convertToLlm(messages))}\n</conversation>`,
  ]
  if (previousSummary) parts.push(`<previous-summary>\n${previousSummary}\n</previous-summary>`)
  parts.push(previousSummary ? UPDATE : FIRST)
  if (customInstructions) parts.push(`Additional focus: ${customInstructions}`)
  const content = [{ type: 'text' as const, text: parts.join('\n\n') }]
  const context = {
    systemPrompt: SYSTEM,
    messages: [{ role: 'user' as const, content, timestamp: Date.now() }],
  }
  const maxTokens = Math.floor(SHARE * reserveTokens)
  const stream = await streamFn(model, context, { ...others, maxTokens })
  const answer = await stream.result()
  if (answer.stopReason === 'error' || answer.stopReason === 'aborted') {
    throw new Error(`Summarization failed: ${answer.errorMessage || 'Unknown error'}`)
  }
  const texts = answer.content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
  const summary = texts.join('\n')
  if (summary.trim() === '') throw new Error('Summarization failed: the summary is empty')
  return summary
}

/**
 * In 0.54 the signal follows the key, later the headers do. Where neither is given, 0.54's order holds.
 */
function generateSummary(
  messages: AgentMessages,
  model: Model,
  reserveTokens: number,
  apiKey: string,
  ...rest: unknown[]
): Promise<string> {
  const isLater = isRecord(rest[0]) || isSignal(rest[1]) || rest.length > 3
  const [headers, signal, customInstructions, previousSummary, level] = (
    isLater ? rest : [undefined, ...rest]
  ) as [Record<string, string>?, AbortSignal?, string?, string?, string?]
  return summarize(messages, model, reserveTokens, {
    apiKey,
    ...(headers && { headers }),
    ...(signal && { signal }),
    ...(isReasoning(model, level) && { reasoning: level }),
    customInstructions,
    previousSummary,
  })
}

function isReasoning({ reasoning }: Model, level: string | undefined): level is 'low' {
  return reasoning && level !== undefined && level !== 'off'
}

function isSignal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'aborted' in value
}

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !isSignal(value)
}

export type { SummaryOptions }
export { generateSummary, serializeConversation, summarize }
