// Keys must never be in anything that a host can see or that is stored, and requests must never be sent to a forbidden address.
// The canary is searched byte by byte, and never only in selected fields.

import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineCallbacks,
  type AgentEngineError,
  type AuthProfile,
} from '../../index.js'
import { context, engineAt, readAll, tempDir, testModel } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { type Handler, sse, status } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'

const CANARY = 'canary-7Hq2"&Zx/9+kLw=vB4'
const HEADER_CANARY = 'header-canary=Jm5tYr8sQ1'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

/** The forms in which a secret may appear, in bytes. */
const forms = (secret: string) => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret),
  Buffer.from(secret).toString('base64').replace(/=+$/, ''),
  Buffer.from(secret).toString('hex'),
]

function expectClean(what: string, bytes: Buffer | string) {
  const text = typeof bytes === 'string' ? Buffer.from(bytes) : bytes
  for (const form of [...forms(CANARY), ...forms(HEADER_CANARY)]) {
    expect(text.includes(form), `${what}: ${form}`).toBe(false)
  }
}

const profile = (type: AuthProfile['type'] = 'api_key'): AuthProfile => ({
  id: 'p1',
  provider: 'test',
  type,
  key: CANARY,
})

/** Everything a host can see of one run. */
async function seen(
  handler: Handler,
  provider: Record<string, unknown> = {},
  type?: AuthProfile['type'],
) {
  const dir = tempDir()
  const warnings: string[] = []
  const onWarning = (warning: Error) => warnings.push(`${warning.stack}`)
  process.on('warning', onWarning)
  server.use(handler)
  const received: unknown[] = []
  const receive = (payload: unknown) => {
    received.push(payload)
    throw new Error('a callback that throws')
  }
  const callbacks: AgentEngineCallbacks = {
    onPartialReply: receive,
    onReasoningStream: receive,
    onToolResult: receive,
    onAgentEvent: receive,
    onToolUpdate: receive,
  }
  const engine = engineAt(
    server.url,
    { ledger: { path: dir.file }, authProfiles: [profile(type)] },
    { headers: { 'x-second-key': HEADER_CANARY }, ...provider },
  )
  const tools = [{ name: 'note', run: () => 'noted' }]
  const run = engine.run(context({ tools }), callbacks)
  const events = await readAll(run)
  const result = await run.result
  const rows = await engine.ledger.query('SELECT * FROM turns')
  const ledgerBytes = () =>
    Buffer.concat(readdirSync(dir.path).map((file) => readFileSync(join(dir.path, file))))
  const open = ledgerBytes()
  await engine.close()
  const closed = ledgerBytes()
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', onWarning)
  dir.remove()
  const all = JSON.stringify({ events, result, received, warnings, rows, engine: `${engine}` })
  expect(open.length).toBeGreaterThan(4_096)
  for (const [what, bytes] of Object.entries({ all, open, closed })) expectClean(what, bytes)
  return result
}

const quoting = `Incorrect API key provided: ${CANARY}, ${HEADER_CANARY}. You sent x-api-key: ${CANARY} and ${encodeURIComponent(CANARY)} and ${Buffer.from(CANARY).toString('base64')}`

describe('a key never appears', () => {
  test.each<[string, Handler]>([
    [
      'an error body',
      status(401, { type: 'error', error: { type: 'authentication_error', message: quoting } }),
    ],
    ['an error code', status(400, { error: { message: 'no', code: CANARY, type: CANARY } })],
    ['an error body without JSON', status(400, quoting)],
    [
      'a web page’s title',
      status(403, `<html><title>${quoting}</title></html>`, { 'content-type': 'text/html' }),
    ],
    [
      'a body of another type',
      (response) => {
        response
          .writeHead(200, {
            'content-type': `text/plain; key=${encodeURIComponent(CANARY)}`,
            'x-should-retry': 'false',
          })
          .end(quoting)
      },
    ],
    [
      'an error event',
      sse(
        anthropic.start(),
        anthropic.text(0, 'x'),
        anthropic.error('authentication_error', quoting),
      ),
    ],
    [
      'a redirect',
      (response) => {
        response
          .writeHead(307, { location: `http://127.0.0.1:1/?key=${encodeURIComponent(CANARY)}` })
          .end()
      },
    ],
  ])('though the server quotes it in %s', async (_, handler) => {
    const result = await seen(handler)
    expect(result.stopReason).toBe('error')
    expect(result.persisted).toBe(true)
    expect(server.seen[0]?.headers['x-api-key']).toBe(CANARY)
  })

  test('in a successful run, with either API and as a bearer', async () => {
    server.use(sse(anthropic.answer('ok')))
    await seen(sse(anthropic.answer('ok')), {}, 'token')
    expect(server.seen[0]?.headers.authorization).toBe(`Bearer ${CANARY}`)
    const result = await seen(sse(chat.answer('ok')), { api: 'openai-chat' })
    expect(result.stopReason).toBe('end_turn')
  })

  test('when no server answers', async () => {
    await server.close()
    const result = await seen(() => {})
    expect(result.error?.detail.code).toBe('connect')
  })

  test('in the error of wrong options', () => {
    const attempts: (() => unknown)[] = [
      () => engineAt(server.url, { authProfiles: [{ ...profile(), provider: 'nobody' }] }),
      () => engineAt(server.url, { authProfiles: [{ ...profile(), key: `${CANARY}\r\nx: y` }] }),
      () =>
        engineAt(server.url, {
          authProfiles: [{ ...profile(), type: CANARY as 'token' }, profile()],
        }),
      () => engineAt(server.url, { authProfiles: { key: CANARY } as unknown as AuthProfile[] }),
      () => engineAt(server.url, { authProfiles: [{ ...profile(), key: { env: CANARY } }] }),
      () => engineAt(server.url, {}, { headers: { 'x-key': `${CANARY}\n` } }),
      () => engineAt(server.url, {}, { headers: { 'x-key': { key: CANARY } } }),
      () => engineAt(`http://user:${encodeURIComponent(CANARY)}@127.0.0.1`),
    ]
    for (const attempt of attempts) {
      let refused: AgentEngineError | undefined
      try {
        attempt()
      } catch (error) {
        refused = error as AgentEngineError
      }
      expect(refused?.code).toBe('invalid_options')
      expectClean('refusal', `${refused?.stack} ${JSON.stringify(refused)}`)
    }
  })

  test('in the log of a process that traces everything', async () => {
    const index = fileURLToPath(new URL('../../index.js', import.meta.url))
    const body = { type: 'error', error: { type: 'api_error', message: quoting } }
    server.use(status(500, body, { 'retry-after-ms': '1' }), status(401, body))
    const script = `
      const { AgentEngine } = require(${JSON.stringify(index)})
      const options = JSON.parse(process.env.OPTIONS)
      const engine = new AgentEngine(options)
      engine.run(JSON.parse(process.env.CONTEXT)).result.then(async (result) => {
        console.log(JSON.stringify(result))
        await engine.close()
      })`
    const options = {
      providers: {
        test: {
          api: 'anthropic-messages',
          baseUrl: server.url,
          headers: { 'x-second-key': HEADER_CANARY },
        },
      },
      authProfiles: [{ id: 'p1', provider: 'test', key: { env: 'THE_KEY' } }],
      models: [testModel],
    }
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-e', script], {
      env: {
        ...process.env,
        NEXUS_AGENT_ENGINE_LOG: 'trace',
        RUST_LOG: 'trace',
        RUST_BACKTRACE: '1',
        THE_KEY: CANARY,
        OPTIONS: JSON.stringify(options),
        CONTEXT: JSON.stringify(context({ systemPrompt: 'prompt-canary' })),
      },
    })
    expect(JSON.parse(stdout)).toMatchObject({
      stopReason: 'error',
      error: { kind: 'auth_failure' },
    })
    expect(server.seen.map(({ headers }) => headers['x-api-key'])).toEqual([CANARY, CANARY])
    expectClean('stdout', stdout)
    expectClean('stderr', stderr)
    expect(stderr).not.toContain('prompt-canary')
  })
})

describe('options that are refused', () => {
  const field = (provider: Record<string, unknown>) => {
    try {
      new AgentEngine({
        providers: { test: { api: 'openai-chat', baseUrl: 'https://a.test', ...provider } },
      })
    } catch (error) {
      const { code, field } = error as AgentEngineError
      return `${code} ${field}`
    }
    return 'accepted'
  }

  test.each([
    ['https://user:secret@api.example.com'],
    ['https://user@api.example.com'],
    ['http://api.example.com'],
    ['http://192.168.0.10:8080'],
    ['http://169.254.169.254/latest'],
    ['https://169.254.169.254'],
    ['https://[fd00:ec2::254]'],
    ['https://[fe80::1]'],
    ['https://[::ffff:169.254.169.254]'],
    ['http://2852039166'],
    ['https://100.100.100.200'],
    ['ftp://example.com'],
    ['file:///etc/passwd'],
    ['not a url'],
    [''],
  ])('the base URL `%s`', (baseUrl) => {
    expect(field({ baseUrl })).toBe('invalid_options providers.test.baseUrl')
  })

  test('a metadata address is refused also with `allowInsecure`', () => {
    const baseUrl = 'http://169.254.169.254/'
    expect(field({ baseUrl, allowInsecure: true })).toBe('invalid_options providers.test.baseUrl')
  })

  test('plain http is for this machine only, unless the options allow it', () => {
    expect(field({ baseUrl: 'http://localhost:11434/v1' })).toBe('accepted')
    expect(field({ baseUrl: 'http://[::1]:11434/v1' })).toBe('accepted')
    expect(field({ baseUrl: 'http://192.168.0.10:8080', allowInsecure: true })).toBe('accepted')
  })

  test.each([
    ['x-a\r\nx-api-key', 'v'],
    ['x-a', 'v\r\nx-evil: 1'],
    ['x-a', 'v\u0000'],
    ['x a', 'v'],
    ['', 'v'],
    ['host', 'evil.test'],
    ['Authorization', 'Bearer v'],
    ['X-Api-Key', 'v'],
    ['content-length', '0'],
    ['transfer-encoding', 'chunked'],
    ['connection', 'close'],
    ['proxy-authorization', 'v'],
    ['accept-encoding', 'gzip'],
  ])('the header %j: %j', (name, value) => {
    expect(field({ headers: { [name]: value } })).toBe(
      `invalid_options providers.test.headers.${name}`,
    )
  })

  test('a key with a line break', () => {
    expect(() =>
      engineAt(server.url, { authProfiles: [{ ...profile(), key: 'abcdefgh\r\nx-evil: 1' }] }),
    ).toThrow(expect.objectContaining({ code: 'invalid_options', field: 'authProfiles[0].key' }))
  })
})
