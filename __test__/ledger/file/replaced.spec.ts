// An open ledger whose files are deleted, moved or replaced: acknowledged turns are on the disk at its path. It must never
// read a file that an engine has open other than by its name.

import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine, type AgentEngineError } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, readAll, scriptedEngine } from '../../support/engine.js'
import { refusal } from '../../support/ledger/sqlite3.js'

/** A ledger at `file` with one turn, open. */
async function opened(file: string) {
  const { engine } = scriptedEngine(['one', 'two', 'three'], { ledger: { path: file } })
  closing(engine)
  expect((await engine.run(context()).result).persisted).toBe(true)
  return engine
}

function codeOf(open: () => unknown): string {
  try {
    open()
  } catch (error) {
    return (error as AgentEngineError).code
  }
  return 'opened'
}

const cases: [string, (file: string, other: string) => void][] = [
  ['deleted', (file) => rmSync(file)],
  [
    'deleted with its log',
    (file) => {
      for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix)
    },
  ],
  ['moved aside', (file) => renameSync(file, `${file}.aside`)],
  ['replaced by another ledger', (file, other) => renameSync(other, file)],
  ['left without its log', (file) => rmSync(`${file}-wal`)],
  ['left without the index of its log', (file) => rmSync(`${file}-shm`)],
]

test.skipIf(process.platform === 'win32').each(cases)(
  'a ledger that was %s while it was open acknowledges nothing more, fails every call with that, and can be opened again',
  async (_, take) => {
    const { path, file } = folder()
    const other = join(path, 'other.db')
    await (await opened(other)).close()
    const engine = await opened(file)
    take(file, other)
    const run = engine.run(context())
    const events = await readAll(run)
    const result = await run.result
    // Its history cannot be read: no request was sent.
    expect(result).toMatchObject({
      stopReason: 'error',
      error: { detail: { kind: 'storage' } },
      persisted: false,
      persistError: { code: 'ledger_replaced' },
    })
    expect(events.at(-1)).toMatchObject({
      type: 'stream_error',
      error: expect.stringMatching(/ledger .*(deleted|replaced).* while it was open/),
    })
    const { ledger } = engine
    const calls = [
      () => ledger.verify(),
      () => ledger.session('agent:main:main'),
      () => ledger.query('SELECT 1'),
      () => ledger.backup(join(path, 'copy.db')),
      () => ledger.vacuum(),
    ]
    for (const call of calls) expect(await refusal(call())).toEqual({ code: 'ledger_replaced' })
    expect(existsSync(join(path, 'copy.db'))).toBe(false)
    await engine.close()
    if (existsSync(`${file}.aside`)) copyFileSync(`${file}.aside`, join(path, 'aside.db'))
    const again = new AgentEngine({ ledger: { path: file } })
    closing(again)
    expect(await again.ledger.verify()).toMatchObject({ ok: true })
    const turns = await again.ledger.query('SELECT count(*) AS turns FROM turns')
    expect(Number(turns.rows[0]?.turns)).toBeLessThanOrEqual(1)
    if (existsSync(join(path, 'aside.db'))) {
      const separate = new AgentEngine({ ledger: { path: join(path, 'aside.db') } })
      closing(separate)
      expect(await separate.ledger.turn(result.turnId)).toBe(null)
      expect((await separate.ledger.query('SELECT id FROM turns')).rows).toHaveLength(1)
    }
  },
)

test.skipIf(process.platform === 'win32').each(cases)(
  'a ledger that is %s while a tool runs: the answer is whole, and is marked as not written',
  async (_, take) => {
    const { path, file } = folder()
    const other = join(path, 'other.db')
    await (await opened(other)).close()
    const replies = [{ toolCalls: [{ name: 'take', arguments: {} }] }, 'after it']
    const { engine, provider } = scriptedEngine(replies, { ledger: { path: file } })
    closing(engine)
    const tool = {
      name: 'take',
      replay: 'pure' as const,
      run: () => {
        take(file, other)
        return 'taken'
      },
    }
    const result = await engine.run(context({ tools: [tool] })).result
    expect(result).toMatchObject({
      stopReason: 'end_turn',
      persisted: false,
      persistError: { code: 'ledger_replaced' },
    })
    expect(result.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'after it' })
    expect(provider.requests).toHaveLength(2)
    await engine.close()
    const again = closing(new AgentEngine({ ledger: { path: file } }))
    // Nothing of the turn, or the part that was written before.
    const turn = await again.ledger.turn(result.turnId)
    expect(turn?.status ?? 'streaming').toBe('streaming')
  },
)

test.skipIf(process.platform === 'win32')(
  'while an engine has the lost ledger open, no other one is opened over its log',
  async () => {
    const { file } = folder()
    const engine = await opened(file)
    rmSync(file)
    expect(codeOf(() => new AgentEngine({ ledger: { path: file } }))).toBe('ledger_replaced')
    expect(existsSync(file)).toBe(false)
    await engine.close()
    const again = await opened(file)
    expect(await again.ledger.verify()).toMatchObject({ ok: true })
  },
)
