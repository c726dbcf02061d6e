// A real context limit: a llama.cpp `llama-server` (`LLAMA_SERVER=` is its binary) that refuses by itself, and the engine's
// recovery. Its model is created here, or set as `LLAMA_MODEL=`. Without a server its recorded refusals are used. It must never
// call another machine.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { AgentEngine, type AgentEngineOptions, type AgentResult } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, tempDir } from '../support/engine.js'
import { chat } from '../support/servers/chat.js'
import { type Handler, sse, status } from '../support/servers/server.js'
import { answer, writeTinyModel } from '../support/values/tiny-model.js'

const binary = process.env.LLAMA_SERVER || undefined
const model = process.env.LLAMA_MODEL || undefined

/** The server's window. The engine is configured with eight times as much, as by a host that does not know the server's options. */
const CONTEXT = 16_384
const models = [{ provider: 'llama', id: 'tiny', contextWindow: 8 * CONTEXT, maxOutputTokens: 512 }]
/** The time limit for a server built without optimisation, in milliseconds. */
const PATIENCE = 300_000

/** About 3,000 characters: as many tokens of the tiny model, a quarter by the engine's estimate. */
const long = (what: string) => `${what} ${'lorem ipsum '.repeat(250)}`

const open = (baseUrl: string, options: AgentEngineOptions = {}) =>
  closing(
    new AgentEngine({
      providers: { llama: { api: 'openai-chat', flavor: 'llamacpp', baseUrl } },
      models,
      ledger: { path: folder().file, synchronous: 'normal' },
      ...options,
    }),
  )

const runPrompt = (engine: AgentEngine, content: string): Promise<AgentResult> =>
  engine.run(
    context({
      provider: 'llama',
      model: 'tiny',
      sessionLabel: 's',
      timeoutMs: PATIENCE,
      currentMessage: { role: 'user', content },
    }),
  ).result

const historyTexts = async (engine: AgentEngine) =>
  (await engine.ledger.history('s')).map(({ content }) => content.split(' lorem')[0])

test.runIf(binary === undefined)('without a llama-server these tests are skipped', () => {
  console.log(
    'skipped: `LLAMA_SERVER` is not set, so the context limit of a real llama.cpp was not met',
  )
})

describe.runIf(binary !== undefined)('a llama-server', { timeout: PATIENCE }, () => {
  const dir = tempDir()
  let server: ChildProcess
  let url: string
  let log = ''

  beforeAll(async () => {
    const path = model ?? join(dir.path, 'tiny.gguf')
    if (model === undefined) writeTinyModel(path, CONTEXT)
    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    const args = ['-m', path, '--host', '127.0.0.1', '--port', `${port}`, '-c', `${CONTEXT}`]
    server = spawn(binary ?? '', [...args, '-np', '1', '--no-context-shift'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = new Promise<never>((_, reject) => {
      server.on('error', reject)
      server.on('exit', (code) => {
        reject(new Error(`\`${binary}\` ended with ${code}:\n${log.slice(-4_000)}`))
      })
    })
    ended.catch(() => {})
    for (const stream of [server.stdout, server.stderr])
      stream?.on('data', (chunk) => {
        log = `${log}${chunk}`.slice(-20_000)
      })
    const ready = async () => {
      if (!(await fetch(`${url}/health`)).ok) throw new Error('it still loads its model')
    }
    await Promise.race([ended, vi.waitFor(ready, { timeout: 50_000, interval: 50 })])
  })

  afterAll(async () => {
    if (server?.exitCode === null && server.kill('SIGKILL')) await once(server, 'exit')
    dir.remove()
  })

  test('answers, and reports its token counts', async () => {
    const result = await runPrompt(open(`${url}/v1`), 'hello')
    expect(result).toMatchObject({ stopReason: 'end_turn', usageEstimated: false })
    if (model === undefined) expect(result.messages.at(-1)?.content.trim()).toBe(answer)
    expect(result.usage.inputTokens + result.usage.cachedInputTokens).toBeGreaterThan(0)
  })

  test('that refuses a conversation for its length gets a summary of it, and the run continues', async () => {
    const engine = open(`${url}/v1`)
    let refused: AgentResult | undefined
    let turns = 0
    while (refused === undefined && ++turns < 80) {
      const result = await runPrompt(engine, long(`question ${turns}`))
      expect(result.error).toBeUndefined()
      if (result.compaction !== undefined) refused = result
    }
    expect(refused).toMatchObject({
      stopReason: 'end_turn',
      persisted: true,
      compaction: { trigger: 'overflow_recovery', compactionType: 'summary' },
    })
    const attempts = refused?.attempts.filter(({ purpose }) => purpose === undefined)
    expect(attempts?.map(({ ok, status, reason }) => [ok, status, reason])).toEqual([
      [false, 400, 'context_overflow'],
      [true, 200, undefined],
    ])
    const now = await historyTexts(engine)
    expect(now[0]).toMatch(/^\[Previous conversation summary\]:/)
    expect(now).not.toContain('question 1')
    expect(now).toContain(`question ${turns}`)
    // The session continues, and the server accepts the compacted context.
    const next = await runPrompt(engine, 'And now?')
    expect(next).toMatchObject({ stopReason: 'end_turn', attempts: [{ ok: true }] })
    // The ledger still has every turn.
    expect((await engine.ledger.search('question')).items.length).toBeGreaterThanOrEqual(turns)
  })

  test('that refuses a single message is reported as an overflow, with the server’s message', async () => {
    const engine = open(`${url}/v1`)
    const result = await runPrompt(engine, 'lorem ipsum '.repeat(CONTEXT / 2))
    expect(result).toMatchObject({
      stopReason: 'error',
      error: { kind: 'context_overflow', detail: { kind: 'context_overflow', status: 400 } },
    })
    expect(result.error?.message).toMatch(/context/)
    expect(result.compaction).toBeUndefined()
    expect(await historyTexts(engine)).toEqual([])
  })

  test('that refuses a conversation without compaction leaves the history unchanged', async () => {
    const engine = open(`${url}/v1`, { compaction: false })
    let result = await runPrompt(engine, long('question 1'))
    let before: unknown
    for (let turn = 2; turn < 80 && result.error === undefined; turn++) {
      before = await historyTexts(engine)
      result = await runPrompt(engine, long(`question ${turn}`))
    }
    expect(result.error?.kind).toBe('context_overflow')
    expect(await historyTexts(engine)).toEqual(before)
  })
})

describe('recorded answers of llama.cpp', () => {
  const SUMMARY = '## Goal\nGo on.'
  const refusals: [string, Handler][] = [
    [
      'with the numbers',
      status(400, {
        error: {
          code: 400,
          message:
            'request (2009 tokens) exceeds the available context size (512 tokens), try increasing it',
          n_ctx: 512,
          n_prompt_tokens: 2_009,
          type: 'exceed_context_size_error',
        },
      }),
    ],
    [
      'without them',
      status(400, {
        error: {
          code: 400,
          message: 'the request exceeds the available context size, try increasing it',
          type: 'exceed_context_size_error',
        },
      }),
    ],
    [
      'with status 200, as older ones did',
      status(200, {
        error: {
          code: 400,
          message:
            'the request exceeds the available context size. try increasing the context size',
          type: 'invalid_request_error',
        },
      }),
    ],
  ]
  test.each(refusals)('%s is an overflow, and the run recovers', async (_, refusal) => {
    let full = false
    const server = await serving((response, seen) => {
      const summarises = seen.raw.includes('<conversation>')
      const refuses = full && !summarises && !seen.raw.includes('Go on.')
      return (refuses ? refusal : sse(chat.answer(summarises ? SUMMARY : 'ok')))(response, seen)
    })
    const engine = open(server.url)
    for (let turn = 1; turn <= 5; turn++) await runPrompt(engine, long(`question ${turn}`))
    full = true
    const result = await runPrompt(engine, 'And now?')
    expect(result).toMatchObject({
      stopReason: 'end_turn',
      compaction: { trigger: 'overflow_recovery' },
    })
    const own = result.attempts.filter(({ purpose }) => purpose === undefined)
    expect(own).toMatchObject([{ ok: false, reason: 'context_overflow' }, { ok: true }])
    expect(result.attempts.length).toBeGreaterThan(own.length)
    const without = open(server.url, { compaction: false })
    expect((await runPrompt(without, 'hi')).error).toMatchObject({
      kind: 'context_overflow',
      retryable: false,
    })
  })
})

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}
