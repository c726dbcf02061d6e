// The public face of @nexus/agent-engine. It owns the list of exports and holds no logic; see the files beside it.

import { AgentEngine } from './engine.js'
import { AgentEngineError } from './errors.js'
import { salvageLedger } from './ledger.js'
import { scriptedProvider } from './scripted.js'
import { parseSessionKey } from './session-key.js'

export { AgentEngine, AgentEngineError, parseSessionKey, salvageLedger, scriptedProvider }
