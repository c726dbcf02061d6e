// Opens a ledger with no file descriptor left, then with one, and so on, and prints what came of each. Arguments: the file, and
// `warm` to use the engine once before.
import { closeSync, openSync } from 'node:fs'
import { AgentEngine } from '../../index.js'

const [file, warm] = process.argv.slice(2)

async function tried(path) {
  let engine
  try {
    engine = new AgentEngine({ ledger: { path } })
    await engine.ledger.stats()
    return 'ok'
  } catch (error) {
    return `${error.code} ${error.message.replaceAll('\n', ' ')}`
  } finally {
    await engine?.close()
  }
}

if (warm) await tried(`${file}.first`)
for (let left = 0; left < 12; left++) {
  const held = []
  try {
    for (;;) held.push(openSync('/dev/null'))
  } catch (error) {
    if (error.code !== 'EMFILE') throw error
  }
  for (let one = 0; one < left; one++) closeSync(held.pop())
  const outcome = await tried(file)
  for (const one of held) closeSync(one)
  console.log(`${left}: ${outcome}`)
}
console.log(`free: ${await tried(file)}`)
