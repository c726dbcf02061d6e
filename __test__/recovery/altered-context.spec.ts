// The stored context of an interrupted turn (its permissions, tools, model, prompt): after a change by another SQLite it must not
// be used. It must never open the file beside an engine.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { afterwards, folder } from '../support/cleanup.js'
import { refusal, rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'
import { counter } from '../support/servers/effect-counter.js'

const interrupted = async () => {
  const { file } = folder()
  const service = await counter()
  afterwards(() => service.close())
  const changes = JSON.stringify({ stopAt: 'after pure one' })
  const child = killable('recovery/recovery.mjs', [file, service.url, 'run', 'main', changes])
  await child.line('at after pure one')
  child.kill()
  await child.ended
  return file
}

test.skipIf(!sqlite3)(
  'an altered context is listed as not resumable, and neither resumed nor used',
  async () => {
    const file = await interrupted()
    const granted = `json_set(context_json, '$.permissionsGranted', json('["everything"]'))`
    rows(file, `UPDATE run_contexts SET context_json = ${granted}`)
    const engine = new AgentEngine({ ledger: { path: file } })
    const [turn] = await engine.recover()
    expect(turn).toMatchObject({ sessionLabel: 'main', resumable: false })
    const id = turn?.turnId ?? ''
    expect(await refusal(engine.resume(id))).toEqual({ code: 'ledger_corrupt' })
    expect(await engine.ledger.turn(id)).toMatchObject({
      status: 'streaming',
      permissionsGranted: [],
    })
    // It can be closed, with its output.
    await engine.discard(id)
    expect(await engine.recover()).toEqual([])
    const closed = await engine.ledger.turn(id)
    expect(closed).toMatchObject({ status: 'failed', permissionsGranted: [] })
    expect(closed?.toolCalls.map(({ toolName }) => toolName)).toContain('pure')
    await engine.close()
  },
)

test.skipIf(!sqlite3)(
  'an altered entry of the turn: it is not resumable, and its values are not used',
  async () => {
    const file = await interrupted()
    rows(
      file,
      'UPDATE journal SET entry = zeroblob(length(entry)) WHERE id = (SELECT min(id) FROM journal WHERE kind = 1)',
    )
    const engine = new AgentEngine({ ledger: { path: file } })
    const [turn] = await engine.recover()
    expect(turn).toMatchObject({ resumable: false })
    const id = turn?.turnId ?? ''
    expect(await refusal(engine.resume(id))).toEqual({ code: 'ledger_corrupt' })
    // It can be closed, with what can still be read of it.
    await engine.discard(id)
    expect(await engine.recover()).toEqual([])
    expect(await engine.ledger.turn(id)).toMatchObject({ status: 'failed' })
    await engine.close()
  },
)
