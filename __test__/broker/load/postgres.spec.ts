// Brokers of several processes on one ledger in PostgreSQL, as on several machines: one queue, one outbox, tasks and budgets, also
// where processes are killed. It must never depend on a server of the machine's own, nor ask a process that is killed for anything.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine, Broker } from '../../../index.js'
import { onlyPending, paying } from '../../support/approvals.js'
import { askedServer, echoing, treeModel, userTexts } from '../../support/broker.js'
import { afterwards, closing, folder, serving } from '../../support/cleanup.js'
import { engineAt } from '../../support/engine.js'
import { ledgerAt } from '../../support/ledger/named.js'
import { hasPostgres, postgresServer } from '../../support/ledger/postgres.js'
import { killRound } from '../../support/processes/kill-rounds.js'
import { killable } from '../../support/processes/killable.js'
import { anthropic } from '../../support/servers/anthropic.js'

/** The rounds of each test with kills. */
const rounds = Number(process.env.POSTGRES_BROKER_KILLS ?? 1)
/** So long a killed process has its sessions. */
const env = { LEASE_MS: '500' }

const schema = postgresServer()
const live = test.skipIf(!hasPostgres)

/** The name of a new ledger. */
function fresh(): string {
  const { url, schema: name } = schema()
  return `${url}#${name}`
}

/** What statements print, by the server's own client. */
function psql(name: string, sql: string): string {
  const [url = '', at] = name.split('#')
  const done = spawnSync('psql', [url, '-AtXqc', sql], {
    encoding: 'utf8',
    env: { ...process.env, PGOPTIONS: `-c search_path=${at}` },
  })
  expect([done.status, done.stderr]).toEqual([0, ''])
  return done.stdout
}

/** The rows of a statement. */
const query = (name: string, sql: string): Record<string, unknown>[] =>
  JSON.parse(psql(name, `select coalesce(json_agg(t), '[]') from (${sql}) t`))

/** Has the server write what is spent and reserved of an account at the end of each transaction that changes it, while it has the lock. */
async function recordBudgets(name: string): Promise<void> {
  const owner = new AgentEngine({ ledger: ledgerAt(name) })
  await owner.ledger.query('SELECT 1')
  await owner.close()
  const trigger = (table: string, column: string) => `
    create constraint trigger recorded after insert or update or delete on ${table} deferrable initially deferred
      for each row execute function record_budget('${column}')`
  psql(
    name,
    `create table budget_commits (account text, nanos bigint);
    create function record_budget() returns trigger language plpgsql set search_path from current as $$
      declare at text := to_jsonb(coalesce(new, old)) ->> tg_argv[0];
      begin
        insert into budget_commits select at,
          coalesce((select sum(a.nanos) from budget_accounts a where a.id = at), 0)
            + coalesce((select sum(r.nanos) from budget_reservations r where r.account = at), 0);
        return null;
      end $$;
    ${trigger('budget_accounts', 'id')}; ${trigger('budget_reservations', 'account')}`,
  )
}

/** A model whose agents answer, call the tool `note`, or give tasks, by the message. */
const model = () =>
  serving((response, { body }) => {
    const last = userTexts({ body } as never).at(-1) ?? ''
    const isManager = JSON.stringify(body.system ?? '').includes('manager')
    const hasResult = JSON.stringify(body.messages.at(-1).content).includes('tool_result')
    const [, task = '', number = '0'] = /<(\w+-(\d+))>$/.exec(last) ?? []
    const calls = (name: string, params: unknown) => anthropic.calls(['call_1', name, params])
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (hasResult || task === '') response.end(anthropic.answer('done'))
    else if (!isManager && last.startsWith('task')) response.end(anthropic.answer(`did ${last}`))
    else if (!isManager) {
      const odd = Number(number) % 2 === 1
      response.end(odd ? calls('note', {}) : anthropic.answer('done'))
    } else if (Number(number) % 2 === 0) {
      const content = `task <${task}>`
      response.end(calls('agent_send', { op: 'dispatch', target: 'coder', content }))
    } else response.end(calls('spawn_agent', { agent: 'coder', task: `task <${task}>` }))
  })

const ended = /^(delivered |failed (interrupted|run_failed))$/

live(
  'three brokers on one session, killed at any step: each message is answered once, or visibly failed',
  {
    timeout: 600_000,
  },
  async () => {
    const server = await model()
    for (let round = 0; round < rounds; round++) {
      const name = fresh()
      const receipts = await killRound({
        script: 'broker/sender.mjs',
        processes: 3,
        args: (of, count, until) => [name, server.url, `r${round}${of}`, String(count), until],
        messages: [6, 2],
        step: (number) => 1 + ((round * 7 + number * 5) % 40),
        sendsFirst: false,
        env,
      })
      const items = query(name, 'select id, status, reason from queue_items')
      const engine = closing(new AgentEngine({ ledger: ledgerAt(name) }))
      const history = await engine.ledger.history('main')
      const asked = history.filter(({ role }) => role === 'user').map(({ content }) => content)
      for (const [id, text] of receipts) {
        const { status, reason } = items.find((row) => row.id === id) ?? {}
        const times = asked.filter((content) => content === text).length
        expect(`${status} ${reason ?? ''}`).toMatch(ended)
        expect(times).toBe(status === 'delivered' ? 1 : Math.min(times, 1))
      }
      const open = items.filter(({ status }) => status === 'pending' || status === 'processing')
      expect(open).toEqual([])
      expect(new Set(asked).size).toBe(asked.length)
      expect(await engine.recover()).toEqual([])
      // One chain: each turn follows the one before.
      const forks = query(
        name,
        "select parent_turn_id from turns where status = 'completed' group by 1 having count(*) > 1",
      )
      expect(forks).toEqual([])
    }
  },
)

live(
  'three brokers whose agents give tasks, killed at any step: each task has one result',
  {
    timeout: 600_000,
  },
  async () => {
    const server = await model()
    for (let round = 0; round < rounds; round++) {
      const name = fresh()
      await killRound({
        script: 'broker/manager.mjs',
        processes: 3,
        args: (of, count, until) => [name, server.url, `r${round}${of}`, String(count), until],
        messages: [2, 2],
        step: (number) => 5 + ((round * 11 + number * 7) % 30),
        sendsFirst: true,
        env,
      })
      const dispatches = query(name, 'select id, kind, status from dispatches')
      expect(dispatches.length).toBeGreaterThan(0)
      const results = query(
        name,
        "select sender_json::json->>'dispatchId' as id from queue_items where sender_json::json->>'kind' = 'worker_result'",
      ).map(({ id }) => id)
      const told = dispatches.filter(({ kind }) => kind === 'dispatch').map(({ id }) => id)
      expect(results.toSorted()).toEqual(told.toSorted())
      for (const { status } of dispatches) expect(status).toMatch(/^(ok|aborted)$/)
    }
  },
)

live(
  'three processes with one outbox, killed at any step: each answer is delivered',
  {
    timeout: 600_000,
  },
  async () => {
    const server = await echoing()
    for (let round = 0; round < rounds; round++) {
      const name = fresh()
      const log = join(folder().path, 'deliveries.log')
      await killRound({
        script: 'broker/deliverer.mjs',
        processes: 3,
        args: (of, count, until) => [name, log, server.url, `r${round}${of}`, String(count), until],
        messages: [4, 2],
        step: (number) => 2 + ((round * 11 + number * 7) % 60),
        sendsFirst: false,
        env,
      })
      const rows = query(name, 'select turn_id, status from deliveries')
      expect(rows.filter(({ status }) => status !== 'delivered')).toEqual([])
      const lines = readFileSync(log, 'utf8').trim().split('\n')
      const done = new Set(
        lines.filter((line) => line.startsWith('end ')).map((it) => it.split(' ')[2]),
      )
      expect(rows.filter(({ turn_id }) => !done.has(String(turn_id)))).toEqual([])
      const unanswered = query(
        name,
        "select id from queue_items where status <> 'delivered' or turn_id not in (select turn_id from deliveries)",
      )
      expect(unanswered).toEqual([])
    }
  },
)

live(
  'three processes have never reserved or spent more than their budget, at any commit',
  async () => {
    const server = await treeModel()
    const name = fresh()
    const trees = Number(process.env.POSTGRES_TREES ?? 9)
    const cap = trees * 0.001
    await recordBudgets(name)
    const children = ['a', 'b', 'c'].map((of, number) => {
      const count = Math.ceil((trees - number) / 3)
      return killable('broker/spender.mjs', [name, server.url, of, String(count), String(cap)])
    })
    await Promise.all(
      children.map(async (child) => {
        await child.line('ended')
        await child.ended
      }),
    )
    const endings = children.flatMap(({ lines }) => lines.filter((line) => line !== 'ended'))
    expect(endings).toHaveLength(trees)
    for (const ending of endings) expect(ending).toMatch(/^(end_turn |error budget_exceeded)$/)
    const [account, ...others] = query(name, 'select id, tokens, nanos from budget_accounts')
    expect(others).toEqual([])
    const [turns] = query(name, 'select sum(total_tokens)::int as tokens from turns')
    expect([account?.id, account?.tokens]).toEqual([
      expect.stringMatching(/^day:\d+$/),
      turns?.tokens,
    ])
    const [commits] = query(
      name,
      'select count(*)::int as all, max(nanos)::float8 as most from budget_commits',
    )
    // Each tree has at least a call that is reserved and settled.
    expect(commits?.all).toBeGreaterThan(trees * 2)
    expect(commits?.most).toBeGreaterThanOrEqual(account?.nanos as number)
    expect(commits?.most).toBeLessThanOrEqual(cap * 1e9)
    expect(query(name, 'select * from budget_reservations')).toEqual([])
  },
)

live(
  'a call that waits in one process is decided about in another, and goes on where it waited',
  async () => {
    const { server, next } = await askedServer()
    const name = fresh()
    const ran: unknown[] = []
    const at = () => {
      const engine = closing(engineAt(server.url, { ledger: ledgerAt(name) }))
      const broker = new Broker(engine, {
        agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
        toolsets: { house: [paying(ran)] },
        queue: { pulseMs: 20 },
      })
      afterwards(() => broker.close({ drainMs: 0 }))
      return { engine, broker }
    }
    const [one, other] = [at(), at()]
    const paid = one.broker.execute({ to: { session: 'main' }, message: 'pay' })
    ;(await next()).calls(['call_1', 'pay', { to: 'shop', amount: 7 }])
    const { id } = await onlyPending(one.engine)
    const receipt = await other.broker.send({ to: { session: 'main' }, message: 'and?' })
    expect(receipt.disposition).toBe('queued')
    expect(ran).toEqual([])
    await other.broker.approve(id)
    ;(await next()).answer('paid')
    expect([(await paid.result).text, ran]).toEqual(['paid', [{ to: 'shop', amount: 7 }]])
    const last = await next()
    expect(last.texts).toEqual(['pay', 'and?'])
    last.answer('that is all')
    await expect(one.broker.approve(id)).rejects.toMatchObject({ code: 'already_decided' })
  },
)
