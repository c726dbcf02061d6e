// An engine with a server and a signal, and the rules that every abort must satisfy. It must never abort by itself.

import { expect } from 'vitest'
import type { AgentEngine, AgentResult, AgentRun, StreamEvent } from '../../index.js'
import { closing, folder, serving } from './cleanup.js'
import { engineAt, readAll } from './engine.js'
import { anthropic } from './servers/anthropic.js'
import type { Handler, TestServer } from './servers/server.js'

export interface Abortable {
  server: TestServer
  engine: AgentEngine
  controller: AbortController
}

export async function abortable(...handlers: Handler[]): Promise<Abortable> {
  const server = await serving(...handlers)
  const engine = closing(engineAt(server.url, { ledger: { path: folder().file } }))
  return { server, engine, controller: new AbortController() }
}

/**
 * Aborts and checks the rules of every abort: a result although nothing answers, one terminal event, closed calls, a row in the ledger. How
 * soon the result comes is measured by the benches.
 */
export async function expectAbort(
  engine: AgentEngine,
  run: AgentRun,
  abort: () => void,
): Promise<AgentResult> {
  const events = readAll(run)
  abort()
  const result = await run.result
  expect(result).toMatchObject({ stopReason: 'aborted', persisted: true })
  expect(result.error).toBeUndefined()
  const rest = await events
  expect(rest.at(-1)).toMatchObject({ type: 'stream_end', final: true })
  expect(rest.filter((event) => event.type === 'stream_error')).toEqual([])
  const answered = new Set(result.messages.map((message) => message.toolCallId))
  for (const call of result.toolCalls) {
    expect(['completed', 'failed']).toContain(call.status)
    expect(answered).toContain(call.id)
  }
  expect(await engine.ledger.turn(result.turnId)).toMatchObject({
    status: 'aborted',
    stopReason: 'aborted',
    messages: result.messages,
  })
  return result
}

/** After the engine is closed it has no task that could still send a request. */
export async function expectNoMoreThan(
  requests: number,
  { engine, server }: Abortable,
): Promise<void> {
  await engine.close()
  expect(server.seen.length).toBe(requests)
}

/** Reads until an event matches. */
export async function readUntil(
  run: AgentRun,
  wanted: (event: StreamEvent) => boolean,
): Promise<void> {
  for (;;) {
    const { value, done } = await run.next()
    if (done) throw new Error('the run ended before')
    if (wanted(value)) return
  }
}

export const isToken = (event: StreamEvent) => event.type === 'token'
export const isToolStart = (event: StreamEvent) =>
  event.type === 'tool_status' && event.status === 'started'
export const halfText =
  anthropic.start() +
  anthropic.blockStart(0, { type: 'text', text: '' }) +
  anthropic.delta(0, { type: 'text_delta', text: 'half' })
