// Runs a turn at each line of standard input, on a ledger and at a server, and prints the outcome and the windows of its
// profiles, by this process's own wall clock. Arguments: file, URL, and a JSON of engine options.
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { AgentEngine } from '../../../index.js'
import { context } from '../common.mjs'

const [file, baseUrl, options = '{}'] = process.argv.slice(2)
const engine = new AgentEngine({
  ...(file === '-' ? {} : { ledger: { path: file } }),
  providers: { test: { api: 'anthropic-messages', baseUrl } },
  authProfiles: [{ id: 'a', provider: 'test', key: 'sk-test-canary-a-0123456789' }],
  models: [{ provider: 'test', id: 'm1', contextWindow: 100_000, maxOutputTokens: 1_000 }],
  ...JSON.parse(options),
})
writeSync(1, 'ready\n')
let runs = 0
for await (const line of createInterface({ input: process.stdin })) {
  // Too short for any window: a cooldown is an error immediately.
  const run = engine.run(
    context({ model: 'm1', sessionLabel: `${line}-${++runs}`, timeoutMs: 3_000 }),
  )
  const { stopReason, error, persisted } = await run.result
  const windows = (await engine.profiles()).flatMap((profile) => profile.windows)
  const lengths = windows.map(({ from, until }) => [until - from, until - Date.now()])
  const outcome = {
    year: new Date().getUTCFullYear(),
    stopReason,
    code: error?.detail.code,
    persisted,
  }
  writeSync(
    1,
    `${line} ${JSON.stringify({ ...outcome, retryAfterMs: error?.detail.retryAfterMs, lengths })}\n`,
  )
}
await engine.close()
process.exit(0)
