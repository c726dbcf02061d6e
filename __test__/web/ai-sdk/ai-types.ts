// What must type-check between `@nexus/agent-engine/ai-sdk` and the types of `ai`, in both versions (`tsc` over this file is the test). It is never run.

import type * as seven from 'ai'
import type * as six from 'ai-v6'
import { fromModelMessages, fromUIMessages, toUIMessageStream } from '../../../ai-sdk.js'
import type { AgentRun, AssembledContext, Message } from '../../../index.js'

declare const run: AgentRun
const stream7: ReadableStream<seven.UIMessageChunk> = toUIMessageStream(run)
const stream6: ReadableStream<six.UIMessageChunk> = toUIMessageStream(run)

type Tools = { look: { input: { x: number }; output: string } }
declare const ui7: seven.UIMessage<{ at: number }, { note: string }, Tools>[]
declare const ui6: six.UIMessage<{ at: number }, { note: string }, Tools>[]
declare const model7: seven.ModelMessage[]
declare const model6: six.ModelMessage[]
const messages: readonly Message[][] = [
  fromUIMessages(ui7),
  fromUIMessages(ui6),
  fromModelMessages(model7),
  fromModelMessages(model6, { part: ({ type }) => (type === 'file' ? 'a file' : undefined) }),
]
const history: AssembledContext['history'] = messages[0]
// @ts-expect-error misspelt
toUIMessageStream(run, { messageID: 'a' })

export { history, stream6, stream7 }
