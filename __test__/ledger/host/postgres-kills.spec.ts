// Processes that are killed at an answer of the server, each answer in turn in the full proof: what the server has done by then stays, and
// the next process completes it. It must never ask a process that is killed for anything, nor use a server of the machine's own.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { afterwards, closing, serving } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasCluster, line } from '../../support/ledger/cluster.js'
import { histories } from '../../support/ledger/dump.js'
import { ledgerAt } from '../../support/ledger/named.js'
import { killable } from '../../support/processes/killable.js'
import { chat } from '../../support/servers/chat.js'
import { sse } from '../../support/servers/server.js'

const live = test.skipIf(!hasCluster)
/** Every answer with `all`; otherwise a few. */
const step = (variable: string) => (process.env[variable] === 'all' ? 1 : 11)
const long = { timeout: 3_600_000 }
/** More than one batch of a deletion. */
const TURNS = 70

let server: Cluster
let proxy: Awaited<ReturnType<typeof line>>
beforeAll(async () => {
  if (!hasCluster) return
  server = await new Cluster().start()
  proxy = await line(server)
})
afterAll(async () => {
  await proxy?.end()
  await server?.end()
})

/** A ledger in a database of its own, and the same behind the line. */
const at = (database: string) => {
  const name = (url: string) => `${url.replace('/postgres?', `/${database}?`)}#agent`
  return { direct: name(server.url), behind: name(proxy.url) }
}

/** Runs a child until the answer with this number is there and nobody learns of it; false where it had ended before. */
async function killedAt(answer: number, script: string, args: string[], database: string) {
  const lost = proxy.lost()
  await proxy.set({ freezeAt: answer })
  const child = killable(script, args, { LEASE_MS: '2000' })
  afterwards(() => child.kill('SIGKILL'))
  let ended = false
  void child.ended.then(() => {
    ended = true
  })
  while (proxy.lost() === lost && !ended) await new Promise((resolve) => setTimeout(resolve, 2))
  const isKilled = proxy.lost() > lost
  child.kill('SIGKILL')
  await child.ended
  await proxy.set({ cuts: true })
  const others = `select count(*) from pg_stat_activity where datname = '${database}'`
  await server.has(others, '0')
  return isKilled
}

async function contents(engine: AgentEngine) {
  const tables = ['turns', 'messages', 'events', 'tool_calls', 'message_words', 'session_moves']
  tables.push('sessions', 'session_aliases', 'pending_deletions')
  const counts = tables.map((table) => `(select count(*) from ${table}) as ${table}`)
  const found = (await engine.ledger.search('words')).items.length
  const { rows } = await engine.ledger.query(`select ${counts.join(', ')}`)
  return { rows, found, histories: await histories(engine) }
}

const remove = (engine: AgentEngine, way: string) =>
  way === 'turns'
    ? engine.ledger.deleteTurns({ metadata: { doomed: true } }, { followers: true })
    : engine.ledger.deleteSession('doomed', { turns: true })

for (const way of ['session', 'turns']) {
  live(
    `a deletion (${way}) that is killed at an answer is completed by the next one`,
    long,
    async () => {
      server.sql(`create database whole_${way}`)
      const whole = scriptedEngine(
        Array.from({ length: TURNS + 8 }, (_, n) => ({ text: `words ${n}` })),
        { ledger: ledgerAt(at(`whole_${way}`).direct) },
      ).engine
      const run = (sessionLabel: string, metadata?: object) =>
        whole.run(context({ sessionLabel, metadata } as object)).result
      const first = await run('doomed')
      for (let n = 0; n < 3; n++) await run('remaining')
      for (let n = 0; n < TURNS; n++) await run('doomed', { doomed: true })
      await whole.ledger.fork(first.turnId, 'fork')
      await run('fork')
      await whole.ledger.alias('name', 'doomed')
      await whole.ledger.search('words')
      await whole.close()
      const copy = async (database: string) => {
        await server.has(
          `select count(*) from pg_stat_activity where datname = 'whole_${way}'`,
          '0',
        )
        server.sql(`create database ${database} template whole_${way}`)
        return at(database)
      }
      const undisturbed = closing(
        new AgentEngine({ ledger: ledgerAt((await copy(`u_${way}`)).direct) }),
      )
      await remove(undisturbed, way)
      const wanted = await contents(undisturbed)
      let kills = 0
      for (let answer = 5; ; answer += step('DELETION_KILLS')) {
        const database = `k_${way}_${answer}`
        const { direct, behind } = await copy(database)
        const killed = await killedAt(answer, 'recovery/deletion.mjs', [behind, way], database)
        const engine = new AgentEngine({ ledger: ledgerAt(direct) })
        expect((await engine.ledger.verify()).problems).toEqual([])
        expect(await engine.ledger.history('remaining')).toHaveLength(6)
        if ((await engine.ledger.session('doomed')) !== null) await remove(engine, way)
        else await engine.ledger.prune({ before: 0 })
        expect([answer, await contents(engine)]).toEqual([answer, wanted])
        expect((await engine.ledger.verify()).problems).toEqual([])
        await engine.close()
        if (!killed) break
        kills += 1
      }
      console.log(`${kills} kills: ${way}`)
      expect(kills).toBeGreaterThan(1)
    },
  )
}

live(
  'facts are extracted once from each turn, at whichever answer a process is killed',
  long,
  async () => {
    let calls = 0
    const { url } = await serving((response, seen) => {
      const end = chat.finish('stop') + chat.usage(30, 4) + chat.done()
      if (seen.body.response_format === undefined)
        return sse(chat.text('Noted.'), end)(response, seen)
      calls += 1
      const [, entity] = /I am in (\w+)/.exec(seen.raw) ?? []
      const fact = {
        entity,
        type: 'is',
        content: `here: ${entity}`,
        confidence: 1,
        replaces: false,
      }
      return sse(chat.text(JSON.stringify({ facts: [fact] })), end)(response, seen)
    })
    let kills = 0
    for (let answer = 12; ; answer += 3 * step('EXTRACTION_KILLS')) {
      const database = `facts_${answer}`
      server.sql(`create database ${database}`)
      const { direct, behind } = at(database)
      const before = calls
      await new AgentEngine({ ledger: ledgerAt(direct) }).close()
      const script = 'memory/extractor.mjs'
      const killed = await killedAt(answer, script, [behind, url, 'one', 'two', 'three'], database)
      // Without a memory: the next process is the one that extracts.
      const host = closing(new AgentEngine({ ledger: ledgerAt(direct) }))
      const open = "select 1 as n from turns where status = 'streaming'"
      // Until the lease of the killed process has ended.
      while ((await host.ledger.query(open)).rows.length > 0)
        for (const { turnId } of await host.recover()) await host.discard(turnId)
      await host.close()
      expect(await killable(script, [direct, url, 'last']).ended).toBe(null)
      const engine = closing(new AgentEngine({ ledger: ledgerAt(direct) }))
      const rows = async (sql: string) => (await engine.ledger.query(sql)).rows
      const turns = await rows(
        "select id as turn_id, session_label as entity from turns where status = 'completed' order by id",
      )
      expect([
        answer,
        await rows('select turn_id, entity from memory_facts order by turn_id'),
      ]).toEqual([answer, turns])
      expect(calls - before).toBeLessThanOrEqual(turns.length + 1)
      expect((await engine.ledger.verify()).problems).toEqual([])
      await engine.close()
      if (!killed) break
      kills += 1
    }
    console.log(`${kills} kills of extractions`)
    expect(kills).toBeGreaterThan(1)
  },
)
