// Runs whose calls wait for a decision, against a loopback provider. It must never decide on its own.

import { AgentEngine, type AgentEngineOptions, type Approval } from '../../index.js'
import { closing, serving } from './cleanup.js'
import { engineAt } from './engine.js'
import { anthropic } from './servers/anthropic.js'
import { sse, type TestServer } from './servers/server.js'

/** A server whose answers are these calls, one answer each, and then "Done.". */
export function answering(...answers: [string, string, unknown][][]): Promise<TestServer> {
  const handlers = answers.map((calls) => sse(anthropic.calls(...calls)))
  return serving(...handlers, sse(anthropic.answer('Done.')))
}

/** An engine with its ledger at `file`, closed after the test. */
export function engineOn(
  server: TestServer,
  file: string,
  options: AgentEngineOptions = {},
): AgentEngine {
  return closing(engineAt(server.url, { ledger: { path: file }, ...options }))
}

/** An engine in the same ledger that can reach no provider: it only decides. */
export function decider(file: string): AgentEngine {
  return closing(new AgentEngine({ ledger: { path: file } }))
}

/** The approvals that wait, once there are `least`. */
export async function pending(engine: AgentEngine, least = 1): Promise<Approval[]> {
  for (;;) {
    const { items: found } = await engine.approvals({ status: 'pending' })
    if (found.length >= least) return found
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The only approval that waits. */
export async function onlyPending(engine: AgentEngine): Promise<Approval> {
  const [approval, ...others] = await pending(engine)
  if (approval === undefined || others.length > 0) throw new Error('not exactly one')
  return approval
}

/** A tool `pay` that records what it ran with. */
export function paying(ran: unknown[], fields: object = {}) {
  return {
    name: 'pay',
    description: 'Pays.',
    parameters: {
      type: 'object',
      properties: { to: { type: 'string' }, amount: { type: 'number', maximum: 100 } },
      required: ['to', 'amount'],
    },
    permission: 'ask' as const,
    run: (params: unknown) => {
      ran.push(params)
      return 'paid'
    },
    ...fields,
  }
}
