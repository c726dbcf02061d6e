// Sessions of pi where a write fails, where a process left something behind, and where one file cannot be read: nothing that was appended is lost, and no
// session keeps another one from being opened. It must never compare ids and times.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { LedgerSessions, SessionManager } from '../../../pi-session.js'
import { closing, folder } from '../../support/cleanup.js'
import { onPostgres } from '../../support/ledger/on-postgres.js'
import { assistant, user } from './whole.js'

function storeAt(path: string, options: object = {}) {
  const { ledger } = closing(new AgentEngine({ ledger: { path } }))
  const defaults = { cwd: '/work', spoolDir: dirname(path) }
  return { ledger, sessions: new LedgerSessions(ledger, { ...defaults, ...options }) }
}

const spoolsIn = (dir: string) => readdirSync(dir).filter((name) => /\.pi-.*\.jsonl$/.test(name))
const textsOf = (session: SessionManager) =>
  session.buildSessionContext().messages.map(({ content }: any) => content)
const idsOf = (session: SessionManager) => session.getEntries().map(({ id }) => id)

/** The warnings about sessions while the work is done. */
async function warnings(work: () => Promise<unknown>): Promise<string[]> {
  const seen: string[] = []
  const note = (warning: Error & { code?: string }) => {
    if (warning.code === 'AGENT_ENGINE_SESSION') seen.push(warning.message)
  }
  process.on('warning', note)
  try {
    await work()
    // A warning is emitted in the next tick.
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('warning', note)
  }
  return seen
}

test('an entry that could not be written to the file is none, and the next one is in it', () => {
  const { path } = folder()
  const session = SessionManager.create('/work', path)
  session.appendMessage(user('one'))
  session.appendMessage(assistant('1'))
  const file = session.getSessionFile() as string
  const before = { leaf: session.getLeafId(), ids: idsOf(session) }
  renameSync(file, `${file}.aside`)
  mkdirSync(file)
  expect(() => session.appendMessage(user('lost'))).toThrow('EISDIR')
  expect(() => session.branchWithSummary(null, 'lost too')).toThrow('EISDIR')
  expect({ leaf: session.getLeafId(), ids: idsOf(session) }).toEqual(before)
  rmSync(file, { recursive: true })
  // What a write that failed half way has left.
  writeFileSync(file, `${readFileSync(`${file}.aside`, 'utf8')}{"type":"mess`)
  session.appendMessage(user('two'))
  const again = SessionManager.open(file)
  expect(again.getEntries()).toEqual(session.getEntries())
  expect(textsOf(again)).toEqual(textsOf(session))
})

test.each([true, false])(
  'an entry that could not be written beside the ledger is none, and the next one is stored (others wait: %s)',
  async (waits) => {
    const { path, file } = folder()
    const spoolDir = join(path, 'spools')
    const { sessions } = storeAt(file, { spoolDir })
    const session = await sessions.create()
    session.appendMessage(user('one'))
    if (!waits) await session.flush()
    const before = { leaf: session.getLeafId(), ids: idsOf(session) }
    const left = spoolsIn(spoolDir).map(
      (name) => [name, readFileSync(join(spoolDir, name))] as const,
    )
    rmSync(spoolDir, { recursive: true })
    const call = { type: 'toolCall' as const, id: 'c', name: 'look', arguments: {} }
    expect(() => session.appendMessage({ ...assistant(''), content: [call] })).toThrow('ENOENT')
    expect({ leaf: session.getLeafId(), ids: idsOf(session) }).toEqual(before)
    mkdirSync(spoolDir)
    for (const [name, text] of left) writeFileSync(join(spoolDir, name), `${text}{"type":"tu`)
    session.appendMessage(user('two'))
    await session.flush()
    const again = await sessions.open(session.getSessionId())
    expect(again.getEntries()).toEqual(session.getEntries())
    expect(textsOf(again)).toEqual(['one', 'two'])
    expect(spoolsIn(spoolDir)).toEqual([])
  },
)

test('an entry that is appended while the pointer of the session moves is stored by itself', async () => {
  const { ledger } = storeAt(folder().file)
  const moved: string[] = []
  let onSecond = () => {}
  const second = new Promise<void>((resolve) => {
    onSecond = resolve
  })
  let appendNext: (() => void) | undefined
  const watched = new Proxy(ledger, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (name !== 'moveSession') return typeof value === 'function' ? value.bind(target) : value
      return async (label: string, turnId: string) => {
        appendNext?.()
        const row = await target.moveSession(label, turnId)
        moved.push(turnId)
        if (moved.length === 2) onSecond()
        return row
      }
    },
  })
  const session = await new LedgerSessions(watched).create()
  appendNext = () => {
    appendNext = undefined
    session.appendMessage(assistant('1'))
  }
  session.appendMessage(user('one'))
  await second
  const history = await ledger.history(session.getLedgerSession() as string)
  expect(history.map(({ content }) => content)).toEqual(['one', '1'])
})

// Only Linux says when a process began.
test.runIf(process.platform === 'linux')(
  'what a process left behind is recovered, also where its number is ours again',
  async () => {
    const { path, file } = folder()
    const spoolDir = join(path, 'spools')
    const first = new AgentEngine({ ledger: { path: file } })
    const session = await new LedgerSessions(first.ledger, { spoolDir }).create()
    await first.close()
    session.appendMessage(user('left'))
    await session.flush().catch(() => {})
    const [name = ''] = spoolsIn(spoolDir)
    const text = readFileSync(join(spoolDir, name))
    // As the process before us with the number had named it.
    const [, ledger = '', start = ''] = /^(.*\.pi-)\d+\.(\d+)-/.exec(name) ?? []
    const other = new LedgerSessions(closing(new AgentEngine({ ledger: { path: file } })).ledger, {
      spoolDir: join(path, 'others'),
    })
    mkdirSync(join(path, 'others'))
    const left = join(path, 'others', `${ledger}${process.pid}.${Number(start) + 1}-0.jsonl`)
    writeFileSync(left, text)
    const again = await other.open(session.getSessionId())
    expect(textsOf(again)).toEqual(['left'])
    expect(spoolsIn(join(path, 'others'))).toEqual([])
  },
)

test('what another thread of this process has appended is its own', async () => {
  const { path, file } = folder()
  const { sessions } = storeAt(file)
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads')
    const { AgentEngine } = require(workerData.index)
    const { LedgerSessions } = require(workerData.session)
    ;(async () => {
      const engine = new AgentEngine({ ledger: { path: workerData.file } })
      const session = await new LedgerSessions(engine.ledger, { spoolDir: workerData.dir }).create()
      await engine.close()
      session.appendMessage({ role: 'user', content: 'of a thread', timestamp: 1 })
      await session.flush().catch(() => {})
      parentPort.once('message', () => process.exit(0))
      parentPort.postMessage('appended')
    })()`,
    {
      eval: true,
      workerData: {
        file,
        dir: path,
        index: require.resolve('../../../index.js'),
        session: require.resolve('../../../pi-session.js'),
      },
    },
  )
  await new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  const before = spoolsIn(dirname(file))
  await sessions.list()
  expect(before).toHaveLength(1)
  expect(spoolsIn(path)).toEqual(before)
  worker.postMessage('end')
  await new Promise((resolve) => worker.once('exit', resolve))
})

test('a file that cannot be imported is set aside with a warning, and no session is held up', async () => {
  const { path, file } = folder()
  const first = storeAt(file)
  const session = await first.sessions.create()
  session.appendMessage(user('one'))
  await session.flush()
  const { ledgerId } = await first.ledger.stats()
  const spools = join(path, `${onPostgres ? ledgerId : 'agent.db'}.pi-999999999-`)
  const bad = `${spools}bad.0.jsonl`
  const worse = `${spools}worse.jsonl`
  const head = JSON.stringify({
    type: 'ledger',
    format: 'nexus-agent-ledger',
    version: 1,
    ledgerId,
  })
  writeFileSync(bad, `${head}\n{"type":"turn","id":5}\n`)
  writeFileSync(worse, 'no ledger\nat all\n')
  let again: SessionManager | undefined
  const seen = await warnings(async () => {
    again = await storeAt(file).sessions.open(session.getSessionId())
  })
  expect(textsOf(again as SessionManager)).toEqual(['one'])
  expect(seen).toEqual([
    expect.stringContaining(`${bad}.refused`),
    expect.stringContaining(`${worse}.refused`),
  ])
  expect(readFileSync(`${worse}.refused`, 'utf8')).toBe('no ledger\nat all\n')
  expect(spoolsIn(path)).toEqual([])
  // It is not read again.
  expect(await warnings(() => storeAt(file).sessions.list())).toEqual([])
})

test('a failure to open the ledger is of that call only', async () => {
  const { ledger } = storeAt(folder().file)
  let fails = true
  const flaky = new Proxy(ledger, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (name === 'stats' && fails) return () => Promise.reject(new Error('not now'))
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const sessions = new LedgerSessions(flaky)
  await expect(sessions.list()).rejects.toThrow('not now')
  fails = false
  expect(await sessions.list()).toEqual([])
})
