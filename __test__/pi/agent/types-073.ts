// What must type-check between `/pi-agent` and pi 0.73's own declarations (`tsc` over this file is the test). It is never run.

import type * as pi from 'pi-agent-core-073'
import { createCodingTools } from 'pi-coding-agent-073'
import * as ours from '../../../pi-agent.js'
import { type EventStream, streamSimple } from '../../../pi-ai.js'

/** Each is assignable to the other. */
type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : never) : never
const same = <One, Other>(_: Same<One, Other>) => {}

same<pi.AgentTool, ours.AgentTool>(true)
same<pi.AgentToolResult<unknown>, ours.AgentToolResult<unknown>>(true)
same<pi.AgentContext, ours.AgentContext>(true)
same<pi.AgentEvent, ours.AgentEvent>(true)
same<pi.AgentMessage, ours.AgentMessage>(true)
same<pi.AgentLoopConfig, ours.AgentLoopConfig>(true)
same<pi.ThinkingLevel, ours.ThinkingLevel>(true)

declare const theirs: typeof pi
declare const options: pi.AgentOptions
declare const tool: pi.AgentTool

// The options, tools and listeners of an agent of pi are ours too.
const agent = new ours.Agent({ ...options, semantics: '0.73' })
agent.setTools(createCodingTools('/'))
agent.state.tools = [tool]
agent.subscribe((event: pi.AgentEvent) => void event)
agent.streamFn = streamSimple
options.streamFn = streamSimple
agent.prompt([{ role: 'user', content: 'hi', timestamp: 0 }]) satisfies Promise<void>
agent.state satisfies Omit<pi.AgentState, never>
ours.agentLoop satisfies typeof pi.agentLoop
ours.agentLoopContinue satisfies typeof pi.agentLoopContinue
type Loop = Parameters<typeof theirs.agentLoop>
type Events = EventStream<ours.AgentEvent, ours.AgentMessage[]>
ours.agentLoop satisfies (...call: Loop) => Events
theirs.agentLoop satisfies (...call: Loop) => Events
theirs.agentLoopContinue satisfies (...call: Parameters<typeof theirs.agentLoopContinue>) => Events
ours.runAgentLoop satisfies (
  ...call: Parameters<typeof ours.runAgentLoop>
) => Promise<pi.AgentMessage[]>

// An agent where pi's is expected, as far as it is public: the classes have private members, which TypeScript compares by their declaration. The other way
// round an agent of pi's lacks what the other version has, so only its methods are compared.
type Public<Of> = { [Name in keyof Of]: Of[Name] }
type Methods<Of> = {
  [Name in keyof Of as Of[Name] extends (...call: never) => unknown ? Name : never]: Of[Name]
}
agent satisfies Public<pi.Agent>
type Theirs = Methods<Required<Public<pi.Agent>>>
same<Theirs, Pick<Required<Public<ours.Agent>>, keyof Theirs>>(true)
