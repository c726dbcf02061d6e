// examples/cluster: three processes on one server, one of them killed. It must never depend on a server of the machine's own.

import { expect, test } from 'vitest'
import { cluster } from '../../../examples/cluster/cluster.mjs'
import { AgentEngine } from '../../../index.js'
import { closing } from '../../support/cleanup.js'
import { hasPostgres, postgresServer } from '../../support/ledger/postgres.js'

const server = postgresServer()

test.skipIf(!hasPostgres)(
  'a message is answered once, whichever of three processes took it, also where one is killed',
  async () => {
    const { url } = server()
    const options = { count: 12, sessions: 4, leaseMs: 500, postgres: url }
    const { answers, schema } = await cluster(options)
    expect([...answers.keys()].sort()).toEqual(Array.from({ length: 12 }, (_, n) => `m${n}`).sort())
    const engine = closing(new AgentEngine({ ledger: { url, schema, pool: 2 } }))
    const asked: string[] = []
    for (let n = 0; n < 4; n++) {
      const { threadId } = (await engine.ledger.session(`s${n}`)) ?? {}
      // One chain of turns, each completed, with one message each.
      const chain = await engine.ledger.ancestry(threadId ?? '')
      expect(chain.items.map(({ status }) => status)).toEqual([
        'completed',
        'completed',
        'completed',
      ])
      const history = await engine.ledger.history(`s${n}`)
      asked.push(...history.flatMap(({ role, content }) => (role === 'user' ? [content] : [])))
    }
    expect(asked.sort()).toEqual(Array.from({ length: 12 }, (_, n) => `message ${n}`).sort())
    expect(await engine.recover()).toEqual([])
  },
)
