// The public face of @nexus/agent-engine. It owns the list of exports and holds no logic; see the files beside it.

import { AgentEngine } from './engine/engine.js'
import { scriptedProvider } from './engine/scripted-provider.js'
import { parseSessionKey } from './engine/session-key.js'
import { salvageLedger } from './ledger/ledger.js'
import { AgentEngineError } from './values/errors.js'

export { AgentEngine, AgentEngineError, parseSessionKey, salvageLedger, scriptedProvider }
