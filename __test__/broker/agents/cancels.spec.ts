// Three levels of agents, cancelled at every point, in every way: no row without an owner, no session that runs on, and budgets that are
// settled to the token. It must never wait for a time: the test answers each request of the model.

import { expect, test } from 'vitest'
import { askedServer, brokerAt } from '../../support/broker.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'

const label = 'agent:main:main'
const cost = { input: 3, output: 15, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, tiers: [] }
const agents = { main: { model: 'test-model', provider: 'test', subagents: {} } }

/** The requests of the tree in their order: what each is answered with. */
const points = ['the parent', 'its child', 'the grandchild', 'the child again', 'the parent again']
const ways = ['abort of the parent', 'cancellation of the task', 'abort of the worker'] as const

for (const [at, point] of points.entries()) {
  for (const way of ways) {
    // There is no task before the parent has given one, and none after it has ended.
    if (way !== 'abort of the parent' && (at === 0 || at === 4)) continue
    test(`${way}, while the model has the request of ${point}`, async () => {
      const { server, next } = await askedServer()
      const { broker, engine, file } = brokerAt(
        server.url,
        { agents, queue: { pulseMs: 20 } },
        {
          budgets: [
            { per: 'day', maxTokens: 1_000_000 },
            { per: 'tree', maxTokens: 1_000_000 },
          ],
          models: [
            {
              provider: 'test',
              id: 'test-model',
              contextWindow: 200_000,
              maxOutputTokens: 1_000,
              cost,
            },
          ],
        },
      )
      const { result } = broker.execute({ to: { session: label }, message: 'go' })
      const spawn = (task: string) => ['c', 'spawn_agent', { task }] as [string, string, unknown]
      const answers = [
        (asked: Awaited<ReturnType<typeof next>>) => asked.calls(spawn('child')),
        (asked: Awaited<ReturnType<typeof next>>) => asked.calls(spawn('grandchild')),
        (asked: Awaited<ReturnType<typeof next>>) => asked.answer('deep'),
        (asked: Awaited<ReturnType<typeof next>>) => asked.answer('middle'),
        (asked: Awaited<ReturnType<typeof next>>) => asked.answer('top'),
      ]
      for (const answer of answers.slice(0, at)) answer(await next())
      const open = await next()
      const [task] = await broker.dispatches(label)
      if (way === 'abort of the parent') await broker.abort(label)
      else if (way === 'cancellation of the task') await broker.cancelDispatch(task?.id ?? '')
      else await broker.abort(task?.sessionLabel ?? '')
      // The parent goes on where only its task was ended.
      if (way !== 'abort of the parent') (await next()).answer('alone')
      const { stopReason } = await result
      expect(stopReason).toBe(way === 'abort of the parent' ? 'aborted' : 'end_turn')
      // The abort reaches the request itself, wherever in the tree it is.
      await open.closed
      open.answer('too late')

      // What is still being stored is stored when nothing runs.
      await broker.close()
      const query = async (sql: string) => (await engine.ledger.query(sql)).rows
      expect(
        await query(
          `SELECT status FROM queue_items WHERE status IN ('pending', 'processing')
           UNION ALL SELECT status FROM dispatches WHERE status = 'active'`,
        ),
      ).toEqual([])
      expect(await engine.recover()).toEqual([])
      const tasks = await query('SELECT status FROM dispatches ORDER BY created_at, id')
      const ended = at === 0 ? 0 : at === 1 ? 1 : 2
      expect(tasks).toHaveLength(ended)
      for (const { status } of tasks) expect(['ok', 'aborted']).toContain(status)
      if (at > 0 && at < 4) expect(tasks[0]?.status).toBe('aborted')
      expect(
        await query(
          `SELECT (SELECT count(*) FROM budget_reservations) AS reserved,
             (SELECT tokens FROM budget_accounts WHERE id LIKE 'day:%')
               - (SELECT sum(total_tokens) FROM turns) AS unsettled,
             (SELECT count(*) FROM budget_accounts WHERE id LIKE 'tree:%') AS trees`,
        ),
      ).toEqual([{ reserved: 0, unsettled: 0, trees: 0 }])
      await engine.close()
      if (sqlite3) expectSound(file)
    })
  }
}
