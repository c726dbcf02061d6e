// A ledger with a row of every kind, and the ledger of the first version: both written by `children/ledger/everything.mjs`. It
// must never write to the stored ledger of the first version.

import { readFileSync, writeFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { child } from '../processes/child.js'
import { killable } from '../processes/killable.js'

/** Writes a new ledger, with an interrupted turn, and checkpoints its log. */
export async function everything(file: string): Promise<void> {
  const building = killable('ledger/everything.mjs', ['build', file])
  await building.line('ready')
  building.kill()
  expect(await building.ended).toBe('SIGKILL')
  await settle(file)
}

/** Opens and closes a ledger, so that all of it is in its file. */
export async function settle(file: string): Promise<void> {
  const engine = new AgentEngine({ ledger: { path: file } })
  await engine.ledger.stats()
  await engine.close()
}

const golden = (name: string) =>
  gunzipSync(readFileSync(new URL(`../../fixtures/ledger-0.1/${name}.gz`, import.meta.url)))

/** A copy of the ledger of version 0.1.0. */
export function firstVersion(file: string): void {
  writeFileSync(file, golden('ledger.db'))
}

/** The next request of version 0.1.0, for each session of that ledger. */
export const firstRequests = (): string => golden('requests.txt').toString('utf8')

/** The next request of each session of a ledger. */
export async function nextRequests(file: string): Promise<string> {
  const { code, out, err } = await child('ledger/everything.mjs', ['next', file])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}
