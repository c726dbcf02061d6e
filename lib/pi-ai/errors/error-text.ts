// Why a call failed, in a text that pi's own tests of such texts recognise: whether another try may help, and whether the context was too long. It must
// never leave out what the engine says.

import type { AgentResult, ErrorDetail } from '../../../index.d.ts'
import type { AssistantMessage } from '../../../pi-ai.d.ts'
import { isContextOverflow } from './overflow.ts'

/** The words by which both versions of pi's `AgentSession` recognise a failure that passes. */
const PASSING: Partial<Record<ErrorDetail['kind'], string>> = {
  rate_limit: 'Rate limit',
  overloaded: 'Overloaded',
  server_error: 'Server error',
  network: 'Connection error',
  timeout: 'Connection error (timed out)',
}
/** The numbers that it recognises. */
const STATUSES = new Set([429, 500, 502, 503, 504])

function errorText(message: AssistantMessage, { error, stopReason }: AgentResult): string {
  if (stopReason === 'timeout') return withLead('Request timed out', error?.message)
  if (error === undefined) return 'Unknown error'
  const { kind, status, code } = error.detail
  const passing = status !== undefined && STATUSES.has(status) ? undefined : PASSING[kind]
  const isEmpty = kind === 'unknown' && status !== undefined && !code
  const text = isEmpty ? 'status code (no body)' : withLead(passing, error.message)
  const whole = status === undefined ? text : `${status} ${text}`
  if (kind !== 'context_overflow') return whole
  const isSeen = isContextOverflow({ ...message, stopReason: 'error', errorMessage: whole })
  return isSeen ? whole : `prompt is too long: ${whole}`
}

/** The text, after the words that it does not have itself. */
function withLead(lead: string | undefined, text: string | undefined): string {
  if (!text) return lead ?? ''
  return !lead || text.toLowerCase().includes(lead.toLowerCase()) ? text : `${lead}: ${text}`
}

export { errorText }
