// Steps of a reply by name. It must never check what the engine checks itself.

import type {
  FailureKind,
  ScriptedCall,
  ScriptedError,
  ScriptedStep,
  ScriptedUsage,
} from '../../index.d.ts'

/** The kinds that the engine retries with the same key. */
const RETRIED: readonly FailureKind[] = ['overloaded', 'server_error', 'timeout', 'network']

/** Shown reasoning. */
function reasoning(text: string, signature?: string): ScriptedStep {
  return signature === undefined ? { thinking: text } : { thinking: text, signature }
}

/** A call of a tool. */
function toolCall(
  name: string,
  params?: unknown,
  options: Pick<ScriptedCall, 'id' | 'argumentsText'> = {},
): ScriptedStep {
  return { toolCall: { ...options, name, ...(params !== undefined && { arguments: params }) } }
}

/** Reported token counts. */
function usage(tokens: ScriptedUsage): ScriptedStep {
  return { usage: tokens }
}

/** A failed call of the model. A retry comes after 1 ms, so that no test waits for a real backoff. */
function failure(kind: FailureKind, details: Omit<ScriptedError, 'kind'> = {}): ScriptedStep {
  const wait = RETRIED.includes(kind) ? { retryAfterMs: 1 } : {}
  return { error: { ...wait, ...details, kind } }
}

/** A lost connection. */
function disconnect(): ScriptedStep {
  return { truncate: true }
}

export { disconnect, failure, reasoning, toolCall, usage }
