// A process that runs turns in random sessions of one ledger until its standard input ends, a few at a time. Prints `ack RUN SESSION`
// for each turn that is acknowledged as completed and stored, and `lost RUN CODE` for each that is not. Arguments: ledger, name, sessions, lanes.
import { AgentEngine, scriptedProvider } from '../../../index.js'
import { print } from '../broker/setup.mjs'
import { ledgerAt } from '../ledger-at.mjs'

const [at, name, sessions, lanes] = process.argv.slice(2)
const model = { provider: 'test', id: 'm', contextWindow: 200_000, maxOutputTokens: 8_192 }
const replies = Array.from({ length: 100_000 }, () => ({ text: 'done' }))
// The server may be starting again.
const open = async () => {
  for (;;) {
    try {
      return new AgentEngine({
        ledger: ledgerAt(at),
        providers: { test: scriptedProvider(replies) },
        models: [model],
      })
    } catch (error) {
      if (error.code !== 'storage_io') throw error
      print(`closed ${error.code}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}
const engine = await open()
let ends = false
process.stdin.resume().on('end', () => {
  ends = true
})
let number = 0
const lane = async () => {
  while (!ends) {
    const sessionLabel = `s${Math.floor(Math.random() * Number(sessions))}`
    const runId = `${name}-${++number}`
    const run = engine.run({
      systemPrompt: 's',
      currentMessage: { role: 'user', content: runId },
      tools: [],
      model: 'm',
      provider: 'test',
      tokenBudget: {},
      timeoutMs: 20_000,
      runId,
      sessionLabel,
      role: 'unified',
      toolsetName: 't',
      permissionsGranted: [],
      workspacePath: '/tmp',
    })
    const { persisted, persistError, error, stopReason } = await run.result
    print(
      persisted && stopReason === 'end_turn'
        ? `ack ${runId} ${sessionLabel}`
        : `lost ${runId} ${persistError?.code ?? error?.detail?.code ?? error?.kind}`,
    )
  }
}
print('open')
await Promise.all(Array.from({ length: Number(lanes) }, lane))
await engine.close()
print('ended')
