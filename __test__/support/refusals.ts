// Refusals of the engine, which must have no effect: the server receives no request and the ledger gets no turn. It must never accept
// a refusal that was not thrown synchronously.

import { afterAll, beforeAll, expect } from 'vitest'
import {
  type AgentEngine,
  AgentEngineError,
  type AgentRun,
  type AssembledContext,
} from '../../index.js'
import { context, engineAt, tempDir } from './engine.js'
import { anthropic } from './servers/anthropic.js'
import { sse, type TestServer, testServer } from './servers/server.js'

/** The error that a call throws synchronously. */
export function thrown(call: () => unknown): AgentEngineError {
  try {
    call()
  } catch (error) {
    expect(error).toBeInstanceOf(AgentEngineError)
    return error as AgentEngineError
  }
  throw new Error('it was accepted')
}

/** As {@link thrown}; a run that was accepted after all has ended before the test fails. */
async function thrownAsync(call: () => AgentRun): Promise<AgentEngineError> {
  let run: AgentRun
  try {
    run = call()
  } catch (error) {
    return thrown(() => {
      throw error
    })
  }
  run.abort()
  await run.result
  throw new Error('it was accepted')
}

/** An engine for the tests of a file, and the refusals of its contexts. */
export function refusals() {
  let server: TestServer
  let engine: AgentEngine
  const dir = tempDir()

  /** The effects of the earlier refusals. */
  async function traces() {
    const { rows } = await engine.ledger.query(
      'SELECT (SELECT count(*) FROM turns) AS turns, (SELECT count(*) FROM sessions) AS sessions',
    )
    return { requests: server.seen.length, rows }
  }

  beforeAll(async () => {
    server = await testServer(sse(anthropic.answer('hi')))
    engine = engineAt(server.url, { ledger: { path: dir.file } })
  })

  afterAll(async () => {
    expect(await traces()).toEqual({ requests: 0, rows: [{ turns: 0, sessions: 0 }] })
    await engine.close()
    await server.close()
    dir.remove()
  })

  return {
    engine: () => engine,
    /** The refusal of a context, which must have no effect. */
    async refusal(fields: unknown): Promise<{ code: string; field?: string; message: string }> {
      const given =
        fields !== null && typeof fields === 'object' && !Array.isArray(fields)
          ? Object.defineProperties(context(), Object.getOwnPropertyDescriptors(fields))
          : fields
      const before = await traces()
      const error = await thrownAsync(() => engine.run(given as AssembledContext))
      expect(await traces()).toEqual(before)
      return { code: error.code, field: error.field, message: error.message }
    },
  }
}
