// A process with a broker whose agents start others, against a budget that other processes share. It sends its messages to as many
// sessions at once, and prints how each of their turns has ended. Arguments: file, the model's address, name, the number of
// messages, the budget in US dollars.
import { writeSync } from 'node:fs'
import { AgentEngine, Broker } from '../../../index.js'
import { ledgerAt } from '../ledger-at.mjs'

const [file, url, name, count, maxCost] = process.argv.slice(2)
const print = (line) => writeSync(1, `${line}\n`)

const cost = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, tiers: [] }
const engine = new AgentEngine({
  providers: { test: { api: 'anthropic-messages', baseUrl: url } },
  authProfiles: [{ id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' }],
  models: [
    { provider: 'test', id: 'test-model', contextWindow: 200_000, maxOutputTokens: 1_000, cost },
  ],
  ledger: ledgerAt(file),
  budgets: [{ per: 'day', maxCost: Number(maxCost) }],
})
const model = { model: 'test-model', provider: 'test' }
const broker = new Broker(engine, {
  agents: { main: { ...model, systemPrompt: 'manager', subagents: {} } },
  lanes: { main: 64, worker: 64 },
})
const endings = Array.from({ length: Number(count) }, async (_, number) => {
  const to = { session: `${name}-${number}` }
  const { result } = broker.execute({ to, message: `tree ${number}` })
  const { stopReason, error } = await result
  print(`${stopReason} ${error?.detail.kind ?? ''}`)
})
await Promise.all(endings)
await broker.close()
await engine.close()
print('ended')
