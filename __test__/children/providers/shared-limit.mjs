// One call that learns a limit, then many in parallel, over sessions of their own. Prints the number of attempts of each.
// Arguments: file, URL, the name of the process, the number of calls.
import { writeSync } from 'node:fs'
import { AgentEngine } from '../../../index.js'
import { context } from '../common.mjs'

const [file, baseUrl, name, calls] = process.argv.slice(2)
const engine = new AgentEngine({
  ledger: { path: file },
  providers: { test: { api: 'openai-chat', baseUrl } },
  authProfiles: [{ id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' }],
  models: [{ provider: 'test', id: 'test-model', contextWindow: 24_000 }],
})
const run = async (at) => {
  const sessionLabel = `agent:main:${name}:${at}`
  const { stopReason, attempts } = await engine.run(context({ sessionLabel })).result
  return `${stopReason} ${attempts.length}`
}
const outcomes = [await run('first')]
outcomes.push(...(await Promise.all(Array.from({ length: Number(calls) }, (_, at) => run(at)))))
writeSync(1, JSON.stringify(outcomes))
await engine.close()
