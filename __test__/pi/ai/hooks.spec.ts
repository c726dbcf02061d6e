// What a host puts around a call of `/pi-ai`: a `fetch` of its own, a look at the response, errors in place of messages, logins. It must never wait for a
// time.

import { expect, test } from 'vitest'
import {
  completeSimple,
  getOAuthApiKey,
  getOAuthProvider,
  getOAuthProviderInfoList,
  getOAuthProviders,
  LoginUnavailableError,
  loginAnthropic,
  type Model,
  ModelCallError,
  refreshOAuthToken,
  registerOAuthProvider,
  streamSimple,
} from '../../../pi-ai.js'
import { sse, sseThenHold, status } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, wires } from './wires.js'

const server = serverPerTest(() => sse(wires.anthropic.text('Hello.')))
const apiKey = 'sk-x'
const model = (changes: Partial<Model> = {}) => modelAt(wires.anthropic, server.url, changes)
const context = { messages: [{ role: 'user' as const, content: 'hi', timestamp: 1 }] }

test.each(Object.entries(wires))('a `fetch` of the host sends the request: %s', async (_, wire) => {
  server.use(sse(wire.text('Hello.')))
  const direct = await completeSimple(modelAt(wire, server.url), context, { apiKey })
  const urls: string[] = []
  const own: typeof fetch = (url, init) => {
    urls.push(String(url))
    return fetch(url, init)
  }
  const answer = await completeSimple(modelAt(wire, server.url), context, { apiKey, fetch: own })
  const same = ({ timestamp, ...others }: typeof answer) => others
  expect(same(answer)).toEqual(same(direct))
  const [one, other] = server.seen
  expect(urls).toEqual([server.url + one?.path])
  expect([other?.path, other?.raw]).toEqual([one?.path, one?.raw])
  expect(other?.headers.authorization).toBe(one?.headers.authorization)
})

test('`onResponse` sees status and headers before the answer begins', async () => {
  const order: unknown[] = []
  const given = model()
  const stream = streamSimple(given, context, {
    apiKey,
    onResponse: ({ status, headers }, of) => {
      order.push([status, headers['content-type'], of === given])
    },
  })
  for await (const { type } of stream) order.push(type)
  expect(order.slice(0, 2)).toEqual([[200, 'text/event-stream', true], 'start'])
})

test('what a `fetch`, an `onResponse` or an `onPayload` throws is the message of the answer', async () => {
  const failing = async () => {
    throw new Error('the proxy is closed')
  }
  const ofFetch = await completeSimple(model(), context, { apiKey, fetch: failing })
  const ofResponse = await completeSimple(model(), context, { apiKey, onResponse: failing })
  const ofPayload = await completeSimple(model(), context, { apiKey, onPayload: failing })
  for (const { stopReason, errorMessage } of [ofFetch, ofResponse, ofPayload]) {
    expect([stopReason, errorMessage]).toEqual(['error', 'the proxy is closed'])
  }
})

test('an abort reaches the `fetch`', async () => {
  server.use(sseThenHold(wires.anthropic.text('Hel').slice(0, 200)))
  const controller = new AbortController()
  let aborted = new Promise<void>(() => {})
  const own: typeof fetch = async (url, init) => {
    aborted = new Promise((resolve) => {
      init?.signal?.addEventListener('abort', () => resolve())
    })
    const response = await fetch(url, init)
    controller.abort()
    return response
  }
  const options = { apiKey, fetch: own, signal: controller.signal }
  expect(await completeSimple(model(), context, options)).toMatchObject({ stopReason: 'aborted' })
  await aborted
})

test('a signed request cannot take another way', async () => {
  const bedrock = model({ api: 'bedrock-converse-stream' })
  const { errorMessage } = await completeSimple(bedrock, context, { apiKey, fetch })
  expect(errorMessage).toContain('signed for its host')
})

test('with `throwOnError` a failure is an error, with the answer', async () => {
  server.use(status(401, { error: { type: 'authentication_error', message: 'bad key' } }))
  const options = { apiKey, throwOnError: true }
  const thrown = await completeSimple(model(), context, options).catch((error) => error)
  expect(thrown).toBeInstanceOf(ModelCallError)
  expect(thrown.answer).toMatchObject({ stopReason: 'error', errorMessage: thrown.message })
  const stream = streamSimple(model(), context, { ...options, signal: AbortSignal.abort() })
  await expect(stream.result()).rejects.toMatchObject({ answer: { stopReason: 'aborted' } })
  server.use(sse(wires.anthropic.text('Hello.')))
  expect(await completeSimple(model(), context, options)).toMatchObject({ stopReason: 'stop' })
})

test('a login is the one that the host has registered; without one it is refused', async () => {
  const refusal = {
    name: 'LoginUnavailableError',
    code: 'login_unavailable',
    provider: 'anthropic',
  }
  const callbacks = { onAuth: () => {}, onPrompt: async () => '' }
  await expect(loginAnthropic(callbacks)).rejects.toMatchObject(refusal)
  await expect(getOAuthApiKey('anthropic', {})).rejects.toBeInstanceOf(LoginUnavailableError)
  const old = { refresh: 'r', access: 'old', expires: 0 }
  await expect(refreshOAuthToken('anthropic', old)).rejects.toMatchObject(refusal)
  expect([getOAuthProviders(), getOAuthProvider('anthropic')]).toEqual([[], undefined])

  const fresh = { refresh: 'r', access: 'fresh', expires: Number.MAX_SAFE_INTEGER }
  const provider = {
    id: 'anthropic',
    name: 'Mine',
    login: async () => fresh,
    refreshToken: async () => fresh,
    getApiKey: ({ access }: { access: string }) => `key-${access}`,
  }
  registerOAuthProvider(provider)
  expect(getOAuthProvider('anthropic')).toBe(provider)
  expect(getOAuthProviderInfoList()).toEqual([{ id: 'anthropic', name: 'Mine', available: true }])
  expect(await loginAnthropic(callbacks)).toBe(fresh)
  expect(await getOAuthApiKey('anthropic', {})).toBeNull()
  const expected = { newCredentials: fresh, apiKey: 'key-fresh' }
  expect(await getOAuthApiKey('anthropic', { anthropic: old })).toEqual(expected)
  expect(await getOAuthApiKey('anthropic', { anthropic: fresh })).toEqual(expected)
})
