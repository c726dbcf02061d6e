// The sessions of MyClaw: flat lines, with calls where a line has them. It must never lose a line without a report.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AgentEngine, ScriptedReply } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { thinkingCall } from '../../support/ledger/scripted-ledger.js'
import { refusal } from '../../support/ledger/sqlite3.js'

function open(path: string, script: ScriptedReply[] = []): AgentEngine {
  return closing(scriptedEngine(script, { ledger: { path } }).engine)
}

const lines = [
  { role: 'user', content: 'read a.md', timestamp: 1763681630000 },
  {
    role: 'assistant',
    content: 'reading',
    timestamp: '2025-11-20T23:33:51.000Z',
    meta: { toolCalls: [{ id: 'toolu_1', name: 'read', arguments: { path: 'a.md' } }], model: 'm' },
  },
  { role: 'toolResult', content: 'of a', toolCallId: 'toolu_1', meta: { toolName: 'read' } },
  { role: 'assistant', content: 'it says a' },
  { role: 'user', content: '[Previous conversation summary]: we read', extra: [1] },
  { role: 'assistant', content: '' },
]

const write = (path: string, list: unknown[]) => {
  writeFileSync(
    path,
    list.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'),
  )
  return path
}

const myclaw = { format: 'myclaw' } as const

test('a session is imported with its calls and its origin, and exported unchanged', async () => {
  const { path, file } = folder()
  const engine = open(file)
  const { ledger } = engine
  expect(await ledger.import(write(join(path, 'main.jsonl'), lines), myclaw)).toMatchObject({
    sessions: ['myclaw:main'],
    turns: 2,
    messages: 6,
    toolCalls: 1,
    problems: [],
  })
  expect(await ledger.session('myclaw:main')).toMatchObject({
    origin: 'myclaw',
    originSessionId: 'main',
    createdAt: 1763681630000,
  })
  const history = await ledger.history('myclaw:main')
  expect(history.map(({ role, content }) => [role, content])).toEqual(
    lines.map(({ role, content }) => [role === 'toolResult' ? 'tool' : role, content]),
  )
  expect(history[1]?.blocks).toEqual([
    { type: 'text', text: 'reading' },
    { type: 'tool_call', id: 'toolu_1', name: 'read', argumentsJson: '{"path":"a.md"}' },
  ])
  expect(history[1]?.createdAt).toBe(1763681631000)
  const to = join(path, 'out.jsonl')
  await ledger.export(to, { ...myclaw, session: 'myclaw:main' })
  const out = readFileSync(to, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(out).toEqual(lines)
  expect(await ledger.verify()).toMatchObject({ ok: true, problems: [] })
})

test('a session of the engine is exported flat, and imported with the content that the format supports', async () => {
  const { path, file } = folder()
  const engine = open(file, [thinkingCall, 'answered'])
  await engine.run(context({ tools: [{ name: 'add', run: () => 'done' }] })).result
  const to = join(path, 'out.jsonl')
  expect(await engine.ledger.export(to, { ...myclaw, session: 'agent:main:main' })).toMatchObject({
    lines: 4,
    leftOut: { thinking: 1 },
  })
  const other = open(join(path, 'other.db'))
  await other.ledger.import(to, { ...myclaw, session: 's' })
  const historyTexts = async (engine: AgentEngine, label: string) =>
    (await engine.ledger.history(label)).map(
      ({ role, content, toolCallId, createdAt, blocks }) => ({
        role,
        content,
        toolCallId,
        createdAt,
        blocks: blocks.filter(({ type }) => type !== 'thinking'),
      }),
    )
  expect(await historyTexts(other, 's')).toEqual(await historyTexts(engine, 'agent:main:main'))
})

test('a damaged line is reported by its number, and the others are imported', async () => {
  const { path, file } = folder()
  const { ledger } = open(file)
  const hurt = [...lines.slice(0, 3), '{"role":"assis', '{"role":"user"}', '5', ...lines.slice(3)]
  const { problems, messages } = await ledger.import(write(join(path, 'a.jsonl'), hurt), myclaw)
  expect(problems.map(({ line, code }) => ({ line, code }))).toEqual([
    { line: 4, code: 'damaged_line' },
    { line: 5, code: 'invalid_line' },
    { line: 6, code: 'invalid_line' },
  ])
  expect(messages).toBe(6)
  expect(await refusal(ledger.import(write(join(path, 'b'), ['x']), myclaw))).toEqual({
    code: 'invalid_import',
    field: 'path',
  })
})
