// One call of a model. Argument: the address of its server. It must never name a proxy itself.
import { AgentEngine } from '../../../index.js'

const [baseUrl] = process.argv.slice(2)
const engine = new AgentEngine({
  providers: { test: { api: 'openai-chat', baseUrl } },
  models: [{ provider: 'test', id: 'm', contextWindow: 100_000 }],
})
await engine.run('hi', { model: 'test/m' }).result
await engine.close()
