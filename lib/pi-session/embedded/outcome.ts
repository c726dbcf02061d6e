// What an embedded run came to: payloads, usage, the kind of its error. It must never read anything but the messages of the run.

import type { AgentMessage } from '../../../pi-agent.d.ts'
import type { AssistantMessage, Model, Usage } from '../../../pi-ai.d.ts'
import { isContextOverflow } from '../../../pi-ai.js'
import type { EmbeddedPiRunResult } from '../../../pi-session.d.ts'
import { textOf } from './replies.ts'

type Payload = NonNullable<EmbeddedPiRunResult['payloads']>[number]
type Meta = EmbeddedPiRunResult['meta']

/** The texts of the answers, and what failed. */
function payloadsOf(answers: readonly AssistantMessage[]): Payload[] {
  const payloads: Payload[] = answers.flatMap(({ content }) => {
    const text = textOf(content)
    return text.trim() === '' ? [] : [{ text }]
  })
  const last = answers.at(-1)
  if (last?.stopReason === 'error') {
    payloads.push({ text: last.errorMessage ?? 'The model failed.', isError: true })
  }
  return payloads
}

/** The sum of all calls. */
function sumOf(answers: readonly AssistantMessage[]): Meta['agentMeta']['usage'] {
  const sum = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 }
  for (const { usage } of answers) {
    const one = sizesOf(usage)
    for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += one[name]
  }
  return sum
}

function sizesOf({ input, output, cacheRead, cacheWrite, totalTokens: total }: Usage) {
  return { input, output, cacheRead, cacheWrite, total }
}

/** The error that a caller handles, where the last answer failed with one. */
function errorOf(
  answers: readonly AssistantMessage[],
  contextWindow: number,
  compactionFailure: string | undefined,
): Meta['error'] {
  const last = answers.at(-1)
  if (last === undefined || last.stopReason !== 'error') return undefined
  const message = last.errorMessage ?? ''
  if (isContextOverflow(last, contextWindow)) {
    if (compactionFailure === undefined) return { kind: 'context_overflow', message }
    return { kind: 'compaction_failure', message: compactionFailure }
  }
  if (/roles must alternate|incorrect role information/i.test(message)) {
    return { kind: 'role_ordering', message }
  }
  if (/image (?:exceeds|dimensions exceed|too large)|image\.source.*exceed/i.test(message)) {
    return { kind: 'image_size', message }
  }
  return undefined
}

/** Whether the model has refused the context. */
function isOverflow(added: readonly AgentMessage[], { contextWindow }: Model): boolean {
  const last = added.at(-1)
  if (last?.role !== 'assistant' || last.stopReason !== 'error') return false
  return isContextOverflow(last, contextWindow)
}

export { errorOf, isOverflow, payloadsOf, sizesOf, sumOf }
