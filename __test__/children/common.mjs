// Shared by the child scripts: a scripted engine and a context. It must never end a process by itself.

import { threadId } from 'node:worker_threads'
import { AgentEngine, scriptedProvider } from '../../index.js'

let runs = 0

export function context(changes = {}) {
  return {
    systemPrompt: 'You are a test.',
    currentMessage: { role: 'user', content: 'hi' },
    tools: [],
    model: 'test-model',
    provider: 'test',
    timeoutMs: 60_000,
    runId: `run-${process.pid}-${threadId}-${++runs}`,
    sessionLabel: 'agent:main:main',
    role: 'unified',
    toolsetName: 'test',
    permissionsGranted: [],
    workspacePath: '/tmp',
    ...changes,
  }
}

export function scripted(replies, options = {}, script = {}) {
  const provider = scriptedProvider(replies, script)
  return { provider, engine: new AgentEngine({ providers: { test: provider }, ...options }) }
}
