// A turn that was begun with a history of the host's, resumed by an engine that was given that history before, unchanged or not.
// It must never kill anything but its own children.

import { expect, test } from 'vitest'
import type { Message } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'

const history = () =>
  [
    { role: 'user', content: 'first' },
    { role: 'assistant', content: 'one' },
    { role: 'user', content: [{ type: 'text', text: 'second' }] },
    { role: 'assistant', content: 'two' },
  ] as any[]

/** A ledger with a turn that was killed during its first answer. */
async function interrupted(): Promise<string> {
  const { file } = folder()
  const changes = JSON.stringify({ replies: [{ gate: 'never' }], history: history() })
  const child = killable('recovery/recovery.mjs', [file, 'none', 'run', 'main', changes])
  await child.line('at stream_start')
  let listed: unknown[] = []
  while (listed.length === 0) listed = rows(file, 'SELECT * FROM runs WHERE epoch IS NOT NULL')
  child.kill()
  await child.ended
  return file
}

/** What a host does between its last run and the resumption, and what the model then reads before the question. */
const CHANGES: [string, (messages: any[]) => unknown, string[]][] = [
  ['unchanged', () => {}, ['first', 'one', 'second', 'two']],
  [
    'changed in place',
    (messages) => Object.assign(messages[2].content[0], { text: 'other' }),
    ['first', 'one', 'other', 'two'],
  ],
  ['cut', (messages) => messages.splice(2), ['first', 'one']],
  [
    'continued',
    (messages) =>
      messages.push({ role: 'user', content: 'third' }, { role: 'assistant', content: 'three' }),
    ['first', 'one', 'second', 'two', 'third', 'three'],
  ],
]

test.skipIf(!sqlite3).each(CHANGES)(
  'a turn is resumed with the history that was given before, %s',
  async (_, change, read) => {
    const file = await interrupted()
    const { engine, provider } = scriptedEngine(['known', 'resumed'], { ledger: { path: file } })
    closing(engine)
    const messages = history()
    const given = { history: messages as Message[] }
    await engine.run(context({ ...given, sessionLabel: 'other' })).result
    change(messages)
    const [turn] = await engine.recover()
    const run = await engine.resume(turn?.turnId ?? '', given)
    // What the host does from here on is none of the run.
    messages[0].content = 'too late'
    expect(await run.result).toMatchObject({ stopReason: 'end_turn', persisted: true })
    const sent = provider.requests.at(-1)?.messages as any[]
    expect(sent.map(({ blocks }) => blocks[0].text)).toEqual([...read, 'hi'])
  },
)
