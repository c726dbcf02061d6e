// A scripted engine with a ledger in a folder of its own; both are closed and deleted after the test. It must never open a socket.

import type { AgentEngineOptions, Ledger, ScriptedReply } from '../../../index.js'
import { closing, folder } from '../cleanup.js'
import { scriptedEngine } from '../engine.js'

/** An engine with a scripted provider, its ledger and the ledger's file. */
export function scriptedLedger(replies: ScriptedReply[] = [], options: AgentEngineOptions = {}) {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(replies, { ledger: { path: file }, ...options })
  closing(engine)
  return {
    engine,
    provider,
    file,
    get ledger(): Ledger {
      return engine.ledger
    },
  }
}

/** A reply that thinks, with a signature, and calls the tool `add`. */
export const thinkingCall: ScriptedReply = {
  thinking: 'hm',
  signature: 'c2ln',
  text: 'asking',
  toolCalls: [{ id: 'c', name: 'add', arguments: { a: 1 } }],
}
