// The public face of @nexus/agent-engine/pi-agent. It owns the list of exports and holds no logic. Nothing here may load pi.

import type * as declared from '../../pi-agent.d.ts'
import type { EventStream } from '../../pi-ai.d.ts'
import { Agent } from './agent.ts'
import { agentLoop, agentLoopContinue, runAgentLoop, runAgentLoopContinue } from './loop.ts'
import { streamProxy } from './proxy.ts'

export { Agent, agentLoop, agentLoopContinue, runAgentLoop, runAgentLoopContinue, streamProxy }

type Events = EventStream<declared.AgentEvent, declared.AgentMessage[]>
/** Compiles only while each export is what `pi-agent.d.ts` declares. */
export type Face = [
  Conforms<typeof Agent, typeof declared.Agent>,
  Conforms<typeof agentLoop, typeof declared.agentLoop<Events>>,
  Conforms<typeof agentLoopContinue, typeof declared.agentLoopContinue<Events>>,
  Conforms<typeof runAgentLoop, typeof declared.runAgentLoop>,
  Conforms<typeof runAgentLoopContinue, typeof declared.runAgentLoopContinue>,
  Conforms<typeof streamProxy, typeof declared.streamProxy>,
]
type Conforms<Made extends Declared, Declared> = Made
