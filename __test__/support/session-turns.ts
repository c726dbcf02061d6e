// Turns of a session with scripted answers, and the texts of their requests. It must never test a rule of its own.

import { expect } from 'vitest'
import type { AgentEngine, ScriptedProvider, ScriptedReply } from '../../index.js'
import { context } from './engine.js'
import { scriptedLedger } from './ledger/scripted-ledger.js'

export const scriptedSession = (replies: ScriptedReply[], path?: string) =>
  scriptedLedger(replies, path === undefined ? {} : { ledger: { path } })

export const userMessage = (content: string) => ({
  currentMessage: { role: 'user' as const, content },
})

/** `role: text` of every message of every request. */
export function requestTexts(provider: ScriptedProvider): string[][] {
  return provider.requests.map((request) =>
    (request.messages as { role: string; blocks: any[] }[]).map(
      ({ role, blocks }) =>
        `${role}: ${blocks.map((block) => block.text ?? block.content?.[0].text ?? block.name).join(' ')}`,
    ),
  )
}

export async function runTurn(
  engine: AgentEngine,
  content: string,
  changes: object = {},
): Promise<string> {
  const result = await engine.run(context({ ...userMessage(content), ...changes })).result
  expect([result.stopReason, result.persisted]).toEqual(['end_turn', true])
  return result.turnId
}
