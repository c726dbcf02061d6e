// Opens an engine on a ledger, and prints the outcome as JSON: the code and message of the error, or `opened`. With
// `descriptors` it first uses up all descriptors of the process. Arguments: file, `descriptors` or nothing.
import { closeSync, openSync, writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [path, mode] = process.argv.slice(2)
const taken = []
/** Uses up every free descriptor except `spare`. */
const exhaust = (spare) => {
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'))
  } catch {
    for (let left = 0; left < spare; left++) closeSync(taken.pop())
  }
}
const free = () => {
  for (const fd of taken.splice(0)) closeSync(fd)
}
const outcome = []
const open = () => {
  try {
    const { engine } = scripted(['ok', 'ok', 'ok'], { ledger: { path } })
    outcome.push({ code: 'opened' })
    return engine
  } catch ({ code, message }) {
    outcome.push({ code, message })
  }
}
if (mode === 'descriptors') {
  // None at all, then one or a few: each step of opening is the one that fails.
  for (let spare = 0; spare < 12; spare++) {
    exhaust(spare)
    const engine = open()
    free()
    await engine?.close()
  }
  const engine = open()
  await engine.run(context()).result
  exhaust(0)
  // Operations that need a connection of their own, and those that have all they need.
  const { verify } = await engine.ledger.verify().then(
    () => ({ verify: 'done' }),
    ({ code }) => ({ verify: code }),
  )
  const { persisted } = await engine.run(context()).result
  free()
  const { ok } = await engine.ledger.verify()
  outcome.push({ verify, persisted, ok })
  await engine.close()
} else {
  await open()?.close()
}
writeSync(1, JSON.stringify(outcome))
process.exit(0)
