// Turns of several sessions side by side, with tools and results of all sizes. Arguments: file, the ledger's `synchronous`, how
// many sessions, and how many turns each. Prints a line of JSON when a turn is acknowledged, and nothing before.
import { randomBytes } from 'node:crypto'
import { writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [file, synchronous, sessions, turns] = process.argv.slice(2)
/** Incompressible, so that the file grows by what is written; the large ones are stored as blobs. */
const sizes = [10, 3_000, 60_000, 200, 200_000]
const tools = [
  {
    name: 'measure',
    run: ({ of }) => randomBytes(Math.ceil((sizes[of] * 3) / 4)).toString('base64'),
  },
]
const measure = (of) => ({ toolCalls: [{ name: 'measure', arguments: { of } }] })
const replies = [measure(0), 'short', measure(2), measure(1), 'longer', measure(4), measure(3), '.']
/** Long enough for every turn: a compaction would put a summary in the place of the messages that the test compares. */
const models = [
  { provider: 'test', id: 'test-model', contextWindow: 1_000_000_000, maxOutputTokens: 8_192 },
]
const ledger = { path: file, synchronous }
const { engine } = scripted(replies, { ledger, models }, { repeat: true })

async function talk(session) {
  for (let turn = 0; turn < turns; turn++) {
    const message = { role: 'user', content: `message ${turn}` }
    const { persisted, stopReason, turnId, messages } = await engine.run(
      context({
        tools,
        currentMessage: message,
        sessionLabel: session,
        runId: `${session}-${turn}`,
      }),
    ).result
    if (!persisted || stopReason !== 'end_turn') throw new Error(`not stored: ${stopReason}`)
    writeSync(1, `${JSON.stringify({ session, turn, turnId, messages })}\n`)
  }
}

const names = Array.from({ length: Number(sessions) }, (_, index) => `session ${index}`)
await Promise.all(names.map(talk))
await engine.close()
