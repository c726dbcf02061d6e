// A memory whose file is deleted or moved while an engine has it open: every call fails with that, and no answer of a turn is lost. It must
// never open the file by another library.

import { copyFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { refusal } from '../../support/ledger/sqlite3.js'
import { hashingEmbedder } from '../../support/values/hashing-embedder.js'

const defaults = { model: 'test-model', provider: 'test' }
const suffixes = ['', '-wal', '-shm']

function remembering(path: string, replies: Parameters<typeof scriptedEngine>[0]) {
  const memory = { embedder: { embed: hashingEmbedder } }
  return closing(scriptedEngine(replies, { ledger: { path }, memory, defaults }).engine)
}

const cases: [string, (file: string) => void][] = [
  ['deleted', (file) => rmSync(file)],
  ['moved', (file) => renameSync(file, `${file}.moved`)],
]

/** Takes the file with its log. */
function takeAll(file: string, take: (file: string) => void): void {
  for (const suffix of suffixes) take(file + suffix)
}

test.skipIf(process.platform === 'win32').each(cases)(
  'a store that is %s meanwhile: the turn has its answer, each call of the memory says why it fails, and the engine closes',
  async (name, take) => {
    const { path, file } = folder()
    const replies = [{ text: 'Noted.' }, { toolCalls: [{ name: 'take', arguments: {} }] }]
    const engine = remembering(file, [...replies, { text: 'The answer.' }])
    await engine.run('The code is rosebud.', { session: 'main' }).result
    expect((await engine.memory.search('rosebud', { session: 'main' })).hits).toHaveLength(1)
    const run = () => {
      takeAll(file, take)
      return 'taken'
    }
    const tools = [{ name: 'take', replay: 'pure' as const, run }]
    const result = await engine.run('Go.', { session: 'main', tools }).result
    expect(result).toMatchObject({
      stopReason: 'end_turn',
      persisted: false,
      persistError: { code: 'ledger_replaced' },
    })
    expect(result.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'The answer.' })
    const { memory } = engine
    const fact = { entity: 'ann', type: 'home', content: 'Rome', session: 'main' }
    for (const call of [
      () => memory.search('rosebud', { session: 'main' }),
      () => memory.context('rosebud', { session: 'main' }),
      () => memory.storeFact(fact),
      () => memory.facts({ session: 'main' }),
      () => memory.forget({ entity: 'ann' }),
      () => memory.summary('main'),
      () => memory.reindex(),
      () => memory.stats(),
    ]) {
      expect(await refusal(call())).toEqual({ code: 'ledger_replaced' })
    }
    await engine.close()
    if (name === 'deleted') return
    const copy = join(path, 'copy.db')
    for (const suffix of suffixes) copyFileSync(`${file}${suffix}.moved`, copy + suffix)
    const again = remembering(copy, [])
    const { hits } = await again.memory.search('rosebud', { session: 'main' })
    expect(hits).toMatchObject([{ excerpt: 'The code is rosebud.' }])
    expect(await again.ledger.verify()).toMatchObject({ ok: true })
  },
)
