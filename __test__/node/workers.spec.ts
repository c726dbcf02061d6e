// Worker threads: engines in several workers, workers that end in the middle of runs, and the addon loaded again. A crash here is
// a signal of the child process, so everything dangerous must run in one.

import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { child, clean } from '../support/processes/child.js'

/** The number of workers terminated in the middle of their runs, three at a time. */
const TERMINATIONS = 60

const answers = (name: string) => [
  Array.from({ length: 10 }, () => [`abcdone ${name}`, 'end_turn']),
  0,
]
const three = JSON.stringify(['a', 'b', 'c'].map(answers))

test('three workers run their own turns in parallel', async () => {
  expect(await child('node/workers.mjs', ['three'])).toEqual(clean(`${three}\n`))
})

test('three workers and this thread share one ledger file', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(['here'], { ledger: { path: file } })
  closing(engine)
  const script = fileURLToPath(new URL('../children/node/worker.mjs', import.meta.url))
  const reported = await Promise.all([
    engine.run(context({ sessionLabel: 'main' })).result.then(({ persisted }) => persisted),
    ...['a', 'b', 'c'].map((name) => {
      const worker = new Worker(script, { workerData: { way: 'ends', name, file } })
      return new Promise((resolve, reject) => {
        let answer: unknown
        worker.on('message', (message) => {
          answer = message
        })
        worker.on('error', reject)
        worker.on('exit', (code) => resolve([answer, code]))
      })
    }),
  ])
  expect(reported).toEqual([true, ...['a', 'b', 'c'].map(answers)])
  const { rows } = await engine.ledger.query(
    'select count(*) as turns, count(distinct session_label) as sessions from turns',
  )
  expect(rows).toEqual([{ turns: 31, sessions: 31 }])
})

test('the addon can be loaded again after all workers with it have ended', async () => {
  expect(await child('node/workers.mjs', ['reload'])).toEqual(clean('true\ntrue\ntrue\n'))
})

test('workers that are terminated in the middle of runs do not crash the process', async () => {
  expect(await child('node/workers.mjs', ['terminate', '', String(TERMINATIONS)])).toEqual(
    clean('survived\n'),
  )
})

test('nor with a shared ledger, which stays whole', async () => {
  const { file } = folder()
  expect(await child('node/workers.mjs', ['terminate', file, String(TERMINATIONS)])).toEqual(
    clean('survived\n'),
  )
  const { engine } = scriptedEngine(['after'], { ledger: { path: file } })
  closing(engine)
  const { rows } = await engine.ledger.query(
    'select count(*) as n from turns where id not in (select turn_id from messages)',
  )
  expect(rows).toEqual([{ n: 0 }])
  expect((await engine.run(context({ sessionLabel: 'a-first' })).result).persisted).toBe(true)
})

test('nor with runs of the main thread', async () => {
  expect(await child('node/workers.mjs', ['terminateBesideMain', '', '30'])).toEqual(
    clean('true\n'),
  )
})

test('process.exit() while workers run ends the process with its code', async () => {
  for (let n = 0; n < 5; n++) {
    const ended = await child('node/workers.mjs', ['exit', folder().file])
    expect(ended).toEqual({ code: 7, signal: null, out: '', err: '' })
  }
})
