// W6: finished turns of a broker, committed through `ledger.writeTurn` by one session and by 64 at once, with a sync each.
// It must measure each in a process and a file of its own, and only through the public API.

import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** The turns that each session commits, by how many sessions there are. */
const TURNS = { 1: 1_000, 64: 100 }

/** Commits `turns` turns in each of `sessions` sessions: a question, an answer with two calls, and the last answer. */
function program(engine, sessions, turns) {
  return `import { createRequire } from 'node:module'
    import fs from 'node:fs'
    const { AgentEngine } = createRequire(import.meta.url)(${JSON.stringify(engine)})
    const engine = new AgentEngine({ ledger: { path: process.env.LEDGER } })
    const text = (length) => 'The quick brown fox jumps over the lazy dog. '.repeat(length / 45 + 1).slice(0, length)
    const usage = { inputTokens: 1000, outputTokens: 200, cachedInputTokens: 900, cacheWriteTokens: 100, reasoningTokens: 0, totalTokens: 1200 }
    const message = (id, role, content, sequence) => ({ id, role, content, sequence, createdAt: 1780000000000 + sequence })
    const call = (id, sequence, messageId, toolName, params) => ({ id, toolName, params, result: text(600), status: 'completed', startedAt: 1, completedAt: 2, sequence, messageId })
    const times = []
    async function session(label, turns) {
      let parentTurnId = null
      for (let n = 0; n < turns; n++) {
        const id = label + '-' + n
        const context = {
          systemPrompt: 's', currentMessage: { role: 'user', content: text(200) }, tools: [], model: 'claude-sonnet-4', provider: 'anthropic',
          runId: id, sessionLabel: label, parentTurnId, role: 'unified', toolsetName: 'full', permissionsGranted: [], workspacePath: '/home/me/space', timeoutMs: 60000, tokenBudget: { modelLimit: 200000 }, maxResponseTokens: 1000,
        }
        const messages = [
          message(id + 'a', 'user', text(200), 0),
          message(id + 'b', 'assistant', text(400), 1),
          message(id + 'd', 'assistant', text(400), 2),
        ]
        const toolCalls = [call('call_0', 0, id + 'b', 'read', { path: '/home/me/space/a.ts' }), call('call_1', 1, id + 'b', 'bash', { command: 'ls -la' })]
        const began = performance.now()
        parentTurnId = await engine.ledger.writeTurn(context, { messages, toolCalls, usage, stopReason: 'end_turn', durationMs: 1 })
        times.push(performance.now() - began)
      }
    }
    await Promise.all(Array.from({ length: ${sessions} }, (_, n) => session('warm' + n, 5)))
    times.length = 0
    const cpu = process.cpuUsage()
    const began = performance.now()
    await Promise.all(Array.from({ length: ${sessions} }, (_, n) => session('s' + n, ${turns})))
    const wall = performance.now() - began
    const used = process.cpuUsage(cpu)
    const count = ${sessions} * ${turns}
    times.sort((a, b) => a - b)
    await engine.close()
    fs.writeSync(1, JSON.stringify({ turns_per_s: (count / wall) * 1000, p50: times[times.length >> 1], cpu_ms: (used.user + used.system) / 1000 / count }) + '\\n')
    process.exit(0)`
}

/** Measures `reps` times; the same shape as the harness's: medians by adapter. */
export function measureCommits({ reps, node, env }, progressOf) {
  const onRun = progressOf(2 * reps)
  const rows = []
  for (let rep = 0; rep < reps; rep++) {
    for (const [sessions, turns] of Object.entries(TURNS)) {
      const folder = fs.mkdtempSync(path.join(env.NEXUS_BENCH_LEDGERS, 'commits-'))
      const source = program(env.NEXUS_ENGINE, sessions, turns)
      const child = spawnSync(node, ['--input-type=module', '--eval', source], {
        encoding: 'utf8',
        env: { ...process.env, LEDGER: path.join(folder, 'agents.db') },
      })
      fs.rmSync(folder, { recursive: true, force: true })
      const last = child.stdout?.trim().split('\n').pop()
      const figures = last
        ? JSON.parse(last)
        : { error: (child.stderr || String(child.error)).slice(-400) }
      rows.push({ adapter: 'nexus-ledger', sessions, rep, load: os.loadavg()[0], ...figures })
      onRun(rows.at(-1))
    }
  }
  return { summary: { 'nexus-ledger': medians(rows) }, rows }
}

function medians(rows) {
  const failed = rows.find(({ error }) => error)
  if (failed) return { error: failed.error }
  const of = (sessions, metric) => {
    const values = rows.filter((row) => row.sessions === sessions).map((row) => row[metric])
    return values.sort((a, b) => a - b)[values.length >> 1]
  }
  return {
    commit_p50_ms: of('1', 'p50'),
    turns_per_s_1: of('1', 'turns_per_s'),
    turns_per_s_64: of('64', 'turns_per_s'),
    cpu_ms_per_turn_64: of('64', 'cpu_ms'),
  }
}
