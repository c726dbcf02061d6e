// A changed byte in the header of a ledger's file: a stable code, a message without the engine's SQL, and an unchanged file. It
// must never change a file that an engine has open.

import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'

interface Refusal {
  code: string
  message: string
}

/** The error of opening; null if it opens and `verify()` has read it. */
async function refusal(path: string): Promise<Refusal | null> {
  try {
    const engine = new AgentEngine({ ledger: { path } })
    await engine.ledger.verify()
    await engine.close()
    return null
  } catch (error) {
    return error as Refusal
  }
}

async function written(path: string): Promise<Buffer> {
  const { engine } = scriptedEngine(['one'], { ledger: { path } })
  await engine.run(context()).result
  await engine.close()
  return readFileSync(path)
}

test('a changed byte of the header is refused with its own code, and nothing is written', async () => {
  const { file } = folder()
  const whole = await written(file)
  const refused: Record<string, number[]> = {}
  for (let at = 0; at < 100; at++) {
    for (const change of [0x01, 0xff]) {
      const bytes = Buffer.from(whole)
      bytes[at] = (bytes[at] ?? 0) ^ change
      writeFileSync(file, bytes)
      const error = await refusal(file)
      if (error === null) continue
      expect(readFileSync(file).equals(bytes)).toBe(true)
      expect(error.message).not.toMatch(/CREATE|ALTER|SELECT|writable/)
      const offsets = refused[error.code] ?? []
      if (offsets.at(-1) !== at) offsets.push(at)
      refused[error.code] = offsets
    }
  }
  const { ledger_foreign, ledger_newer, ledger_corrupt, ...others } = refused
  expect(others).toEqual({})
  // The name of the format and the application id.
  const range = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, at) => from + at)
  expect(ledger_foreign).toEqual([...range(0, 16), ...range(68, 72)])
  // The schema's version: a larger one is a newer ledger's.
  expect(ledger_newer).toEqual(range(60, 64))
  // The file format's versions.
  for (const at of [18, 19]) expect(ledger_corrupt).toContain(at)
})

test.each([0, 1, 5])('a ledger whose header has schema version %i is damaged', async (version) => {
  const { file } = folder()
  const bytes = await written(file)
  bytes.writeUInt32BE(version, 60)
  writeFileSync(file, bytes)
  expect(await refusal(file)).toMatchObject({ code: 'ledger_corrupt' })
  expect(readFileSync(file).equals(bytes)).toBe(true)
})

test('an invalid argument of `whole_text` is an error of the query, a lost blob is damage', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine([{ text: 'x'.repeat(70_000) }], { ledger: { path: file } })
  closing(engine)
  await engine.run(context()).result
  for (const names of [
    '{',
    '[]',
    '7',
    '{"content":[{"at":99,"form":"text","hash":"none"}]}',
    '{"content":7}',
  ]) {
    const query = engine.ledger.query("SELECT whole_text('content', 'abc', ?)", [names])
    await expect(query).rejects.toMatchObject({
      code: 'invalid_query',
      message: expect.stringContaining('whole_text(column, value, blobs_json)'),
    })
  }
  for (const sql of ["SELECT whole_text(1, 'abc', '{}')", "SELECT whole_text('a', 2, '{}')"]) {
    await expect(engine.ledger.query(sql)).rejects.toMatchObject({ code: 'invalid_query' })
  }
  const lost = '{"content":[{"at":0,"form":"text","hash":"none"}]}'
  await expect(
    engine.ledger.query("SELECT whole_text('content', 'abc', ?)", [lost]),
  ).rejects.toMatchObject({ code: 'ledger_corrupt' })
  const { rows } = await engine.ledger.query(
    "SELECT length(whole_text('content', content, blobs_json)) AS n FROM messages WHERE role = 'assistant'",
  )
  expect(rows).toEqual([{ n: 70_000 }])
})
