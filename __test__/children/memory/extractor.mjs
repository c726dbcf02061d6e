// A process whose engine remembers: ends what another one has left, runs a turn in each of some sessions, has a model extract the facts of all, and ends; the chosen kill
// may end it before. Arguments: file, URL of the model, the sessions.
import { AgentEngine } from '../../../index.js'
import { ledgerAt } from '../ledger-at.mjs'

const [file, url, ...sessions] = process.argv.slice(2)
const engine = new AgentEngine({
  providers: { o: { api: 'openai-chat', baseUrl: `${url}/v1` } },
  authProfiles: [{ id: 'k', provider: 'o', type: 'api_key', key: 'key-of-a-test-0123456789' }],
  models: [{ provider: 'o', id: 'm', contextWindow: 100_000 }],
  defaults: { provider: 'o', model: 'm' },
  ledger: ledgerAt(file),
  memory: { facts: { extract: { provider: 'o', model: 'm' } } },
})
for (const { turnId } of await engine.recover()) await engine.discard(turnId)
for (const session of sessions) await engine.run(`I am in ${session}.`, { session }).result
// A search indexes what is pending.
for (let left = 1; left > 0; ) {
  await engine.memory.search('x', { all: true })
  const { pendingTurns, extraction } = await engine.memory.stats()
  left = pendingTurns + (extraction?.pending ?? 0)
}
await engine.close()
