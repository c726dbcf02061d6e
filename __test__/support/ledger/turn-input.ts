// Turns that a test writes into a ledger itself. They must never depend on a run.

import type { AgentResultInput } from '../../../index.js'

/** The usage of a scripted reply, with every kind of tokens. */
export const fullUsage = {
  inputTokens: 1000,
  outputTokens: 100,
  cachedInputTokens: 2000,
  cacheWriteTokens: 500,
  reasoningTokens: 40,
}

/** The usage of a turn without a request. */
export const noUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  totalTokens: 0,
}

/** A turn with a question and an answer. */
export const plainTurn: AgentResultInput = {
  messages: [
    { id: 'q', role: 'user', content: 'hi', sequence: 0, createdAt: 1 },
    { id: 'a', role: 'assistant', content: 'hello', sequence: 1, createdAt: 2 },
  ],
  toolCalls: [],
  usage: noUsage,
  stopReason: 'end_turn',
  durationMs: 1,
}

/** A turn with a compaction that summarises up to the turn `through`; the turn `firstKept` is the first that is kept. */
export function compactedTurn(
  through: string,
  firstKept: string,
  changes: Partial<AgentResultInput> = {},
): AgentResultInput {
  return {
    messages: [
      { id: 'q', role: 'user', content: 'go on', sequence: 0, createdAt: 1 },
      { id: 'a', role: 'assistant', content: 'gone on', sequence: 1, createdAt: 2 },
    ],
    toolCalls: [],
    usage: noUsage,
    stopReason: 'end_turn',
    durationMs: 1,
    compaction: {
      summary: 'what was said',
      summarizedThroughTurnId: through,
      firstKeptTurnId: firstKept,
      turnsSummarized: 1,
      model: 'test-model',
      provider: 'test',
      tokensBefore: 10,
      tokensAfter: 5,
      summaryTokens: 3,
      summarizationInputTokens: 0,
      summarizationOutputTokens: 0,
      durationMs: 1,
      trigger: 'context_limit',
    },
    ...changes,
  }
}
