// Values over 64 KiB: each distinct one is stored once and compressed where that saves space, returned whole by every read, sent
// to a provider byte for byte, and named when it is damaged. It must never test how they are packed.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type AgentEngine, salvageLedger } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, scriptedEngine, testModel } from '../support/engine.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { noise } from '../support/values/incompressible.js'

const file = `{"a": "line\\n" }\n`.repeat(1 << 16)
const result = 'a "result" of 300 KB\n'.repeat(15_000)
const page = `${noise('page', 70_000)}\n`
const image = {
  type: 'image' as const,
  mimeType: 'image/png',
  data: Buffer.from(noise('image', 60_000)).toString('base64'),
}
const models = [{ ...testModel, contextWindow: 4_000_000 }]

const callsRead = (id: string, path: string) =>
  sse(anthropic.start(), anthropic.toolUse(0, id, 'read', { path }), anthropic.end('tool_use'))
const replyWith = (text: string) => sse(anthropic.answer(text))
const tools = [
  {
    name: 'read',
    parameters: { type: 'object', properties: { path: { type: 'string' } } },
    run: ({ path }: { path: string }) => (path === 'big' ? file : result),
  },
]
const shows = context({
  tools,
  currentMessage: {
    role: 'user',
    content: [{ type: 'text', text: 'read this' }, { type: 'text', text: page }, image],
  } as never,
})

async function stats(engine: AgentEngine) {
  return (await engine.ledger.stats()).blobs
}

describe('values over 64 KiB', () => {
  test('are stored once, and sent again byte for byte from the ledger', async () => {
    const { file: path } = folder()
    const server = await serving(
      callsRead('toolu_1', 'x'),
      replyWith('one'),
      callsRead('toolu_2', 'x'),
      replyWith('two'),
      replyWith('three'),
    )
    const first = closing(engineAt(server.url, { ledger: { path }, models }))
    const run = await first.run(shows).result
    expect([run.stopReason, run.persisted, run.warnings]).toEqual(['end_turn', true, []])
    const once = await stats(first)
    // The page, the picture, the result.
    expect(once.count).toBe(3)
    expect(once.storedBytes).toBeLessThan(once.bytes)
    await first.close()
    // The same as in another process: nothing of the conversation is in memory.
    const second = closing(engineAt(server.url, { ledger: { path }, models }))
    await second.run({ ...shows, runId: 'again' }).result
    const third = closing(engineAt(server.url, { ledger: { path }, models }))
    await second.close()
    await third.run(context({ tools })).result
    const twice = await stats(third)
    expect({ ...twice, savedBytes: 0 }).toEqual({ ...once, savedBytes: 0 })
    expect(twice.savedBytes).toBeGreaterThan(once.savedBytes + 900_000)
    // Each request is the previous one and the new messages.
    const sent = server.seen.map(({ body }) => body.messages as unknown[])
    const bare = (messages: unknown[]) =>
      JSON.parse(
        JSON.stringify(messages, (key, value) => (key === 'cache_control' ? undefined : value)),
      )
    for (const [at, messages] of sent.entries()) {
      if (at === 0) continue
      expect(bare(messages.slice(0, sent[at - 1]?.length))).toEqual(bare(sent[at - 1] ?? []))
    }
    const [requested, , answered] = bare(sent[4] ?? []) as { content: any[] }[]
    expect(requested?.content.map((it) => it.text ?? it.source.data)).toEqual([
      'read this',
      page,
      image.data,
    ])
    expect(answered?.content[0]).toMatchObject({ tool_use_id: 'toolu_1' })
    expect(JSON.stringify(answered)).toContain(JSON.stringify(result).slice(1, -1))
    // And every read returns them whole.
    const turn = await third.ledger.turn(run.turnId)
    expect(turn?.messages).toEqual(run.messages)
    expect(turn?.toolCalls).toEqual(run.toolCalls)
    expect((await third.ledger.history('agent:main:main')).slice(0, 4)).toMatchObject(run.messages)
    const { items } = await third.ledger.toolCalls({ toolName: 'read' })
    expect(items.map((call) => call.result)).toEqual([result, result])
    expect((await third.ledger.verify()).problems).toEqual([])
  })

  test('of a capped result are stored whole, and once for two reads of the same file', async () => {
    const { path, file: ledger } = folder()
    const { engine } = scriptedEngine(
      [
        { toolCalls: [{ name: 'read', arguments: { path: 'big' } }] },
        { toolCalls: [{ name: 'read', arguments: { path: 'big' } }] },
        'done',
      ],
      { ledger: { path: ledger } },
    )
    closing(engine)
    const run = await engine.run(context({ tools })).result
    expect(file.length).toBeGreaterThan(1_000_000)
    const storedTurn = await engine.ledger.turn(run.turnId)
    expect(storedTurn?.toolCalls.map((call) => call.result)).toEqual([file, file])
    const [capped] = storedTurn?.messages.filter(({ role }) => role === 'tool') ?? []
    expect(capped?.content).toContain('the full result is stored')
    // The file, and the part that the model received.
    expect((await stats(engine)).count).toBe(2)
    const { rows } = await engine.ledger.query(
      `SELECT length(result_json) AS length, whole_text('result_json', result_json, blobs_json) AS whole FROM tool_calls`,
    )
    expect(rows.map(({ length, whole }) => [length, JSON.parse(String(whole))])).toEqual([
      [2, file],
      [2, file],
    ])
    const { rows: named } = await engine.ledger.query(
      `SELECT r.column_name, b.size FROM blob_references r JOIN blobs b USING (hash)
       WHERE r.tool_call_id IS NOT NULL`,
    )
    expect(named).toEqual(Array(2).fill({ column_name: 'result_json', size: file.length }))
    // A file of a megabyte twice, in a ledger of a fraction of one.
    expect((await engine.ledger.stats()).fileBytes).toBeLessThan(600_000)
    const lines = join(path, 'all.jsonl')
    await engine.ledger.export(lines)
    const other = closing(scriptedEngine([], { ledger: { path: join(path, 'b.db') } }).engine)
    expect(await other.ledger.import(lines)).toMatchObject({ turns: 1, problems: [] })
    expect(await other.ledger.turn(run.turnId)).toEqual(storedTurn)
    expect((await stats(other)).count).toBe(2)
    await engine.ledger.vacuum()
    await engine.ledger.backup(join(path, 'c.db'))
    const copy = closing(scriptedEngine([], { ledger: { path: join(path, 'c.db') } }).engine)
    expect(await copy.ledger.turn(run.turnId)).toEqual(storedTurn)
    expect((await copy.ledger.verify()).problems).toEqual([])
  })

  test('a damaged one is named and affects nothing else, and a salvage returns the rest', async () => {
    const { path, file: ledger } = folder()
    const { engine } = scriptedEngine(['seen', 'heard'], { ledger: { path: ledger }, models })
    closing(engine)
    const other = noise('other', 30_000)
    const runTurn = (sessionLabel: string, content: string) =>
      engine.run(context({ sessionLabel, currentMessage: { role: 'user', content } })).result
    const damaged = await runTurn('a', page)
    const sound = await runTurn('b', other)
    const { rows } = await engine.ledger.query(
      'SELECT hash FROM blob_references WHERE turn_id = ?',
      [damaged.turnId],
    )
    await engine.close()
    const bytes = readFileSync(ledger)
    const at = bytes.indexOf(Buffer.from(page.slice(30_000, 30_100)))
    expect(at).toBeGreaterThan(0)
    bytes.writeUInt8((bytes[at] ?? 0) ^ 1, at)
    writeFileSync(ledger, bytes)
    const again = closing(scriptedEngine([], { ledger: { path: ledger } }).engine)
    const { ok, problems, checked } = await again.ledger.verify()
    expect([ok, checked.blobs]).toEqual([false, 2])
    const question = damaged.messages[0]?.id
    expect(problems.map(({ check, subject }) => [check, subject])).toEqual([
      ['checksum', question],
      ['blobs', rows[0]?.hash],
    ])
    expect(JSON.stringify(problems)).not.toContain(page.slice(0, 20))
    expect(await refusal(again.ledger.history('a'))).toEqual({ code: 'ledger_corrupt' })
    expect(await again.ledger.history('b')).toMatchObject(sound.messages)
    expect((await again.ledger.search('heard')).items.length).toBe(1)
    await again.close()
    const fresh = join(path, 'fresh.db')
    const saved = await salvageLedger(ledger, fresh)
    expect([saved.turns, saved.messages]).toEqual([2, 3])
    expect(JSON.stringify(saved.problems)).toContain(question)
    const mended = closing(scriptedEngine([], { ledger: { path: fresh } }).engine)
    expect(await mended.ledger.history('b')).toMatchObject(sound.messages)
    expect((await mended.ledger.history('a')).map(({ content }) => content)).toEqual(['seen'])
    expect((await mended.ledger.verify()).problems).toEqual([])
  })

  test('any value is read back: at the limit, escaped, in arguments, in many small parts', async () => {
    const { file: path } = folder()
    const odd = ['\u0000"\\\u2028😀'.repeat(12_000), 'x'.repeat(65_536), 'x'.repeat(65_537)]
    const parts = Array.from({ length: 9 }, (_, n) => ({
      type: 'text' as const,
      text: `${n} ${'part '.repeat(2_000)}`,
    }))
    const script = odd.map((text) => ({
      text,
      thinking: `thought of ${text}`,
      signature: 'c2ln',
      toolCalls: [{ name: 'echo', arguments: { text } }],
    }))
    const { engine } = scriptedEngine([...script, 'done'], { ledger: { path }, models })
    closing(engine)
    const echo = [{ name: 'echo', run: ({ text }: { text: string }) => ({ back: [text, text] }) }]
    const currentMessage = { role: 'user', content: parts } as never
    const run = await engine.run(context({ tools: echo, currentMessage })).result
    expect(run.persisted).toBe(true)
    await engine.close()
    const again = closing(scriptedEngine([], { ledger: { path } }).engine)
    const turn = await again.ledger.turn(run.turnId)
    expect(turn?.messages).toEqual(run.messages)
    expect(turn?.toolCalls).toEqual(run.toolCalls)
    expect(turn?.toolCalls.map((call) => call.result)).toEqual(
      odd.map((text) => ({ back: [text, text] })),
    )
    const { rows } = await again.ledger.query(
      `SELECT max(length(CAST(content AS BLOB))) AS content, max(length(CAST(blocks_json AS BLOB))) AS blocks,
         max(length(CAST(thinking AS BLOB))) AS thinking,
         (SELECT max(length(CAST(params_json AS BLOB))) FROM tool_calls) AS params,
         (SELECT max(length(CAST(result_json AS BLOB))) FROM tool_calls) AS result FROM messages`,
    )
    for (const most of Object.values(rows[0] ?? {})) expect(most).toBeLessThanOrEqual(65_536)
    expect((await again.ledger.verify()).problems).toEqual([])
  })
})
