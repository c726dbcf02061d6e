// Whether an answer failed because its context was too long. It must never read an answer's text: only its error and its usage.

import type { AssistantMessage } from '../../../pi-ai.d.ts'

/** What providers write where the context is too long. */
const OVERFLOW: readonly RegExp[] = [
  /prompt is too long/i,
  /request_too_large/i,
  /input is too long for requested model/i,
  /exceeds the context window/i,
  /input token count.*exceeds the maximum/i,
  /maximum prompt length is \d+/i,
  /reduce the length of the messages/i,
  /maximum context length is \d+ tokens/i,
  /exceeds the limit of \d+ (?:tokens|prompt)/i,
  /token count.*exceeds the limit of \d+/i,
  /exceeds the available context size/i,
  /greater than the context length/i,
  /context window exceeds limit/i,
  /exceeded model token limit/i,
  /too large for model with \d+ maximum context length/i,
  /model_context_window_exceeded/i,
  /prompt too long; exceeded (?:max )?context length/i,
  /context[_ ]length[_ ]exceeded/i,
  /too many tokens/i,
  /token limit exceeded/i,
  /^4(?:00|13)\s*(?:status code)?\s*\(no body\)/i,
]
/** What they write where it is a limit of the rate. */
const THROTTLED: readonly RegExp[] = [
  /^(?:Throttling error|Service unavailable):/i,
  /throttl/i,
  /rate.?limit/i,
  /too many requests/i,
  /tokens per min/i,
]
/** The share of the window from which a truncated prompt counts as one that filled it. */
const FILLED = 0.99

/** Whether the answer's context was too long; with the window also where the provider did not say so. */
function isContextOverflow(message: AssistantMessage, contextWindow?: number): boolean {
  const { stopReason, errorMessage, usage } = message
  if (stopReason === 'error' && errorMessage) {
    if (THROTTLED.some((pattern) => pattern.test(errorMessage))) return false
    return OVERFLOW.some((pattern) => pattern.test(errorMessage))
  }
  if (!contextWindow) return false
  const input = usage.input + usage.cacheRead
  if (stopReason === 'stop') return input > contextWindow
  return stopReason === 'length' && usage.output === 0 && input >= contextWindow * FILLED
}

/** The patterns of {@link isContextOverflow}. */
function getOverflowPatterns(): RegExp[] {
  return [...OVERFLOW]
}

export { getOverflowPatterns, isContextOverflow }
