// An engine that counts, runs and summarises with a script, so that its log on stderr can be read.
// Argument: the ledger's file. It must never print anything itself.
import { AgentEngine, scriptedProvider } from '../../../index.js'
import { context } from '../common.mjs'

const [file] = process.argv.slice(2)
const long = 'lorem ipsum '.repeat(140)
const engine = new AgentEngine({
  ledger: { path: file },
  providers: {
    test: scriptedProvider(['Noted.'], { repeat: true }),
    small: scriptedProvider([{ error: { kind: 'format', message: 'no' } }]),
  },
  models: [
    { provider: 'test', id: 'test-model', contextWindow: 4_000, maxOutputTokens: 1_000 },
    { provider: 'small', id: 'tiny', contextWindow: 100_000 },
  ],
  contextGuard: { minWindow: 1_000 },
  compaction: { provider: 'small', model: 'tiny' },
})
const requested = () => context({ currentMessage: { role: 'user', content: long } })
for (let n = 0; n < 5; n++) await engine.run(requested()).result
await engine.compact('agent:main:main').catch(() => {})
await engine.countTokens(requested(), { exact: true })
await engine.close()
