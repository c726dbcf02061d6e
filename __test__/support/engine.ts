// Engines and contexts for tests: the smallest valid ones, with a test's changes. It must never reach a real provider.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  AgentEngine,
  type AgentEngineOptions,
  type AgentRun,
  type AssembledContext,
  type ScriptedReply,
  type StreamEvent,
  scriptedProvider,
} from '../../index.js'

let runs = 0

/** A complete context for the provider `test`. */
export function context(changes: Partial<AssembledContext> = {}): AssembledContext {
  return {
    systemPrompt: 'You are a test.',
    currentMessage: { role: 'user', content: 'hi' },
    tools: [],
    model: 'test-model',
    provider: 'test',
    tokenBudget: {},
    timeoutMs: 30_000,
    runId: `run-${++runs}`,
    sessionLabel: 'agent:main:main',
    role: 'unified',
    toolsetName: 'test',
    permissionsGranted: [],
    workspacePath: '/tmp',
    ...changes,
  }
}

/** The declaration of the test model. */
export const testModel = {
  provider: 'test',
  id: 'test-model',
  contextWindow: 200_000,
  maxOutputTokens: 8_192,
}

/** An engine with a server at `url` as the provider `test`. */
export function engineAt(
  url: string,
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
): AgentEngine {
  return new AgentEngine({
    providers: { test: { api: 'anthropic-messages', baseUrl: url, ...provider } },
    authProfiles: [
      { id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' },
    ],
    models: [testModel],
    ...options,
  })
}

/** An engine with a scripted provider `test`. */
export function scriptedEngine(replies: ScriptedReply[], options: AgentEngineOptions = {}) {
  const provider = scriptedProvider(replies)
  const engine = new AgentEngine({ providers: { test: provider }, models: [testModel], ...options })
  return { engine, provider }
}

/** Reads a run to its end. */
export async function readAll(run: AgentRun): Promise<StreamEvent[]> {
  const events: StreamEvent[] = []
  for await (const event of run) events.push(event)
  return events
}

/** Waits for the first event of a run, which is delivered once the run is stored: other processes know it from then on. */
export async function begun(run: AgentRun): Promise<void> {
  for await (const _ of run.events()) return
}

/** The text of the token events. */
export function textOf(events: StreamEvent[]): string {
  return events.map((event) => (event.type === 'token' ? event.text : '')).join('')
}

/** A folder that is deleted after the test. */
export function tempDir(): { path: string; file: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'agent-engine-test-'))
  return {
    path,
    file: join(path, 'agent.db'),
    remove: () => rmSync(path, { recursive: true, force: true }),
  }
}
