// The budget of a turn whose process has ended: nothing of it is left when the turn is discarded. It must never ask the process that is
// killed for anything.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { closing, folder, serving } from '../../support/cleanup.js'
import { killable } from '../../support/processes/killable.js'

test('a turn that is discarded leaves neither an account of its budget nor a reservation', async () => {
  let asked = () => {}
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve
  })
  // It never answers: the call is under way when its process is killed.
  const server = await serving(() => asked())
  const { file } = folder()
  const child = killable('broker/budgeted.mjs', [file, server.url])
  await Promise.race([isAsked, child.ended])
  child.kill()
  await child.ended
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const read = async () => {
    const { rows } = await engine.ledger.query(
      `SELECT 'account ' || id AS kind FROM budget_accounts
       UNION ALL SELECT 'call ' || account FROM budget_reservations`,
    )
    return rows.map(({ kind }) => String(kind).split(':')[0]).sort()
  }
  expect(await read()).toEqual([
    'account run',
    'account tree',
    'account turn',
    'call run',
    'call tree',
    'call turn',
  ])
  // On a server when the lease of the killed process has ended.
  await expect.poll(() => engine.recover(), { timeout: 20_000 }).toHaveLength(1)
  const [turn] = await engine.recover()
  await engine.discard(turn?.turnId ?? '')
  expect(await read()).toEqual([])
})
