// The public API of @nexus/agent-engine. It owns the list of exports and must never hold logic.

import type * as declared from '../index.d.ts'
import { Broker } from './broker/broker.ts'
import {
  buildSessionKey,
  buildSystemPrompt,
  listAgentIds,
  resolveAgentConfig,
  resolveAgentModel,
  resolveSessionAgentId,
} from './broker/decisions.ts'
import { AgentEngine } from './engine/engine.ts'
import { scriptedProvider } from './engine/scripted-provider.ts'
import { parseSessionKey } from './engine/session-key.ts'
import { salvageLedger } from './ledger/ledger.ts'
import { createMcpOAuth } from './mcp/oauth.ts'
import { createMemoryTools } from './memory/tools.ts'
import { createCodingTools } from './tools/coding/coding-tools.ts'
import { applyPatch } from './tools/patch.ts'
import { tool } from './tools/tool.ts'
import { AgentEngineError } from './values/errors.ts'

export {
  AgentEngine,
  AgentEngineError,
  applyPatch,
  Broker,
  buildSessionKey,
  buildSystemPrompt,
  createCodingTools,
  createMcpOAuth,
  createMemoryTools,
  listAgentIds,
  parseSessionKey,
  resolveAgentConfig,
  resolveAgentModel,
  resolveSessionAgentId,
  salvageLedger,
  scriptedProvider,
  tool,
}

/** Compiles only while each export is what `index.d.ts` declares. The error's constructor is not for callers. */
export type Face = [
  Conforms<typeof AgentEngine, typeof declared.AgentEngine>,
  Conforms<AgentEngineError, declared.AgentEngineError>,
  Conforms<typeof applyPatch, typeof declared.applyPatch>,
  Conforms<typeof Broker, typeof declared.Broker>,
  Conforms<typeof buildSessionKey, typeof declared.buildSessionKey>,
  Conforms<typeof buildSystemPrompt, typeof declared.buildSystemPrompt>,
  Conforms<typeof createCodingTools, typeof declared.createCodingTools>,
  Conforms<typeof createMcpOAuth, typeof declared.createMcpOAuth>,
  Conforms<typeof createMemoryTools, typeof declared.createMemoryTools>,
  Conforms<typeof listAgentIds, typeof declared.listAgentIds>,
  Conforms<typeof resolveAgentConfig, typeof declared.resolveAgentConfig>,
  Conforms<typeof resolveAgentModel, typeof declared.resolveAgentModel>,
  Conforms<typeof resolveSessionAgentId, typeof declared.resolveSessionAgentId>,
  Conforms<typeof parseSessionKey, typeof declared.parseSessionKey>,
  Conforms<typeof salvageLedger, typeof declared.salvageLedger>,
  Conforms<typeof scriptedProvider, typeof declared.scriptedProvider>,
  Conforms<typeof tool, typeof declared.tool>,
]
type Conforms<Made extends Declared, Declared> = Made
