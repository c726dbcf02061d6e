// A worker with an engine of its own, to which it gives the histories in its data, one after the other.
// It posts the messages of each request as JSON.

import { parentPort, workerData } from 'node:worker_threads'
import { AgentEngine, scriptedProvider } from '../../../index.js'

const provider = scriptedProvider(workerData.map(() => 'fine'))
const engine = new AgentEngine({
  providers: { test: provider },
  models: [{ provider: 'test', id: 'test-model', contextWindow: 200_000, maxOutputTokens: 8_192 }],
})
for (const [number, history] of workerData.entries()) {
  await engine.run({
    systemPrompt: 'You are a test.',
    currentMessage: { role: 'user', content: 'hi' },
    history,
    tools: [],
    model: 'test-model',
    provider: 'test',
    tokenBudget: {},
    timeoutMs: 30_000,
    runId: `worker-${number}`,
    sessionLabel: 'agent:main:main',
    role: 'unified',
    toolsetName: 'test',
    permissionsGranted: [],
    workspacePath: '/tmp',
  }).result
}
parentPort.postMessage(provider.requests.map((request) => JSON.stringify(request.messages)))
await engine.close()
