// A process with a broker whose agent has a budget, and whose engine has two: its one message is under way until it is killed.
// Arguments: file, the model's address.
import { AgentEngine, Broker } from '../../../index.js'

const [file, url] = process.argv.slice(2)
const engine = new AgentEngine({
  providers: { test: { api: 'anthropic-messages', baseUrl: url } },
  authProfiles: [{ id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' }],
  models: [{ provider: 'test', id: 'test-model', contextWindow: 200_000, maxOutputTokens: 8_192 }],
  ledger: { path: file },
  budgets: [
    { per: 'run', maxTokens: 1_000_000 },
    { per: 'tree', maxTokens: 1_000_000 },
  ],
})
const broker = new Broker(engine, {
  agents: { main: { model: 'test-model', provider: 'test', budgets: { maxTokens: 1_000_000 } } },
})
await broker.send({ to: { session: 'main' }, message: 'Hi' })
