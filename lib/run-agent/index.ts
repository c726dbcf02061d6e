// The public face of @nexus/agent-engine/run-agent. It owns the list of exports and holds no logic.

import type * as declared from '../../run-agent.d.ts'
import { closeAgents } from './agents.ts'
import { RunAgentFailure, runAgent } from './run-agent.ts'

export { closeAgents, RunAgentFailure, runAgent }

/** Compiles only while each export is what `run-agent.d.ts` declares. */
export type Face = [
  Conforms<typeof closeAgents, typeof declared.closeAgents>,
  Conforms<RunAgentFailure, declared.RunAgentFailure>,
  Conforms<typeof runAgent, typeof declared.runAgent>,
]
type Conforms<Made extends Declared, Declared> = Made
