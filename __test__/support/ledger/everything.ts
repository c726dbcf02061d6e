// A ledger with a row of every kind, and the ledger of the first version: both of `children/ledger/everything.mjs`.

import { readFileSync, writeFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { child } from '../processes/child.js'
import { killable } from '../processes/killable.js'

/** Writes the ledger anew, with a turn that a kill has interrupted, and folds its log in. */
export async function everything(file: string): Promise<void> {
  const building = killable('ledger/everything.mjs', ['build', file])
  await building.line('ready')
  building.kill()
  expect(await building.ended).toBe('SIGKILL')
  await settle(file)
}

/** Opens and closes a ledger, so that all of it stands in its file. */
export async function settle(file: string): Promise<void> {
  const engine = new AgentEngine({ ledger: { path: file } })
  await engine.ledger.stats()
  await engine.close()
}

const golden = (name: string) =>
  gunzipSync(readFileSync(new URL(`../../fixtures/ledger-0.1/${name}.gz`, import.meta.url)))

/** A copy of the ledger that version 0.1.0 has written. */
export function firstVersion(file: string): void {
  writeFileSync(file, golden('ledger.db'))
}

/** What version 0.1.0 asked next, of each session of that ledger. */
export const firstRequests = (): string => golden('requests.txt').toString('utf8')

/** What is asked next of each session of a ledger. */
export async function nextRequests(file: string): Promise<string> {
  const { code, out, err } = await child('ledger/everything.mjs', ['next', file])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}
