// The program and `runAgent` with a ledger on a PostgreSQL server. It must never depend on a server of the machine's own.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { hasPostgres, postgresServer } from '../support/ledger/postgres.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { home } from './program.js'

const options = postgresServer()
// The program has the default schema, which no test may have on a server of others.
const live = test.skipIf(!hasPostgres || process.env.POSTGRES_URL !== undefined)

live(
  'a URL of the command line and one of the config are the ledger of every command',
  async () => {
    const says = (text: string) => sse(anthropic.answer(text))
    const { cli, state, server } = await home(says('one'), says('two'))
    const { url } = options()
    const place = `${url}${url.includes('?') ? '&' : '?'}application_name=canary-name`
    expect(await cli('run', 'hi', '--ledger', place)).toMatchObject({ code: 0, stdout: 'one\n' })
    const provider = {
      name: 'anthropic',
      model: 'claude-haiku-4-5',
      baseUrl: server.url,
      authProfiles: [{ id: 'primary', apiKey: 'canary-key-of-the-config' }],
    }
    writeFileSync(
      join(state, 'myclaw.json'),
      JSON.stringify({ provider, agent: { ledger: place } }),
    )
    expect(await cli('run', 'again')).toMatchObject({ code: 0, stdout: 'two\n' })
    expect(server.seen[1]?.body.messages).toHaveLength(3)
    expect((await cli('show', 'main')).stdout).toContain('two')
    expect((await cli('verify')).code).toBe(0)
    const { stdout } = await cli('doctor')
    expect(stdout).toMatch(/ledger .*PostgreSQL \d+/)
    expect(stdout).not.toContain('canary')
    expect(existsSync(join(state, 'agent.db'))).toBe(false)
  },
)
