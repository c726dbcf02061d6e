// countTokens: the parts of an estimate, exact counts of the provider, and failures. It must never depend on the token count of a
// real model.

import { describe, expect, test } from 'vitest'
import type { AgentEngine, AgentEngineError, AssembledContext } from '../../index.js'
import { context, engineAt, scriptedEngine, tempDir } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse, status } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'

const server = serverPerTest(() => status(200, { input_tokens: 1_234 }))

/** Texts of known size: 4 characters are a token. */
const words = (tokens: number) => 'a'.repeat(4 * tokens)
const sized: Partial<AssembledContext> = {
  systemPrompt: words(100),
  history: [
    { role: 'user', content: words(20) },
    { role: 'assistant', content: words(30) },
  ],
  currentMessage: { role: 'user', content: words(7) },
  tools: [{ name: 'abcd', description: words(10), parameters: { type: 'object' }, run: () => '' }],
}
const estimate = {
  tokens: 100 + 16 + 57,
  exact: false,
  systemTokens: 100,
  toolTokens: 1 + 10 + 5,
  messageTokens: 57,
  window: 200_000,
  promptLimit: 200_000,
}

const rejected = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('it was not refused'),
    (error: AgentEngineError) => error,
  )

async function counted(engine: AgentEngine, changes: Partial<AssembledContext>, exact?: boolean) {
  const count = await engine.countTokens(context(changes), exact === undefined ? {} : { exact })
  await engine.close()
  return count
}

describe('an estimate', () => {
  test('is the sum of system, tools, history and message, without a request', async () => {
    expect(await counted(engineAt(server.url), sized)).toEqual(estimate)
    expect(server.connections()).toBe(0)
  })

  test('counts images, scripts that are not Latin, and the provider’s own tools', async () => {
    const count = await counted(engineAt(server.url), {
      systemPrompt: '上下文过长',
      currentMessage: {
        role: 'user',
        content: [{ type: 'image', mimeType: 'image/png', data: 'aGk=' }],
      },
      providerTools: [{ type: 'web_search' }],
    })
    expect(count).toMatchObject({ systemTokens: 3, messageTokens: 1_200, toolTokens: 6 })
  })

  test('reads the session’s history from the ledger, and waits for no run of it', async () => {
    const dir = tempDir()
    const { engine, provider } = scriptedEngine(
      [words(50), { steps: [{ gate: 'open' }, { text: 'later' }] }],
      { ledger: { path: dir.file } },
    )
    const requested = {
      systemPrompt: '',
      currentMessage: { role: 'user' as const, content: words(5) },
    }
    await engine.run(context(requested)).result
    const running = engine.run(context(requested))
    expect((await engine.countTokens(context(requested))).messageTokens).toBe(5 + 50 + 5)
    const other = await engine.countTokens(
      context({ ...requested, sessionLabel: 'agent:main:other' }),
    )
    expect(other.messageTokens).toBe(5)
    provider.open('open')
    await running.result
    expect(await engine.ledger.session('agent:main:other')).toBeNull()
    await engine.close()
    dir.remove()
  })
})

describe('an exact count', () => {
  test('is the provider’s, of the prompt that a run would send', async () => {
    const engine = engineAt(server.url)
    const changes = { ...sized, headers: { 'x-team': 'red' }, maxResponseTokens: 9 }
    expect(await engine.countTokens(context(changes), { exact: true })).toEqual({
      ...estimate,
      tokens: 1_234,
      exact: true,
    })
    server.use(sse(anthropic.answer('ok')))
    await engine.run(context({ ...changes, promptCache: { ttl: 'off' } })).result
    await engine.close()
    const [count, run] = server.seen
    expect([count?.path, run?.path]).toEqual(['/v1/messages/count_tokens', '/v1/messages'])
    expect(count?.headers['x-team']).toBe('red')
    expect(count?.headers['x-api-key']).toBe('sk-test-canary-0123456789')
    const { max_tokens, stream, ...prompt } = run?.body ?? {}
    expect([max_tokens, stream]).toEqual([9, true])
    expect(count?.body).toEqual(prompt)
  })

  test('is a marked estimate if the API or the server cannot count', async () => {
    expect(await counted(engineAt(server.url, {}, { api: 'openai-chat' }), sized, true)).toEqual(
      estimate,
    )
    expect(await counted(scriptedEngine([]).engine, sized, true)).toEqual(estimate)
    expect(server.connections()).toBe(0)
    server.use(status(404, 'no such page', { 'content-type': 'text/plain' }))
    expect(await counted(engineAt(server.url), sized, true)).toEqual(estimate)
    expect(server.seen).toHaveLength(1)
  })

  test('rejects with the provider’s message, and is not retried', async () => {
    server.use(
      status(429, { error: { type: 'rate_limit_error', message: 'slow down' } }),
      status(404, { error: { type: 'not_found_error', message: 'model: nobody' } }),
      status(200, { tokens: 'many' }),
      status(200, '<html>'),
      status(401, { error: { message: 'bad key sk-test-canary-0123456789' } }),
    )
    const engine = engineAt(server.url)
    const failed: AgentEngineError[] = []
    for (let n = 0; n < 5; n++) {
      failed.push(await rejected(engine.countTokens(context(), { exact: true })))
      // The failure counts for the key, as of any call.
      await engine.resetProfile('p1')
    }
    await engine.close()
    expect(server.seen).toHaveLength(5)
    expect(failed.map(({ name, code }) => `${name} ${code}`)).toEqual(
      failed.map(() => 'AgentEngineError provider_failed'),
    )
    expect(failed.map(({ error }) => [error?.detail.kind, error?.retryable])).toEqual([
      ['rate_limit', true],
      ['model_not_found', false],
      ['server_error', false],
      ['server_error', false],
      ['auth', false],
    ])
    expect(failed[0]?.error?.message).toBe('slow down')
    expect(failed[0]?.message).toBe('slow down (docs/guide/errors.md#provider_failed)')
    expect(JSON.stringify(failed) + failed[4]?.message).not.toContain('canary')
  })

  test('ends with the context’s time', async () => {
    server.use(() => {})
    const engine = engineAt(server.url)
    const error = await rejected(engine.countTokens(context({ timeoutMs: 50 }), { exact: true }))
    expect(error).toMatchObject({ code: 'provider_failed', error: { kind: 'timeout' } })
    await engine.close()
  })
})

test('a wrong argument rejects with the error that run() throws', async () => {
  const engine = engineAt(server.url)
  const refusalOf = async (promise: Promise<unknown>) => {
    const { code, field } = await rejected(promise)
    return `${code} ${field}`
  }
  expect([
    await refusalOf(engine.countTokens(null as never)),
    await refusalOf(engine.countTokens(context({ model: 'nobody-knows-it' }))),
    await refusalOf(engine.countTokens(context({ headers: { host: 'x' } }))),
    await refusalOf(engine.countTokens(context(), { exact: 'yes' as never })),
    await refusalOf(engine.countTokens(context(), null as never)),
  ]).toEqual([
    'invalid_context context',
    'unknown_model model',
    'invalid_context headers.host',
    'invalid_options exact',
    'invalid_options options',
  ])
  await engine.close()
  expect(await refusalOf(engine.countTokens(context()))).toBe('engine_closed undefined')
  expect(server.connections()).toBe(0)
})
