// Checks that dropped objects are collected: ended runs, unread runs, engines. Needs --expose-gc.
import { writeSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { context, scripted } from '../common.mjs'

/** Collects until all are collected, or returns how many remain after many rounds. */
async function left(refs) {
  for (let round = 0; round < 200; round++) {
    await turn()
    globalThis.gc()
    if (refs.every((ref) => ref.deref() === undefined)) return 0
  }
  return refs.filter((ref) => ref.deref() !== undefined).length
}

const { signal } = new AbortController()

async function ended(engine) {
  const run = engine.run(context({ abortSignal: signal }), { onPartialReply() {} })
  for await (const _ of run);
  await run.result
  return new WeakRef(run)
}

async function unread(engine) {
  const run = engine.run(context({ abortSignal: signal }))
  await run.result
  return new WeakRef(run)
}

async function broken(engine) {
  const run = engine.run(context({ abortSignal: signal }))
  for await (const _ of run) break
  await run.result
  return new WeakRef(run)
}

/** Dropped while it runs: collected once it has ended, and not before its tools have returned. */
function dropped(engine) {
  return new WeakRef(engine.run(context({ tools: [{ name: 'echo', run: () => 'ok' }] })))
}

async function refused(engine) {
  const refs = []
  try {
    engine.run(
      context({
        provider: 'nobody',
        abortSignal: signal,
        get target() {
          const target = {}
          refs.push(new WeakRef(target))
          return target
        },
      }),
    )
  } catch {}
  return refs[0]
}

const report = {}
const { engine } = scripted([{ text: 'abc', chunkSize: 1 }], {}, { repeat: true })
for (const [name, make] of Object.entries({ ended, unread, broken, dropped, refused })) {
  const refs = []
  for (let n = 0; n < 20; n++) refs.push(await make(engine))
  report[name] = await left(refs)
}

async function engines() {
  const refs = []
  for (let n = 0; n < 20; n++) {
    const made = scripted(['x'])
    await made.engine.run(context()).result
    await made.engine.close()
    refs.push(new WeakRef(made.engine))
  }
  return refs
}
report.engines = await left(await engines())
writeSync(1, JSON.stringify(report))
