// pi's sessions in a ledger: the same entries, contexts and files as with pi's own manager, through restarts and kills. It must never compare ids and
// times, which are chance, unless they were given.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { SessionManager as Pi054 } from '@mariozechner/pi-coding-agent'
import { SessionManager as Pi073 } from 'pi-coding-agent-073'
import { describe, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { LedgerSessions } from '../../../pi-session.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { killable } from '../../support/processes/killable.js'
import { assistant, shapeOf, user, whole } from './whole.js'

const storeAt = (path: string, cwd = '/work') => {
  const engine = closing(new AgentEngine({ ledger: { path } }))
  const sessions = new LedgerSessions(engine.ledger, { cwd, spoolDir: dirname(path) })
  return { engine, ledger: engine.ledger, sessions }
}
const spoolsAt = (path: string) => readdirSync(dirname(path)).filter((name) => /\.pi-/.test(name))

describe.each([
  ['0.54', Pi054],
  ['0.73', Pi073],
])('as pi %s', (_, Pi: any) => {
  test('a session has the same entries, tree and context, also when it is opened again', async () => {
    const { path, file } = folder()
    const theirs = Pi.create('/work', path)
    whole(theirs)
    const { engine, sessions } = storeAt(file)
    const mine = await sessions.create()
    whole(mine)
    await mine.flush()
    await engine.close()
    const again = await storeAt(file).sessions.open(mine.getSessionId())
    const partsOf = (manager: any) => ({
      entries: shapeOf(manager.getEntries()),
      tree: shapeOf(manager.getTree()),
      branch: shapeOf(manager.getBranch()),
      context: shapeOf(manager.buildSessionContext()),
      name: manager.getSessionName(),
      cwd: manager.getCwd(),
      persisted: manager.isPersisted(),
    })
    expect(partsOf(mine)).toEqual(partsOf(theirs))
    expect(partsOf(again)).toEqual(partsOf(theirs))
    expect([again.getEntries(), again.getHeader()]).toEqual([mine.getEntries(), mine.getHeader()])
    expect([again.getSessionFile(), again.getLedgerSession()]).toEqual([
      undefined,
      `pi:${mine.getSessionId()}`,
    ])
    expect(spoolsAt(file)).toEqual([])
  })

  test('a file of pi goes in and comes out byte for byte, and pi reads what was appended', async () => {
    const { path, file } = folder()
    const theirs = Pi.create('/work', path)
    whole(theirs)
    theirs.appendMessage(user('half a character: \ud83d, and a whole one: 😀'))
    const { sessions } = storeAt(file)
    const mine = await sessions.importFile(theirs.getSessionFile())
    const again = await sessions.open(theirs.getSessionId())
    const out = join(path, 'out.jsonl')
    again.exportFile(out)
    expect(readFileSync(out)).toEqual(readFileSync(theirs.getSessionFile()))
    mine.appendMessage(assistant('more'))
    mine.exportFile(out)
    const read = Pi.open(out)
    expect(read.getEntries()).toEqual(mine.getEntries())
    expect(read.buildSessionContext()).toEqual(mine.buildSessionContext())
    await mine.flush()
  })
})

test('files of the first two versions go in as pi migrates them', async () => {
  const { path, file } = folder()
  const { sessions } = storeAt(file)
  const header = { type: 'session', id: 'one', timestamp: '2026-01-01T00:00:00.000Z', cwd: '/work' }
  const at = (entry: object) => ({ timestamp: '2026-01-01T00:00:01.000Z', ...entry })
  const first = [
    header,
    at({ type: 'message', message: user('one') }),
    at({ type: 'message', message: assistant('1') }),
    at({ type: 'compaction', summary: 's', firstKeptEntryIndex: 2, tokensBefore: 9 }),
  ]
  const hook = { role: 'hookMessage', content: 'hook', timestamp: 1 }
  const second = [
    { ...header, id: 'two', version: 2 },
    at({ type: 'message', id: 'a', parentId: null, message: hook }),
  ]
  for (const lines of [first, second]) {
    const old = join(path, 'old.jsonl')
    writeFileSync(old, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    const mine = await sessions.importFile(old)
    const again = await sessions.open(mine.getSessionId())
    expect(shapeOf(again.getEntries())).toEqual(shapeOf(Pi054.open(old).getEntries()))
    expect(again.buildSessionContext()).toEqual(Pi054.open(old).buildSessionContext())
  }
})

test('an entry of a file that is its own parent begins a branch, and is in the ledger', async () => {
  const { path, file } = folder()
  const place = { timestamp: '2026-01-01T00:00:00.000Z' }
  const lines = [
    { ...place, type: 'session', version: 3, id: 's1', cwd: '/work' },
    { ...place, type: 'message', id: 'a', parentId: null, message: user('Before.') },
    { ...place, type: 'message', id: 'b', parentId: 'b', message: user('Hello?') },
    {
      ...{ ...place, type: 'compaction', id: 'c', parentId: 'b' },
      ...{ summary: 'A greeting.', firstKeptEntryId: 'b', tokensBefore: 1 },
    },
    { ...place, type: 'message', id: 'd', parentId: 'c', message: user('Still there?') },
  ]
  const source = join(path, 'source.jsonl')
  writeFileSync(source, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const { ledger, sessions } = storeAt(file)
  const session = await sessions.importFile(source)
  expect(spoolsAt(file)).toEqual([])
  expect(session.getEntries()).toEqual(lines.slice(1))
  const again = await sessions.open('s1')
  expect(again.getEntries()).toEqual(session.getEntries())
  expect(session.buildSessionContext().messages.length).toBe(3)
  const texts = (await ledger.history('pi:s1')).map(({ content }) => content)
  expect(texts).toEqual([expect.stringContaining('A greeting.'), 'Hello?', 'Still there?'])
})

test('a kill loses no entry whose append has returned', async () => {
  const { file } = folder()
  const child = killable('pi/ledger-session.mjs', [file, 'killed'])
  await Promise.race([child.count(500), child.ended])
  child.kill()
  await child.ended
  const session = await storeAt(file).sessions.open('killed')
  const ids = session.getEntries().map(({ id }) => id)
  expect(child.lines.length).toBeGreaterThanOrEqual(500)
  expect(ids.slice(0, child.lines.length)).toEqual(child.lines)
  expect(session.getBranch()).toHaveLength(ids.length)
  expect(spoolsAt(file)).toEqual([])
})

test('an entry that a kill has cut is none, and those before it are there', async () => {
  const { file } = folder()
  const first = storeAt(file)
  const session = await first.sessions.create()
  await first.engine.close()
  session.appendMessage(user('whole'))
  await session.flush().catch(() => {})
  const [spool = ''] = spoolsAt(file)
  const text = readFileSync(join(dirname(file), spool), 'utf8')
  // Of a process that has ended: no process has that number.
  const left = join(dirname(file), spool.replace(/pi-[\d.]+-/, 'pi-999999999-'))
  writeFileSync(left, `${text}{"type":"turn","id":"01`)
  const { sessions } = storeAt(file)
  const again = await sessions.open(session.getSessionId())
  expect(again.getEntries()).toEqual(session.getEntries())
  writeFileSync(left, text.slice(0, 20))
  await storeAt(file).sessions.list()
  expect(spoolsAt(file)).toEqual([])
})

test('what an engine could not store before it was closed is in the ledger when the next one opens the session', async () => {
  const { file } = folder()
  const first = storeAt(file)
  const session = await first.sessions.create()
  await first.engine.close()
  const warned = new Promise<void>((resolve) => {
    const onWarning = (warning: Error & { code?: string }) => {
      if (warning.code !== 'AGENT_ENGINE_SESSION') return
      process.off('warning', onWarning)
      resolve()
    }
    process.on('warning', onWarning)
  })
  const entry = session.appendMessage(user('late'))
  await expect(session.flush()).rejects.toMatchObject({ code: 'ledger_closed' })
  await warned
  const again = await storeAt(file).sessions.open(session.getSessionId())
  expect(again.getEntries().map(({ id }) => id)).toEqual([entry])
})

test('sessions are listed, the latest is continued, and copies have their source', async () => {
  const { path, file } = folder()
  const { sessions, ledger } = storeAt(file)
  const older = await sessions.create({ id: 'older' })
  whole(older)
  const latest = await sessions.create({ id: 'latest' })
  latest.appendMessage(user('hello'))
  await older.flush()
  await latest.flush()
  const elsewhere = new LedgerSessions(ledger, { cwd: '/other' })
  const fork = await elsewhere.forkFrom('older')
  const branchedFrom = older.getEntries().findLast((entry) => entry.type === 'message')?.id ?? ''
  older.createBranchedSession(branchedFrom)
  await older.flush()
  const progress: number[] = []
  const list = await sessions.list((loaded) => void progress.push(loaded))

  expect(fork.getEntries()).toEqual((await sessions.open('older')).getEntries())
  expect(fork.getHeader()).toMatchObject({ cwd: '/other', parentSession: 'pi:older' })
  expect(older.getHeader()).toMatchObject({ parentSession: 'pi:older' })
  expect((await sessions.continueRecent()).getSessionId()).toBe(older.getSessionId())
  expect((await elsewhere.continueRecent()).getSessionId()).toBe(fork.getSessionId())
  const none = await new LedgerSessions(ledger, { cwd: '/none' }).continueRecent()
  expect(none.getEntries()).toEqual([])
  expect(progress).toEqual([1, 2, 3])
  const exported = join(path, 'older.jsonl')
  ;(await sessions.open('older')).exportFile(exported)
  const [theirs] = (await Pi073.list('/work', path)).filter((info) => info.path === exported)
  const { path: _, ...expected } = theirs as NonNullable<typeof theirs>
  expect(list.find(({ id }) => id === 'older')).toEqual({ ...expected, path: 'pi:older' })
  expect((await sessions.listAll()).map(({ path }) => path).sort()).toEqual(
    [...list.map(({ path }) => path), `pi:${fork.getSessionId()}`].sort(),
  )
})

test('a run of the engine continues from the leaf, and reads what pi’s context has', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(['the answer'], { ledger: { path: file } })
  closing(engine)
  const session = await new LedgerSessions(engine.ledger).create()
  session.appendModelChange('anthropic', 'claude-haiku-4-5')
  session.appendMessage(user('one'))
  session.appendMessage(assistant('1'))
  const kept = session.appendMessage(user('two'))
  session.appendMessage(assistant('2'))
  session.appendCompaction('what was said', kept, 10)
  session.appendCustomEntry('mine', { any: 'data' })
  session.appendMessage(user('three'))
  session.appendMessage(assistant('3'))
  const label = await session.forkInLedger('continued')
  await engine.run('four', { session: label, model: 'test/scripted' }).result
  const messages = provider.requests[0]?.messages as { role: string; blocks: { text: string }[] }[]
  expect(messages.map(({ role, blocks }) => [role, ...blocks.map(({ text }) => text)])).toEqual([
    ['user', '[Previous conversation summary]:\n\nwhat was said\n\ntwo'],
    ['assistant', '2'],
    ['user', 'three'],
    ['assistant', '3'],
    ['user', 'four'],
  ])
  const usage = await engine.ledger.usage({ by: 'session' })
  expect(usage.items.find(({ key }) => key === session.getLedgerSession())?.usage).toMatchObject({
    inputTokens: 3,
    outputTokens: 3,
  })
})

test('a run that a host begins in the session of pi is no entry of it', async () => {
  const { engine } = scriptedEngine(['aside'], { ledger: { path: folder().file } })
  closing(engine)
  const sessions = new LedgerSessions(engine.ledger)
  const session = await sessions.create()
  session.appendMessage(user('one'))
  await session.flush()
  const label = session.getLedgerSession() as string
  await engine.run('two', { session: label, model: 'test/scripted' }).result
  const again = await sessions.open(session.getSessionId())
  expect(again.buildSessionContext().messages).toEqual([user('one')])
  again.appendMessage(assistant('1'))
  await again.flush()
  expect((await sessions.open(session.getSessionId())).getEntries()).toHaveLength(2)
})

test('the pointer of the session follows the leaf, also back', async () => {
  const { ledger, sessions } = storeAt(folder().file)
  const session = await sessions.create()
  const label = session.getLedgerSession() as string
  const texts = async () => {
    await session.flush()
    return (await ledger.history(label)).map(({ content }) => content)
  }
  const first = session.appendMessage(user('one'))
  const second = session.appendMessage(assistant('1'))
  session.appendMessage(user('two'))
  expect(await texts()).toEqual(['one', '1', 'two'])
  session.branch(second)
  expect(await texts()).toEqual(['one', '1'])
  session.appendMessage(user('three'))
  expect(await texts()).toEqual(['one', '1', 'three'])
  session.branchWithSummary(first, 'what was left')
  session.branch(first)
  expect(await texts()).toEqual(['one'])
  expect((await ledger.turns({ sessionLabel: label })).items).toHaveLength(5)
  expect((await ledger.verify()).problems).toEqual([])
})

test('the calls of a session are in the ledger, with their results or without one', async () => {
  const { sessions, ledger } = storeAt(folder().file)
  const session = await sessions.create()
  const call = (id: string, name: string) => ({ type: 'toolCall', id, name, arguments: { a: 1 } })
  const result = (toolCallId: string, toolName: string, isError: boolean) => ({
    role: 'toolResult',
    toolCallId,
    toolName,
    content: [{ type: 'text', text: `of ${toolName}` }],
    isError,
    timestamp: 1,
  })
  session.appendMessage(user('go'))
  session.appendMessage({
    ...assistant(''),
    content: [call('c1|fc_1', 'look'), call('c2', 'read'), call('c3', 'open')],
  })
  session.appendMessage(result('c1|fc_1', 'look', false))
  await session.flush()
  const again = await sessions.open(session.getSessionId())
  again.appendMessage(result('c2', 'read', true))
  await again.flush()
  const rows = async () => {
    const { items } = await ledger.toolCalls({ sessionLabel: session.getLedgerSession() as string })
    const shown = items.map(({ id, toolName, params, result, error, status }) => {
      return { id, toolName, params, result, error, status }
    })
    return shown.sort((one, other) => one.id.localeCompare(other.id))
  }
  const answered = [
    { id: 'c1', toolName: 'look', params: { a: 1 }, result: 'of look', status: 'completed' },
    { id: 'c2', toolName: 'read', params: { a: 1 }, error: 'of read', status: 'failed' },
  ]
  // The result of the third may still come.
  expect(await rows()).toEqual(answered)
  const last = again.getLeafId() as string
  again.appendCustomEntry('note', { of: 'a tool' })
  again.appendMessage(user('go on'))
  again.appendMessage(assistant('yes'))
  again.branch(last)
  again.appendMessage(user('again'))
  await again.flush()
  const opened = { id: 'c3', toolName: 'open', params: { a: 1 } }
  const interrupted = { ...opened, error: 'interrupted', status: 'failed' }
  expect(await rows()).toEqual([...answered, interrupted])
  // Another branch may have its result.
  again.branch(last)
  again.appendMessage(result('c3', 'open', false))
  await again.flush()
  const late = { ...opened, result: 'of open', status: 'completed' }
  expect(await rows()).toEqual(expect.arrayContaining([...answered, interrupted, late]))
  expect((await ledger.verify()).problems).toEqual([])
})

test('a session that is not there is refused, and so is one that is there already', async () => {
  const { path, file } = folder()
  const { sessions, ledger } = storeAt(file)
  await expect(sessions.open('none')).rejects.toThrow('no session of pi')
  const session = await sessions.create({ id: 'one' })
  session.appendMessage(user('one'))
  await session.flush()
  await expect(sessions.create({ id: 'one' })).rejects.toThrow('pi:one already')
  const out = join(path, 'one.jsonl')
  session.exportFile(out)
  await expect(sessions.importFile(out)).rejects.toThrow('pi:one already')
  await expect(sessions.importFile(join(path, 'none.jsonl'))).rejects.toThrow('not a session file')
  expect(() => session.setSessionFile(out)).toThrow('LedgerSessions.importFile')
  await ledger.createSession('pi:other')
  await expect(sessions.open('other')).rejects.toThrow('no session of pi')
})

test('an entry of many megabytes and one of an unknown form come back as they were', async () => {
  const { file } = folder()
  const { sessions } = storeAt(file)
  const session = await sessions.create()
  const image = { type: 'image' as const, mimeType: 'image/png', data: 'A'.repeat(6_000_000) }
  session.appendMessage({ role: 'user', content: [image], timestamp: 1 })
  session.appendMessage({ role: 'bashExecution', command: 'ls', output: 'a', timestamp: 2 })
  session.appendMessage({ role: 'mine', what: { ever: [null] }, timestamp: 3 })
  session.appendMessage({ role: 'user', content: 5 })
  session.appendMessage({ role: 'assistant', content: [{ type: 'text' }], stopReason: 'stop' })
  session.appendMessage({ role: 'assistant', content: 'no list', api: 1, usage: 'none' })
  const signed = { type: 'text', text: 'a', textSignature: 5 }
  session.appendMessage({ ...assistant('a'), api: 'openai-responses', content: [signed] })
  session.appendMessage({ role: 'toolResult', content: [null, { type: 'image' }] })
  session.appendMessage(null)
  session.appendCustomMessageEntry('note', [{ type: 'text', text: 'a note' }], false, { a: 1 })
  await session.flush()
  const again = await sessions.open(session.getSessionId())
  expect(again.getEntries()).toEqual(session.getEntries())
})
