// pi's own types and the package's: pi's tools and messages type-check unchanged (`tsc -p .` over this file is the test). It must
// never be run. It is separate from types.test-d.ts, because pi's dependencies do not pass `skipLibCheck: false`.

import type { AgentTool as PiAgentTool } from '@mariozechner/pi-agent-core'
import type { Message as PiAiMessage, Tool as PiAiTool } from '@mariozechner/pi-ai'
import { createCodingTools } from '@mariozechner/pi-coding-agent'
import { Type } from '@sinclair/typebox'
import type { AgentResult, AgentTool, AssembledContext, Message } from '../../index.js'

const parameters = Type.Object({ path: Type.String() })

declare const piTool: PiAgentTool
declare const piTypedTool: PiAgentTool<typeof parameters, { lines: number }>
declare const definition: PiAiTool
declare const piHistory: PiAiMessage[]
declare const readonlyHistory: readonly Readonly<PiAiMessage>[]
declare const result: AgentResult
declare const context: AssembledContext

piTool satisfies AgentTool
piTypedTool satisfies AgentTool
createCodingTools('/') satisfies AgentTool[]
;[piTool, piTypedTool, { name: 'plain', run: () => 'ours' }] satisfies AgentTool[]
;({ ...piTypedTool, executionMode: 'parallel', timeoutMs: 5 }) satisfies AgentTool
// A definition alone is a tool that runs elsewhere.
definition satisfies AgentTool

piHistory satisfies Message[]
readonlyHistory satisfies readonly Message[]
;({
  ...context,
  tools: createCodingTools('/'),
  history: [...piHistory, ...result.messages, { role: 'user', content: 'x' }],
}) satisfies AssembledContext
