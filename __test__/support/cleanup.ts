// Closes the resources of a test after it, in reverse order: servers, engines, folders. It must never fail a test because of its
// unfinished work.

import { afterEach } from 'vitest'
import type { AgentEngine } from '../../index.js'
import { tempDir } from './engine.js'
import { type Handler, type TestServer, testServer } from './servers/server.js'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** Runs after the test. */
export function afterwards(clean: () => unknown): void {
  cleanups.push(clean)
}

/** A server that closes after the test. */
export async function serving(...handlers: Handler[]): Promise<TestServer> {
  const server = await testServer(...handlers)
  afterwards(() => server.close())
  return server
}

/** An engine that closes after the test. */
export function closing<T extends AgentEngine>(engine: T): T {
  afterwards(() => engine.close())
  return engine
}

/** A folder that is deleted after the test, and a ledger's path in it. */
export function folder(): { path: string; file: string } {
  const dir = tempDir()
  afterwards(dir.remove)
  return dir
}
