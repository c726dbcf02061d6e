// Ledgers of the first version: they open, become current, are whole, and the next request of every session is the one that
// version 0.1.0 sent, byte for byte. `fixtures/ledger-0.1` was written by that version with `children/ledger/everything.mjs`.
// A later version must never write it again.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { folder } from '../support/cleanup.js'
import {
  everything,
  firstRequests,
  firstVersion,
  nextRequests,
} from '../support/ledger/everything.js'

test('a ledger of version 0.1.0 becomes current and is whole', async () => {
  const { file } = folder()
  firstVersion(file)
  const engine = new AgentEngine({ ledger: { path: file } })
  expect(await engine.ledger.verify()).toMatchObject({
    ok: true,
    problems: [],
    checked: { sessions: 8, turns: 16, messages: 340, toolCalls: 9, blobs: 2 },
  })
  expect(await engine.recover()).toMatchObject([{ sessionLabel: 'interrupted', resumable: true }])
  expect((await engine.ledger.search('brick7')).items).toHaveLength(2)
  await engine.close()
})

test('every session of it continues with the request that version 0.1.0 sent', async () => {
  const { file } = folder()
  firstVersion(file)
  expect(await nextRequests(file)).toBe(firstRequests())
})

test('a ledger of this version continues with the same requests', async () => {
  const { file } = folder()
  await everything(file)
  expect(await nextRequests(file)).toBe(firstRequests())
})
