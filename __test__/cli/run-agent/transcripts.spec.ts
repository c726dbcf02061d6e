// The transcripts of earlier versions become sessions of the ledger when they are first used. It must never lose a line without a warning.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { agent, KEY, says } from './agent.js'

const header = { type: 'session', sessionKey: KEY, createdAt: 1708000000000 }
const lines = [
  header,
  { role: 'user', content: 'My name is Ada.', ts: 1708000000000 },
  { role: 'assistant', content: 'Hello Ada.', ts: 1708000001000 },
]

function transcript(state: string, list: unknown[], key = KEY): string {
  mkdirSync(join(state, 'sessions'), { recursive: true })
  const path = join(state, 'sessions', `${key.replaceAll(':', '__')}.jsonl`)
  const text = list.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)))
  writeFileSync(path, `${text.join('\n')}\n`)
  return path
}

async function warned(use: () => Promise<unknown>): Promise<string[]> {
  const messages: string[] = []
  const listen = (warning: Error & { code?: string }) => {
    if (warning.code === 'RUN_AGENT_TRANSCRIPT') messages.push(warning.message)
  }
  process.on('warning', listen)
  await use()
  await new Promise(setImmediate)
  process.off('warning', listen)
  return messages
}

test('a session goes on from its transcript, which stays as it is', async () => {
  const { run, state, sent } = await agent(says('Ada.'), says('Ada!'))
  const path = transcript(state, lines)
  const before = readFileSync(path, 'utf8')
  const warnings = await warned(async () => {
    await run('Who am I?')
    await run('Again?')
  })
  expect(sent(0)).toEqual([
    'user: My name is Ada.',
    'assistant: Hello Ada.',
    expect.stringMatching(/^user: Date: .* \| Who am I\?$/),
  ])
  expect(sent(1)).toHaveLength(5)
  expect(readFileSync(path, 'utf8')).toBe(before)
  expect(warnings).toEqual([])
})

test('two runs that begin at once import a transcript once', async () => {
  const { run, state, sent } = await agent(says('one'), says('two'))
  transcript(state, lines)
  await Promise.all([run('a'), run('b')])
  expect([sent(0).length, sent(1).length]).toEqual([3, 5])
})

test('a session that the ledger has does not read its transcript again', async () => {
  const { run, state, sent } = await agent(says('one'), says('two'))
  await run('a')
  transcript(state, lines)
  await run('b')
  expect(sent(1)).toHaveLength(3)
})

test('a damaged line is named in a warning, and the others are imported', async () => {
  const { run, state, sent } = await agent(says('ok'))
  transcript(state, [...lines.slice(0, 2), '{"role":"assis', ...lines.slice(2)])
  const warnings = await warned(() => run('hi'))
  expect(sent(0)).toHaveLength(3)
  expect(warnings).toEqual([expect.stringMatching(/are no messages and were not imported: 3$/)])
})

test('a transcript without a message is an empty session', async () => {
  const { run, state, sent } = await agent(says('ok'))
  transcript(state, [header])
  await run('hi')
  expect(sent(0)).toHaveLength(1)
})

test('a file that is no transcript is refused, and nothing is sent', async () => {
  const { run, state, server } = await agent(says('ok'))
  transcript(state, ['this is', 'a letter'])
  await expect(run('hi')).rejects.toMatchObject({ code: 'invalid_import' })
  expect(server.seen).toHaveLength(0)
})

test('a key with a path in it reads no file outside of the folder', async () => {
  const { run, state, sent } = await agent(says('ok'))
  transcript(state, lines)
  mkdirSync(join(state, 'sessions', 'x'))
  await run('hi', { sessionKey: `x/../${KEY}` })
  expect(sent(0)).toHaveLength(1)
})
