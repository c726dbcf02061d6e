// A host that runs turns with two keys, closes the engine of the first and keeps the second. Arguments: the server, the ledger's file, the file of the
// heap snapshot. The keys come masked, by standard input, so that this process has no copy of them but those of its strings and the engine. It prints
// `ready` and waits for the end of its input. Needs --expose-gc.

import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { writeHeapSnapshot } from 'node:v8'
import { AgentEngine } from '../../../index.js'
import { context } from '../common.mjs'

const [baseUrl, path, snapshot] = process.argv.slice(2)
const MASK = 0x80
const kept = []

const unmasked = (hex) => String.fromCharCode(...Buffer.from(hex, 'hex').map((byte) => byte ^ MASK))

/** One turn with a key that is an option, or that a function gives. */
async function turnWith(masked, kind, ledger) {
  const key = kind === 'function' ? () => unmasked(masked) : unmasked(masked)
  const engine = new AgentEngine({
    providers: { test: { api: 'anthropic-messages', baseUrl } },
    authProfiles: [{ id: 'p', provider: 'test', key }],
    models: [{ provider: 'test', id: 'test-model', contextWindow: 90_000, maxOutputTokens: 1_000 }],
    ledger: { path: ledger },
  })
  const run = engine.run(context({ runId: kind, sessionLabel: `agent:main:${kind}` }))
  for await (const event of run) if (event.type === 'token') break
  const { stopReason } = await run.result
  if (stopReason !== 'end_turn' && stopReason !== 'aborted') throw new Error(stopReason)
  return engine
}

const [input] = await once(process.stdin, 'data')
const [asText, asFunction, control] = `${input}`.trim().split(' ')
for (const [masked, kind] of [
  [asText, 'text'],
  [asFunction, 'function'],
]) {
  const engine = await turnWith(masked, kind, path)
  await engine.close()
  // A host may hold what is closed.
  kept.push(engine)
}
const open = await turnWith(control, 'kept', `${path}.kept`)
kept.push(unmasked(control))

// Optimised code and inline caches may hold what was used last.
for (let n = 0; n < 10; n++) {
  await turn()
  globalThis.gc()
}
writeHeapSnapshot(snapshot)
console.log('ready')
process.stdin.resume()
await once(process.stdin, 'end')
await open.close()
