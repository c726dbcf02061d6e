// The session manager of `/pi-session` beside pi's own: the same entries, contexts and files, of every version. It must never compare ids and times, which
// are chance.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  SessionManager as Pi054,
  buildSessionContext as piContext,
  CURRENT_SESSION_VERSION as piVersion,
} from '@mariozechner/pi-coding-agent'
import { SessionManager as Pi073 } from 'pi-coding-agent-073'
import { describe, expect, test } from 'vitest'
import {
  buildSessionContext,
  CURRENT_SESSION_VERSION,
  convertToLlm,
  findMostRecentSession,
  getLatestCompactionEntry,
  parseSessionEntries,
  SessionManager,
} from '../../../pi-session.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { assistant, shapeOf, user, whole } from './whole.js'

const fileOf = (manager: any) => parseSessionEntries(readFileSync(manager.getSessionFile(), 'utf8'))

describe.each([
  ['0.54', Pi054],
  ['0.73', Pi073],
])('as pi %s', (_, Pi: any) => {
  const both = () => {
    const mine = SessionManager.create('/work', folder().path)
    const theirs = Pi.create('/work', folder().path)
    return [mine, theirs]
  }

  test('a session has the same entries, tree, context and file', () => {
    const [mine, theirs] = both().map((manager) => {
      whole(manager)
      return {
        entries: shapeOf(manager.getEntries()),
        branch: shapeOf(manager.getBranch()),
        context: shapeOf(manager.buildSessionContext()),
        file: shapeOf(fileOf(manager)),
        leaf: manager.getLeafEntry()?.type,
        name: manager.getSessionName(),
        cwd: manager.getCwd(),
        header: Object.keys(manager.getHeader()).filter((key) => manager.getHeader()[key]),
      }
    })
    expect(mine).toEqual(theirs)
    expect(mine?.context).toMatchObject({ thinkingLevel: 'high' })
  })

  test('pi reads our file, and we read pi’s', () => {
    const [mine, theirs] = both()
    whole(mine)
    whole(theirs)
    const inPi = Pi.open(mine.getSessionFile())
    const here = SessionManager.open(theirs.getSessionFile())
    expect(inPi.getEntries()).toEqual(mine.getEntries())
    expect(inPi.buildSessionContext()).toEqual(mine.buildSessionContext())
    expect(here.getEntries()).toEqual(theirs.getEntries())
    expect(here.buildSessionContext()).toEqual(theirs.buildSessionContext())
    expect(here.getLabel(here.getBranch()[3]?.id ?? '')).toEqual(
      theirs.getLabel(theirs.getBranch()[3]?.id ?? ''),
    )
    expect(shapeOf(here.getTree())).toEqual(shapeOf(Pi.open(theirs.getSessionFile()).getTree()))
  })

  test('a branched session has the path, and its labels', () => {
    const branched = both().map((manager) => {
      whole(manager)
      const leaf = manager.getEntries().findLast((entry: any) => entry.type === 'message').id
      manager.createBranchedSession(leaf)
      return shapeOf([manager.getEntries(), fileOf(manager).slice(1)])
    })
    expect(branched[0]).toEqual(branched[1])
  })

  test('nothing is written before an answer', () => {
    for (const manager of both()) {
      manager.appendMessage(user('one'))
      expect(existsSync(manager.getSessionFile())).toBe(false)
      manager.appendMessage(assistant('1'))
      expect(fileOf(manager)).toHaveLength(3)
    }
  })

  test('an unknown entry is refused with the same error', () => {
    for (const manager of both()) {
      expect(() => manager.branch('none')).toThrow('Entry none not found')
      expect(() => manager.appendLabelChange('none', 'x')).toThrow('Entry none not found')
      expect(() => manager.branchWithSummary('none', 's')).toThrow('Entry none not found')
      expect(() => manager.createBranchedSession('none')).toThrow('Entry none not found')
    }
  })
})

test.each([
  [
    1,
    [
      { type: 'session', id: 's', timestamp: '2026-01-01T00:00:00.000Z', cwd: '/work' },
      { type: 'message', timestamp: '2026-01-01T00:00:01.000Z', message: user('one') },
      { type: 'message', timestamp: '2026-01-01T00:00:02.000Z', message: assistant('1') },
      {
        type: 'compaction',
        timestamp: '2026-01-01T00:00:03.000Z',
        summary: 's',
        firstKeptEntryIndex: 2,
        tokensBefore: 9,
      },
      { type: 'message', timestamp: '2026-01-01T00:00:04.000Z', message: user('two') },
    ],
  ],
  [
    2,
    [
      { type: 'session', version: 2, id: 's', timestamp: '2026-01-01T00:00:00.000Z', cwd: '/work' },
      {
        type: 'message',
        id: 'a',
        parentId: null,
        timestamp: '2026-01-01T00:00:01.000Z',
        message: { role: 'hookMessage', content: 'hook', timestamp: 1 },
      },
    ],
  ],
])('a file of version %i is read as pi reads it, and rewritten', (_, lines) => {
  const write = () => {
    const path = join(folder().path, 'old.jsonl')
    writeFileSync(path, `${lines.map((line) => JSON.stringify(line)).join('\n')}\n{"cut`)
    return path
  }
  const [mine, theirs] = [SessionManager.open(write()), Pi054.open(write())]
  expect(shapeOf(mine.getEntries())).toEqual(shapeOf(theirs.getEntries()))
  expect(mine.buildSessionContext()).toEqual(theirs.buildSessionContext())
  expect(shapeOf(fileOf(mine))).toEqual(shapeOf(fileOf(theirs)))
  expect(fileOf(mine)[0]).toMatchObject({ version: CURRENT_SESSION_VERSION })
  expect(CURRENT_SESSION_VERSION).toBe(piVersion)
})

test('a file with a byte order mark and lines that are no entries has its entries, as in pi', async () => {
  const { path } = folder()
  const message = { role: 'user', content: 'hi', timestamp: 1 }
  const entry = { type: 'message', id: 'a1', parentId: null, timestamp: '2026-01-01T00:00:01.000Z' }
  const lines = [
    { ...header, cwd: path },
    { ...entry, message },
  ].map((it) => JSON.stringify(it))
  const marked = join(path, 'marked.jsonl')
  writeFileSync(marked, `\ufeff${lines.join('\n')}\n`)
  const noisy = join(path, 'noisy.jsonl')
  writeFileSync(noisy, `${[lines[0], 'null', '42', '[]', '"x"', lines[1]].join('\n')}\n`)
  for (const file of [marked, noisy]) {
    const before = readFileSync(file, 'utf8')
    expect(SessionManager.open(file).getEntries()).toEqual([{ ...entry, message }])
    expect(readFileSync(file, 'utf8')).toBe(before)
  }
  expect(Pi054.open(marked).getEntries()).toEqual([{ ...entry, message }])
  const listed = await SessionManager.list(path, path)
  expect(listed.map(({ firstMessage }) => firstMessage)).toEqual(['hi', 'hi'])
})

const header = {
  type: 'session',
  version: 3,
  id: '0b1c0d1e-0000-4000-8000-000000000000',
  timestamp: '2026-01-01T00:00:00.000Z',
}

test('a file that is none is begun anew', () => {
  const path = join(folder().path, 'broken.jsonl')
  writeFileSync(path, 'no session\n')
  const manager = SessionManager.open(path)
  manager.appendMessage(user('one'))
  manager.appendMessage(assistant('1'))
  expect(SessionManager.open(path).getEntries()).toEqual(manager.getEntries())
})

test('forks, lists and the latest session are found', async () => {
  const { path } = folder()
  const manager = SessionManager.create('/work', path)
  whole(manager)
  const source = manager.getSessionFile() ?? ''
  const fork = SessionManager.forkFrom(source, '/other', folder().path)
  expect(fork.getEntries()).toEqual(manager.getEntries())
  expect(fork.getHeader()).toMatchObject({ cwd: '/other', parentSession: source })
  const progress: number[] = []
  const list = await SessionManager.list('/work', path, (loaded) => void progress.push(loaded))
  const theirs = await Pi073.list('/work', path)
  expect(list).toEqual(theirs)
  expect(progress).toEqual([1])
  expect(findMostRecentSession(path)).toBe(source)
  expect(SessionManager.continueRecent('/work', path).getSessionId()).toBe(manager.getSessionId())
  expect(SessionManager.inMemory('/work').getSessionFile()).toBeUndefined()
})

test('the functions have what pi’s have', () => {
  const manager = SessionManager.inMemory('/work')
  whole(manager)
  const entries = manager.getEntries()
  expect(buildSessionContext(entries)).toEqual(piContext(entries as any))
  expect(buildSessionContext(entries, null).messages).toEqual([])
  expect(getLatestCompactionEntry(entries)).toMatchObject({ summary: 'what was said' })
  const { messages } = buildSessionContext(entries, entries[13]?.id)
  expect(convertToLlm(messages).map(({ role }) => role)).toEqual(
    convertToLlm([...messages]).map(({ role }) => role),
  )
  expect(convertToLlm(messages)[0]).toMatchObject({
    role: 'user',
    content: [{ text: expect.stringContaining('<summary>\nwhat was said') }],
  })
})

test('a deep session costs as much per entry as a short one: its path is walked once', () => {
  const manager = SessionManager.inMemory('/work')
  for (let at = 0; at < 20_000; at++) manager.appendMessage(user(String(at)))
  expect(manager.getBranch()).toHaveLength(20_000)
  expect(manager.getTree()).toHaveLength(1)
  expect(manager.buildSessionContext().messages).toHaveLength(20_000)
})

test('a session goes into a ledger, is continued there, and comes back', async () => {
  const { path, file } = folder()
  const manager = SessionManager.create('/work', path)
  manager.appendMessage(user('one'))
  manager.appendMessage(assistant('1'))
  const { engine } = scriptedEngine(['2'], { ledger: { path: file } })
  closing(engine)
  const label = await manager.saveTo(engine.ledger, { session: 'mine' })
  expect(label).toBe('mine')
  await engine.run('two', { session: 'mine', model: 'test/scripted' }).result
  const back = await SessionManager.fromLedger(engine.ledger, 'mine', { sessionDir: path })
  const texts = convertToLlm(back.buildSessionContext().messages).map(({ content }) =>
    typeof content === 'string' ? content : content.map((part: any) => part.text).join(''),
  )
  expect(texts).toEqual(['one', '1', 'two', '2'])
})

test.each([
  ['cut by a crash', -20],
  ['without its newline', -1],
])('an entry that is appended after a last line %s is on a line of its own', (_, end) => {
  const { path } = folder()
  const manager = SessionManager.create('/work', path)
  manager.appendMessage(user('one'))
  manager.appendMessage(assistant('1'))
  manager.appendMessage(user('two'))
  const file = manager.getSessionFile() as string
  writeFileSync(file, readFileSync(file).subarray(0, end))
  const textsOf = (of: SessionManager) =>
    of.buildSessionContext().messages.map((message) => JSON.stringify(message))
  const again = SessionManager.open(file)
  again.appendMessage(user('three'))
  again.appendMessage(assistant('3'))
  expect(textsOf(SessionManager.open(file))).toEqual(textsOf(again))
  expect(textsOf(again)).toHaveLength(end === -1 ? 5 : 4)
})
