// Questions of the host to servers that never answer: their limit, their cancellation, and the close of the engine. Calls of runs are
// hostile.spec.ts. It must never wait for a server.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AgentEngine } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { engineWith, received, scriptedServer } from '../../support/servers/mcp.js'
import { overHttp } from '../../support/servers/mcp-http.js'
import { deferred } from '../../support/tools.js'

const NEVER = 'file:///never'

/** What an engine asks a server, apart from the calls of a run. */
const questions: [string, (engine: AgentEngine, signal?: AbortSignal) => Promise<unknown>][] = [
  ['resources/list', ({ mcp }, signal) => mcp.resources('s', { signal })],
  ['resources/read', ({ mcp }, signal) => mcp.readResource('s', NEVER, { signal })],
  ['prompts/get', ({ mcp }, signal) => mcp.getPrompt('s', 'greet', {}, { signal })],
]

/** A server over HTTP that begins and then is silent; `asked` resolves with its first question. */
async function silent() {
  const { promise: asked, resolve } = deferred<void>()
  return { ...(await overHttp(() => resolve())), asked }
}

const failed = (question: Promise<unknown>) =>
  question.then(
    () => undefined,
    (error) => error,
  )

test.each(questions)('the close of the engine ends %s, which is never answered', async (_, ask) => {
  const { url, asked } = await silent()
  const { engine } = engineWith({ s: { url } })
  const error = failed(ask(engine))
  await asked
  await engine.close()
  expect(await error).toMatchObject({
    code: 'mcp_failed',
    message: expect.stringContaining('MCP server `s` was closed'),
  })
})

test('the close of the engine ends a question that waits for a token of the host', async () => {
  const { promise: waits, resolve } = deferred<void>()
  const { url } = await overHttp((_, response) => response.writeHead(401).end())
  const auth = ({ refused }: { refused: boolean }) => {
    if (!refused) return 'first'
    resolve()
    return new Promise<never>(() => {})
  }
  const { engine } = engineWith({ s: { url, auth } })
  const error = failed(engine.mcp.readResource('s', NEVER))
  await waits
  await engine.close()
  expect((await error).message).toContain('was closed')
})

test.each(questions)('an abort of %s cancels it at a server over HTTP', async (method, ask) => {
  const { url, asked, seen } = await silent()
  const { engine } = engineWith({ s: { url } })
  const controller = new AbortController()
  const error = failed(ask(engine, controller.signal))
  await asked
  const reason = new Error('not needed')
  controller.abort(reason)
  expect(await error).toBe(reason)
  await expect.poll(() => seen.at(-1)?.method).toBe('notifications/cancelled')
  expect(seen.at(-2)?.method).toBe(method)
})

test('an abort cancels a question at a server over pipes, which is not ended by it', async () => {
  const log = join(folder().path, 'log')
  const { engine } = engineWith({ s: scriptedServer({ log }) })
  const controller = new AbortController()
  const error = failed(engine.mcp.readResource('s', NEVER, { signal: controller.signal }))
  const methods = () => received(log).map(({ method }) => method)
  await expect.poll(methods).toContain('resources/read')
  controller.abort()
  expect((await error).name).toBe('AbortError')
  await expect.poll(methods).toContain('notifications/cancelled')
  const read = received(log).find(({ method }) => method === 'resources/read') as { id?: number }
  const cancelled = received(log).find(({ method }) => method === 'notifications/cancelled')
  expect(cancelled?.params?.requestId).toBe(read.id)
  expect(await engine.mcp.readResource('s', 'file:///a')).toEqual([{ uri: 'file:///a', text: 'A' }])
})

test.each(questions)('the time limit of a server holds for %s', async (_, ask) => {
  const { url, seen } = await silent()
  const { engine } = engineWith({ s: { url, timeoutMs: 30 } })
  // The start of a server has a limit of its own.
  await engine.mcp.tools()
  expect(await failed(ask(engine))).toMatchObject({
    code: 'mcp_failed',
    message: expect.stringContaining('MCP server `s` did not answer within 30 ms'),
  })
  await expect.poll(() => seen.at(-1)?.method).toBe('notifications/cancelled')
})
