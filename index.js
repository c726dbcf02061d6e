'use strict'
// The public face of @nexus/agent-engine. It owns the list of exports and holds no logic; see `lib/`.

const { AgentEngine } = require('./lib/engine.js')
const { AgentEngineError } = require('./lib/errors.js')
const { salvageLedger } = require('./lib/ledger.js')
const { scriptedProvider } = require('./lib/scripted.js')
const { parseSessionKey } = require('./lib/session-key.js')

module.exports = { AgentEngine, AgentEngineError, parseSessionKey, salvageLedger, scriptedProvider }
