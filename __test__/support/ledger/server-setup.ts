// Starts one private server for all specs of the vitest project `postgres`, by crates/postgres/serve.sh, and ends it after them.

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('../../../crates/postgres/serve.sh', import.meta.url))

export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.POSTGRES_URL !== undefined) return undefined
  const server = spawn(script, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise((resolve) => server.once('close', resolve))
  const first = await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next()
  if (first.done) throw new Error('no PostgreSQL: install `postgresql`, or set POSTGRES_URL')
  // The processes of the specs inherit it.
  process.env.POSTGRES_URL = String(first.value)
  return async () => {
    delete process.env.POSTGRES_URL
    server.stdin.end()
    await ended
  }
}
