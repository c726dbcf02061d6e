// Our engine as the shared harness drives it: the adapters beside this file choose what is stored and how it is read.
// It must use the public API only, and no setting that a user does not have.
// It is copied into the harness before a run, so it imports nothing of this project but what NEXUS_ENGINE names.

import fs from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'

/** The description that every adapter of ours gives of itself. */
export const info = { kind: 'engine', wires: ['anthropic', 'chat', 'responses'], packages: null }

/** Read once: Node makes eighteen system calls for it. */
const WORKSPACE = os.tmpdir()
const PROVIDERS = { anthropic: 'anthropic', chat: 'openai', responses: 'responses' }
/** The longest history (20,000 messages) is about a million tokens: the window must not be what is measured. */
const WINDOW = { contextWindow: 10_000_000, maxOutputTokens: 32_000 }

/**
 * The harness's engine contract over `AgentEngine`.
 * `ledger`: write every run to a SQLite file, with the defaults or with these options. `reading`: `iterate` (for await) or `callbacks`.
 */
export function makeNexus({ baseURL, wire, params }, { ledger, reading }) {
  const { AgentEngine } = createRequire(import.meta.url)(process.env.NEXUS_ENGINE)
  const provider = PROVIDERS[wire]
  const engine = new AgentEngine({
    ...(ledger ? { ledger: { path: ledgerPath(), ...(ledger === true ? {} : ledger) } } : {}),
    providers: {
      anthropic: { api: 'anthropic-messages', baseUrl: baseURL },
      openai: { api: 'openai-chat', baseUrl: `${baseURL}/v1` },
      responses: { api: 'openai-responses', baseUrl: `${baseURL}/v1` },
    },
    authProfiles: [
      { id: 'bench-anthropic', provider: 'anthropic', type: 'api_key', key: 'k' },
      { id: 'bench-openai', provider: 'openai', type: 'api_key', key: 'k' },
      { id: 'bench-responses', provider: 'responses', type: 'api_key', key: 'k' },
    ],
    models: modelsOf(params).map((id) => ({ provider, id, ...WINDOW })),
  })
  const drive = reading === 'callbacks' ? driveCallbacks : driveIterator
  let runs = 0

  function contextOf({ model, system, prompt, tools = [], maxRounds }) {
    runs += 1
    return {
      systemPrompt: system,
      currentMessage: { role: 'user', content: prompt },
      tools: tools.map(agentTool),
      model,
      provider,
      maxResponseTokens: WINDOW.maxOutputTokens,
      tokenBudget: { modelLimit: WINDOW.contextWindow },
      timeoutMs: 600_000,
      ...(maxRounds ? { maxIterations: maxRounds } : {}),
      runId: `bench-${process.pid}-${runs}`,
      // A session of its own, as the peers begin each call with an empty conversation.
      sessionLabel: `bench:${process.pid}:${runs}`,
      parentTurnId: null,
      role: 'unified',
      toolsetName: 'bench',
      permissionsGranted: [],
      workspacePath: WORKSPACE,
    }
  }

  async function run(request) {
    const context = contextOf(request)
    const { history } = request
    if (history?.label !== undefined) {
      // The ledger has the history: it is never passed to JavaScript.
      await history.imported
      context.sessionLabel = history.label
    } else if (history?.length) {
      context.history = history
    } else if (!ledger) {
      context.history = []
    }
    const result = await drive(engine, context, request.onDelta)
    if (result.stopReason !== 'end_turn') {
      throw new Error(`stopped by ${result.stopReason}: ${result.error?.message ?? ''}`)
    }
    if (ledger && result.persisted === false) {
      throw new Error(`not persisted: ${result.persistError?.message ?? 'no reason given'}`)
    }
    const last = result.messages.findLast((message) => message.role === 'assistant')
    const toolCalls = result.toolCalls.filter((call) => call.status === 'completed').length
    return { text: last.content, toolCalls }
  }

  return {
    /** Created once and untimed, because the peers convert their history there. */
    prepare(history) {
      const messages = history.map(({ role, text }) => ({ role, content: text }))
      if (!ledger) return messages
      const label = `bench:history:${process.pid}:${messages.length}:${Date.now()}`
      const base = contextOf({ model: modelsOf(params)[0], system: 'You are a test.', prompt: '-' })
      const imported = importHistory(engine, { ...base, sessionLabel: label }, messages)
      // The harness does not wait here: the first run waits, in its warm-up.
      imported.catch(() => {})
      return { label, imported, length: messages.length }
    },
    stream: run,
    agent: run,
  }
}

/** The models of a workload; their names define what the server sends (see the harness's worker). */
function modelsOf({ workload, ...set }) {
  const { n, b = 4, c = 1, rate = 50, rounds = 25, par = 1, argbytes = 0 } = set
  const names = {
    check: ['n300-b5-u1', 'n7-t3-p2', 'n2'],
    w1: [`n${n ?? 20_000}-b${b}-c${c}`],
    w2: ['n1'],
    w3: [`n4-t${rounds}-p${par}-a${argbytes}-c1`],
    w4: ['n50', `n${n ?? 200}-b4-r${rate}`],
    w5: ['n1'],
  }
  return (names[workload] ?? ['n1']).map((name) => `claude-mock-${name}`)
}

function agentTool({ name, description, schema, execute }) {
  return {
    name,
    label: name,
    description,
    parameters: schema,
    // The peers run the calls of one message in parallel too.
    executionMode: 'parallel',
    async execute(_toolCallId, params) {
      return { content: [{ type: 'text', text: await execute(params) }], details: {} }
    },
  }
}

async function driveIterator(engine, context, onDelta) {
  const run = engine.run(context)
  for await (const event of run) {
    if (event.type === 'token') onDelta?.(event.text)
  }
  return run.result
}

function driveCallbacks(engine, context, onDelta) {
  return engine.run(context, { onPartialReply: ({ text }) => onDelta?.(text) }).result
}

/** Writes a history as turns of two messages, one after the other, as a broker would have written it. */
async function importHistory(engine, context, messages) {
  let parentTurnId = null
  for (let at = 0; at < messages.length; at += 2) {
    const [query, reply] = [messages[at], messages[at + 1]]
    const turn = {
      ...context,
      runId: `${context.runId}-${at}`,
      parentTurnId,
      currentMessage: query,
    }
    parentTurnId = await engine.ledger.writeTurn(turn, resultOf(at, [query, reply].filter(Boolean)))
  }
}

function resultOf(at, messages) {
  const now = Date.now()
  return {
    messages: messages.map(({ role, content }, sequence) => ({
      id: `bench-${process.pid}-${at + sequence}`,
      role,
      content,
      sequence,
      createdAt: now,
    })),
    toolCalls: [],
    usage: {
      inputTokens: 50,
      outputTokens: 50,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      totalTokens: 100,
    },
    stopReason: 'end_turn',
    durationMs: 1,
  }
}

/** A file on a disk, removed when the process ends. */
function ledgerPath() {
  const folder = fs.mkdtempSync(
    path.join(process.env.NEXUS_BENCH_LEDGERS ?? os.tmpdir(), 'ledger-'),
  )
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }))
  return path.join(folder, 'agents.db')
}
