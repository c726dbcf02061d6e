// An entry as a turn of the ledger, in the form that an import reads (docs/jsonl.md). The entry itself is in the metadata of the turn's message, as it is in a
// file; the blocks are what a model and a search see. It must never leave an entry out because its content is unusual.

import type { Block, TokenUsage } from '../../../index.d.ts'
import type { AssistantMessage, Message } from '../../../pi-ai.d.ts'
import type { CompactionEntry, SessionEntry, SessionHeader } from '../../../pi-session.d.ts'
import { engineApiOf } from '../../pi-ai/apis.ts'
import { callBlock, callIdOf, textBlock, thinkingBlock } from '../../pi-ai/signatures.ts'
import { convertToLlm, messageOf } from '../context.ts'

/** The first words of a summary in a context (docs/rules/compaction.md#summary-message). */
const SUMMARY = '[Previous conversation summary]:'
const NO_USAGE: TokenUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  totalTokens: 0,
}
const ENDINGS: Readonly<Record<string, readonly [status: string, stopReason: string]>> = {
  length: ['completed', 'max_tokens'],
  toolUse: ['completed', 'tool_use'],
  aborted: ['aborted', 'aborted'],
  error: ['failed', 'error'],
}
const USUAL = ['completed', 'end_turn'] as const

/** The turn of each entry, by the entry's id. */
type Turns = (entryId: string) => string | undefined

/** The parent of each entry, by the entry's id. */
type Parents = (id: string) => string | null | undefined

/** The first line of a file that the ledger imports. */
function headerLine(ledgerId: string): string {
  const format = { type: 'ledger', format: 'nexus-agent-ledger', version: 1 }
  return line({ ...format, ledgerId, engineVersion: '', exportedAt: 0 })
}

/** The session: it is made by the first import, and not changed by later ones. */
function sessionLine(label: string, header: SessionHeader): string {
  const time = timeOf(header.timestamp)
  return line({
    type: 'session',
    label,
    threadId: null,
    personaId: 'default',
    isSubagent: false,
    origin: 'pi',
    originSessionId: header.id,
    createdAt: time,
    updatedAt: time,
    status: 'active',
    // As a text: its fields keep their order.
    metadata: { pi: JSON.stringify(header), piCwd: header.cwd },
    history: [],
  })
}

/** The turn of an entry, with the rows of its calls. Its parent's turn is in `turns`, its own too. */
function turnLine(
  label: string,
  entry: SessionEntry,
  turns: Turns,
  parentOf: Parents,
  toolCalls: readonly object[],
): string {
  const time = timeOf(entry.timestamp)
  const message = messageIn(entry)
  const answer = message?.role === 'assistant' ? message : undefined
  const [status, stopReason] = ENDINGS[answer?.stopReason ?? ''] ?? USUAL
  const compaction = entry.type === 'compaction' ? compactionOf(entry, turns, parentOf) : undefined
  return line({
    type: 'turn',
    id: turns(entry.id),
    parentTurnId: turnOf(parentIn(entry), turns) ?? null,
    turnType: compaction === undefined ? 'normal' : 'compaction',
    status,
    sessionLabel: label,
    runId: label,
    startedAt: time,
    completedAt: time,
    role: 'unified',
    usage: answer === undefined ? NO_USAGE : usageOf(answer),
    ...(answer !== undefined &&
      isNamed(answer) && { provider: answer.provider, model: answer.model }),
    ...(answer !== undefined && { cost: amount(answer.usage?.cost?.total) }),
    stopReason,
    ...(status === 'failed' && { error: errorOf(answer) }),
    ...(compaction !== undefined && { compaction }),
    messages: [
      {
        id: entry.id,
        ...visible(entry, message),
        sequence: 0,
        createdAt: time,
        metadataJson: JSON.stringify({ pi: { entry } }),
      },
    ],
    ...(toolCalls.length > 0 && { toolCalls }),
  })
}

/** What {@link turnLine} has written for a session, in the order of the turns. Turns of runs have no entry. */
function entriesIn(text: string, label: string): { entry: SessionEntry; turnId: string }[] {
  const found: { entry: SessionEntry; turnId: string }[] = []
  for (const written of text.split('\n')) {
    if (written === '') continue
    const { type, id, sessionLabel, messages = [] } = JSON.parse(written)
    if (type !== 'turn' || sessionLabel !== label) continue
    for (const { metadataJson } of messages) {
      const entry = typeof metadataJson === 'string' && JSON.parse(metadataJson).pi?.entry
      if (entry) found.push({ entry, turnId: id })
    }
  }
  return found.sort((a, b) => (a.turnId < b.turnId ? -1 : 1))
}

/** The message of an entry, as a model reads it; undefined for one that no model sees. */
function messageIn(entry: SessionEntry): Message | undefined {
  try {
    return convertToLlm(messageOf(entry) as Parameters<typeof convertToLlm>[0])[0]
  } catch {
    // A message of an extension in a form of its own: the entry has it, no model does.
    return undefined
  }
}

/** What a model and a search see of an entry; nothing of one whose message has a form of its own. */
function visible(entry: SessionEntry, message: Message | undefined): Record<string, unknown> {
  if (message === undefined) return noted(entry)
  try {
    return shown(message)
  } catch {
    return { role: 'user', blocks: [] }
  }
}

/** Whether an answer has all that says where it comes from. */
function isNamed({ api, provider, model }: AssistantMessage): boolean {
  return [api, provider, model].every((name) => typeof name === 'string')
}

/** What a context has of an entry without a message: a summary, or nothing. */
function noted(entry: SessionEntry): { role: string; blocks: Block[] } {
  if (entry.type !== 'compaction') return { role: 'user', blocks: [] }
  return {
    role: 'user',
    blocks: [{ type: 'text', text: wellFormed(`${SUMMARY}\n\n${entry.summary}`) }],
  }
}

function shown(message: Message): Record<string, unknown> {
  if (message.role === 'user') return { role: 'user', blocks: partsOf(message.content) }
  if (message.role === 'toolResult') {
    const { toolCallId, toolName, content, isError } = message
    const blocks = [
      {
        type: 'tool_result',
        toolCallId: callIdOf(String(toolCallId)),
        toolName: String(toolName),
        content: partsOf(content),
        isError: isError === true,
      },
    ]
    return { role: 'tool', blocks }
  }
  const { api, provider, model, content } = message
  const blocks = (Array.isArray(content) ? content : []).flatMap((part) => answerBlock(part, api))
  const provenance = { provider, api: engineApiOf(api) ?? api, model }
  return { role: 'assistant', blocks, ...(isNamed(message) && { provenance }) }
}

function answerBlock(part: AssistantMessage['content'][number], api: string): Block[] {
  switch (part.type) {
    case 'text':
      return [textBlock({ ...part, text: wellFormed(part.text) }, api)]
    case 'thinking':
      return [thinkingBlock({ ...part, thinking: wellFormed(part.thinking) }, api)]
    case 'toolCall':
      return [callBlock({ ...part, id: String(part.id), name: String(part.name) })]
    default:
      return []
  }
}

function partsOf(content: unknown): Block[] {
  if (typeof content === 'string') return [{ type: 'text', text: wellFormed(content) }]
  if (!Array.isArray(content)) return []
  return content.flatMap((part): Block[] => {
    if (part?.type === 'text') return [{ type: 'text', text: wellFormed(part.text) }]
    if (part?.type !== 'image') return []
    return [{ type: 'image', mimeType: String(part.mimeType), data: String(part.data) }]
  })
}

/** The parent of an entry; none for a file's entry that names itself. */
function parentIn({ id, parentId }: SessionEntry): string | null {
  return parentId === id ? null : parentId
}

/** Which turns a summary stands for. Without a known entry that it keeps it keeps none. */
function compactionOf(
  entry: CompactionEntry,
  turns: Turns,
  parentOf: Parents,
): Record<string, unknown> | undefined {
  const { id, summary, tokensBefore, firstKeptEntryId } = entry
  const parentId = parentIn(entry)
  // A turn without a parent summarises nothing.
  if (turnOf(parentId, turns) === undefined) return undefined
  const own = turns(id)
  const kept = turnOf(firstKeptEntryId, turns)
  const before = kept === undefined ? parentId : (parentOf(firstKeptEntryId) ?? null)
  return {
    summarizedThroughTurnId: turnOf(before, turns) ?? own,
    firstKeptTurnId: kept ?? own,
    turnsSummarized: 0,
    model: 'unknown',
    provider: 'unknown',
    tokensBefore: count(tokensBefore),
    tokensAfter: 0,
    summaryTokens: Math.ceil(summary.length / 4),
    summarizationInputTokens: 0,
    summarizationOutputTokens: 0,
    durationMs: 0,
    trigger: 'context_limit',
    compactionType: 'summary',
    summary: wellFormed(summary),
  }
}

function turnOf(entryId: string | null, turns: Turns): string | undefined {
  return entryId === null ? undefined : turns(entryId)
}

function usageOf({ usage }: AssistantMessage): TokenUsage {
  return {
    inputTokens: count(usage?.input),
    outputTokens: count(usage?.output),
    cachedInputTokens: count(usage?.cacheRead),
    cacheWriteTokens: count(usage?.cacheWrite),
    reasoningTokens: 0,
    totalTokens: count(usage?.totalTokens),
  }
}

function errorOf(answer: AssistantMessage | undefined): Record<string, unknown> {
  const message = wellFormed(answer?.errorMessage ?? 'The model failed.')
  return { kind: 'unknown', message, retryable: false, code: null }
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}

function amount(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null
}

/** Half a character would make the line unreadable; the entry has it as it is. */
function wellFormed(text: unknown): string {
  return String(text ?? '').toWellFormed()
}

function timeOf(timestamp: string): number {
  const time = Date.parse(timestamp)
  return Number.isNaN(time) ? 0 : time
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`
}

export { entriesIn, headerLine, parentIn, sessionLine, turnLine }
