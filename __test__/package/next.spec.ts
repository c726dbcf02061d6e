// The engine in a route of Next.js: a build of either bundler, with everything that a server needs traced into its folder. Next.js is
// 340 MB, so only `npm run proof:bundlers` installs it; without it this spec reports that it is skipped. It must never install anything.

import { execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { install } from './installed.js'

const modules = fileURLToPath(new URL('../../scripts/runtimes/next/node_modules', import.meta.url))
const isSkipped = !existsSync(join(modules, 'next')) && process.env.BUNDLERS !== 'required'
if (isSkipped) console.log('skipped: Next.js is not installed (npm run proof:bundlers)')

const files = {
  'next.config.mjs': `export default {
    serverExternalPackages: ['@nexus/agent-engine'],
    output: 'standalone',
    outputFileTracingIncludes: { '/*': ['node_modules/@nexus/agent-engine*/*.node'] },
    outputFileTracingRoot: import.meta.dirname,
    turbopack: { root: import.meta.dirname },
  }`,
  'app/layout.js': `export default function Layout({ children }) {
    return <html lang="en"><body>{children}</body></html>
  }`,
  'app/page.js': 'export default function Page() { return <p>A page.</p> }',
  'app/api/turn/route.js': `import { AgentEngine, scriptedProvider } from '@nexus/agent-engine'
  import { toResponse } from '@nexus/agent-engine/web'

  export const dynamic = 'force-dynamic'

  export function GET() {
    globalThis.engine ??= new AgentEngine({
      providers: { demo: scriptedProvider(['Eleven degrees.']) },
      ledger: { path: process.env.LEDGER },
    })
    return toResponse(globalThis.engine.run('How warm is it?', { model: 'demo/scripted' }))
  }`,
}

let project: string
beforeAll(() => {
  if (isSkipped) return
  project = mkdtempSync(join(tmpdir(), 'agent-engine-next-'))
  cpSync(modules, join(project, 'node_modules'), { recursive: true, verbatimSymlinks: true })
  install(project)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(project, name)), { recursive: true })
    writeFileSync(join(project, name), text)
  }
}, 120_000)
afterAll(() => {
  if (project !== undefined) rmSync(project, { recursive: true, force: true })
})

const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' as const }

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

test.skipIf(isSkipped).each(['turbopack', 'webpack'])(
  'a build of Next.js with %s runs a turn in a route handler, with the binary beside its code',
  { timeout: 600_000 },
  async (bundler) => {
    const next = join(project, 'node_modules', 'next', 'dist', 'bin', 'next')
    const build = [next, 'build', `--${bundler}`]
    execFileSync(process.execPath, build, { cwd: project, env, encoding: 'utf8' })
    const port = await freePort()
    const server = spawn(process.execPath, ['server.js'], {
      cwd: join(project, '.next', 'standalone'),
      env: {
        ...env,
        HOSTNAME: '127.0.0.1',
        PORT: String(port),
        LEDGER: join(project, `${bundler}.db`),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      await new Promise<void>((resolve, reject) => {
        server.stdout.on('data', (text) => String(text).includes('Ready') && resolve())
        server.on('close', () => reject(new Error('the server has ended')))
      })
      const answer = await fetch(`http://127.0.0.1:${port}/api/turn`)
      const events = await answer.text()
      expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/)
      expect(events).toContain('"type":"token"')
      expect(events).toContain('"stopReason":"end_turn"')
    } finally {
      server.kill('SIGKILL')
    }
  },
)
