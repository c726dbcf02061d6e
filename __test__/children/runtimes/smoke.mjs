// What every runtime and every bundle must do: an engine with a scripted model and a ledger runs a turn with a tool, streams it as
// events and over HTTP's format, reads it back, and closes. Prints one line of JSON. It must never import anything but the package.
//
// argv: FILE (the ledger's)

import { AgentEngine, AgentEngineError } from '@nexus/agent-engine'
import { toUIMessageStreamResponse } from '@nexus/agent-engine/ai-sdk'
import {
  collect,
  gate,
  scriptedProvider,
  scrub,
  toolCall,
  transcript,
} from '@nexus/agent-engine/testing'
import { toResponse } from '@nexus/agent-engine/web'

const file = process.argv.at(-1)
const door = gate()
const model = scriptedProvider([
  [toolCall('thermometer', { room: 'bath' })],
  ['It is ', door, 'eleven.'],
  'For the browser.',
  'For the chat.',
  ['For ever ', gate()],
])
const engine = new AgentEngine({
  ledger: { path: file },
  providers: { test: model },
  defaults: { model: 'test/scripted' },
})
const tools = [{ name: 'thermometer', run: async ({ room }) => ({ room, celsius: 11 }) }]

const texts = []
const run = engine.run('How warm is it?', { session: 'main', tools })
for await (const event of run) {
  if (event.type !== 'token') continue
  texts.push(event.text)
  door.open()
}
const result = await run.result
const sse = await toResponse(engine.run('And now?', { session: 'main' })).text()
const chat = await toUIMessageStreamResponse(engine.run('Again?', { session: 'main' })).text()
const aborting = engine.run('How long?', { session: 'main' })
for await (const event of aborting) if (event.type === 'token') aborting.abort()
const aborted = await aborting.result

let code
try {
  engine.run('Hello?', { model: 'nobody/nothing' })
} catch (error) {
  code = error instanceof AgentEngineError ? error.code : String(error)
}
const history = transcript(await engine.ledger.history('main'))
const { ok } = await engine.ledger.verify()
model.verify()
await engine.close()
console.log(
  JSON.stringify({
    texts,
    stop: [result.stopReason, result.persisted, scrub(result).turnId],
    toolCalls: result.toolCalls.map(({ result }) => result),
    sse: sse.includes('"text":"For the browser."'),
    chat: chat.includes('"delta":"For the chat."'),
    aborted: aborted.stopReason,
    code,
    history: history.length,
    collect: typeof collect,
    ok,
  }),
)
