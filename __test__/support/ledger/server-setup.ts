// Starts one private server for all specs of the vitest project `postgres`, by crates/postgres/serve.sh, and ends it after them. It fails
// where a statement of the specs' engines had no index.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { explains, scansOf } from './plans.js'

const script = fileURLToPath(new URL('../../../crates/postgres/serve.sh', import.meta.url))

export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.POSTGRES_URL !== undefined) return undefined
  const settings = Object.entries(explains).map(([name, value]) => `-c ${name}=${value}`)
  const env = { ...process.env, POSTGRES_SETTINGS: settings.join(' ') }
  const server = spawn(script, { stdio: ['pipe', 'pipe', 'inherit'], env })
  const ended = new Promise((resolve) => server.once('close', resolve))
  const first = await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next()
  if (first.done) throw new Error('no PostgreSQL: install `postgresql`, or set POSTGRES_URL')
  // The processes of the specs inherit it.
  process.env.POSTGRES_URL = String(first.value)
  return async () => {
    delete process.env.POSTGRES_URL
    const folder = String(first.value).split('?host=')[1] ?? ''
    const { found, statements } = await scansOf(join(folder, 'log')).finally(async () => {
      server.stdin.end()
      await ended
    })
    console.log(`the plans of ${statements} statements on PostgreSQL were checked`)
    if (found.length > 0) {
      throw new Error(`statements without an index:\n${found.join('\n')}`)
    }
  }
}
