// The public face of @nexus/agent-engine/pi-session. It owns the list of exports and holds no logic. Nothing here may load pi.

import type * as declared from '../../pi-session.d.ts'
import { findCutPoint, findTurnStartIndex } from './compaction/cut.ts'
import { generateSummary, serializeConversation } from './compaction/summary.ts'
import {
  calculateContextTokens,
  DEFAULT_COMPACTION_SETTINGS,
  estimateTokens,
  getLastAssistantUsage,
  shouldCompact,
} from './compaction/tokens.ts'
import { buildSessionContext, convertToLlm } from './context.ts'
import { runEmbeddedPiAgent } from './embedded/run.ts'
import {
  CURRENT_SESSION_VERSION,
  getLatestCompactionEntry,
  migrateSessionEntries,
  parseSessionEntries,
} from './entries.ts'
import { findMostRecentSession, loadEntriesFromFile } from './files.ts'
import { LedgerSessions } from './ledger/sessions.ts'
import { SessionManager } from './manager.ts'

export {
  buildSessionContext,
  CURRENT_SESSION_VERSION,
  calculateContextTokens,
  convertToLlm,
  DEFAULT_COMPACTION_SETTINGS,
  estimateTokens,
  findCutPoint,
  findMostRecentSession,
  findTurnStartIndex,
  generateSummary,
  getLastAssistantUsage,
  getLatestCompactionEntry,
  LedgerSessions,
  loadEntriesFromFile,
  migrateSessionEntries,
  parseSessionEntries,
  runEmbeddedPiAgent,
  SessionManager,
  serializeConversation,
  shouldCompact,
}

/** Compiles only while each export is what `pi-session.d.ts` declares. */
export type Face = [
  Conforms<typeof calculateContextTokens, typeof declared.calculateContextTokens>,
  Conforms<typeof estimateTokens, typeof declared.estimateTokens>,
  Conforms<typeof findCutPoint, typeof declared.findCutPoint>,
  Conforms<typeof findTurnStartIndex, typeof declared.findTurnStartIndex>,
  Conforms<typeof generateSummary, typeof declared.generateSummary>,
  Conforms<typeof getLastAssistantUsage, typeof declared.getLastAssistantUsage>,
  Conforms<typeof serializeConversation, typeof declared.serializeConversation>,
  Conforms<typeof shouldCompact, typeof declared.shouldCompact>,
  Conforms<typeof buildSessionContext, typeof declared.buildSessionContext>,
  Conforms<typeof convertToLlm, typeof declared.convertToLlm>,
  Conforms<typeof findMostRecentSession, typeof declared.findMostRecentSession>,
  Conforms<typeof getLatestCompactionEntry, typeof declared.getLatestCompactionEntry>,
  Conforms<typeof loadEntriesFromFile, typeof declared.loadEntriesFromFile>,
  Conforms<typeof migrateSessionEntries, typeof declared.migrateSessionEntries>,
  Conforms<typeof parseSessionEntries, typeof declared.parseSessionEntries>,
  Conforms<typeof runEmbeddedPiAgent, typeof declared.runEmbeddedPiAgent>,
]
type Conforms<Made extends Declared, Declared> = Made
