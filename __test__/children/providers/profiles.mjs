// Runs turns on a ledger whose auth profiles other processes use too. Arguments: file, URL, session labels as JSON. Waits for a
// line on standard input before each, and prints each result's attempts.
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { AgentEngine } from '../../../index.js'
import { context } from '../common.mjs'

const [file, baseUrl, labels] = process.argv.slice(2)
const engine = new AgentEngine({
  ledger: { path: file },
  providers: { test: { api: 'anthropic-messages', baseUrl } },
  authProfiles: ['a', 'b'].map((id) => ({
    id,
    provider: 'test',
    key: `sk-test-canary-${id}-0123456789`,
  })),
  models: [{ provider: 'test', id: 'm1', contextWindow: 100_000 }],
})
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
writeSync(1, 'ready\n')
for (const sessionLabel of JSON.parse(labels)) {
  await lines.next()
  const result = await engine.run(context({ model: 'm1', sessionLabel, timeoutMs: 20_000 })).result
  const requested = result.attempts.map(({ profileId, ok }) => `${profileId} ${ok}`)
  writeSync(1, `${sessionLabel}: ${requested.join(', ')} ${result.stopReason}\n`)
}
await engine.close()
process.exit(0)
