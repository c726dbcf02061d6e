// Runs turns on a ledger that another process has written to, and prints the breaks of the prompt cache of each, a line
// each. Arguments: file, URL, the contexts' changes as JSON.
import { writeSync } from 'node:fs'
import { AgentEngine } from '../../../index.js'
import { context } from '../common.mjs'

const [file, baseUrl, changes] = process.argv.slice(2)
const engine = new AgentEngine({
  ledger: { path: file },
  providers: { test: { api: 'anthropic-messages', baseUrl } },
  authProfiles: [{ id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' }],
  models: [{ provider: 'test', id: 'test-model', contextWindow: 24_000 }],
})
for (const fields of JSON.parse(changes)) {
  const { cacheBreaks } = await engine.run(context({ timeoutMs: 20_000, ...fields })).result
  writeSync(1, `${JSON.stringify(cacheBreaks)}\n`)
}
await engine.close()
