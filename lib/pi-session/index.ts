// The public face of @nexus/agent-engine/pi-session. It owns the list of exports and holds no logic. Nothing here may load pi.

import type * as declared from '../../pi-session.d.ts'
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
  convertToLlm,
  findMostRecentSession,
  getLatestCompactionEntry,
  LedgerSessions,
  loadEntriesFromFile,
  migrateSessionEntries,
  parseSessionEntries,
  runEmbeddedPiAgent,
  SessionManager,
}

/** Compiles only while each export is what `pi-session.d.ts` declares. */
export type Face = [
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
