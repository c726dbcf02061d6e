// What must type-check of `@nexus/agent-engine/testing`, and what must not (`tsc --strict` over this file is the test). It is never run.

import { AgentEngine, type AgentResult, type AgentRun, type StreamEvent } from '../../index.js'
import {
  type CollectedRun,
  collect,
  failure,
  gate,
  reasoning,
  scriptedProvider,
  scrub,
  toolCall,
  transcript,
} from '../../testing.js'

/** Compiles only if the two types are equal. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const is = <Yes extends true>(): Yes => true as Yes

const door = gate()
const model = scriptedProvider(['a', [reasoning('b'), 'c', door, toolCall('d')], { text: 'e' }])
new AgentEngine({ providers: { test: model } })
// @ts-expect-error not a step
scriptedProvider([[5]])
// @ts-expect-error no such kind
failure('tired')
// @ts-expect-error the kind is the first argument
failure('auth', { kind: 'auth' })

const lines: string[] = transcript(model.request(0).messages)

declare const run: AgentRun
is<Same<ReturnType<typeof collect>, Promise<CollectedRun>>>()
collect(run)

declare const given: { result: AgentResult; events: StreamEvent[] }
const scrubbed = scrub(given)
is<Same<typeof scrubbed.result.durationMs, '<ms>'>>()
is<Same<typeof scrubbed.result.turnId, string>>()
is<Same<typeof scrubbed.result.usage.inputTokens, number>>()
is<Same<(typeof scrubbed.result.toolCalls)[number]['completedAt'], '<time>' | undefined>>()
is<Same<(typeof scrubbed.events)[number]['type'], StreamEvent['type']>>()

export { lines }
