// Whatever a host does to pi's messages, tools and options between two calls, the request is the one of a call that sees them for the first time. A sequence
// is made again by `PI_SEED=<its seed> PI_SEQUENCES=1`. It must never look at what is remembered, only at what is sent.

import { expect, test } from 'vitest'
import { type Context, completeSimple } from '../../../pi-ai.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { Random } from '../../support/values/hostile.js'
import { type Call, edit } from './edits.js'
import { modelAt, wires } from './wires.js'

const SEQUENCES = Number(process.env.PI_SEQUENCES ?? 200)
const SEED = Number(process.env.PI_SEED ?? 1)
const STEPS = 8
const server = serverPerTest(() => sse())

/** The body of the request of a call as JSON, or why there is none. The engines behind the calls are known by the key. */
async function bodyOf(wire: string, { messages, options, ...context }: Call, apiKey: string) {
  let body = 'no request'
  const onPayload = (payload: unknown) => {
    body = JSON.stringify(payload)
  }
  const { errorMessage } = await completeSimple(
    modelAt(wires[wire], server.url, { id: 'm' }),
    {
      ...context,
      messages: [...messages, { role: 'user', content: 'now', timestamp: 1 }],
    } as Context,
    { ...options, apiKey, onPayload },
  )
  return errorMessage === undefined ? body : `${body}: ${errorMessage}`
}

test(`${SEQUENCES} sequences of edits are sent as a call sends them that never saw the messages`, async () => {
  let sent = 0
  for (let sequence = 0; sequence < SEQUENCES; sequence++) {
    const seed = SEED + sequence
    const random = new Random(seed)
    const wire = random.pick(Object.keys(wires))
    server.use(sse(wires[wire].text('Hello.')))
    const call: Call = { messages: [], systemPrompt: 'Be brief.', tools: [], options: {} }
    for (let step = 2 + random.int(STEPS); step > 0; step--) {
      edit(random, call)
      const body = await bodyOf(wire, call, `shared-${random.int(2)}`)
      // Nothing is known of a message behind a new proxy, and no engine knows the key.
      const messages = call.messages.map((message) => new Proxy(message, {}))
      const tools = call.tools.map((tool) => new Proxy(tool, {}))
      const fresh = await bodyOf(wire, { ...call, messages, tools }, `fresh-${seed}-${step}`)
      expect(body, `seed ${seed}, ${wire}, step ${step}`).toBe(fresh)
      if (body.endsWith('}')) sent++
    }
  }
  expect(sent).toBeGreaterThan(SEQUENCES * 2)
}, 86_400_000)

test('arguments whose fields are in another order are sent in that order', async () => {
  server.use(sse(wires.anthropic.text('Hello.')))
  const { api, provider } = wires.anthropic.model
  const given: Record<string, unknown> = { a: 1, b: { c: 2, d: 3 } }
  const content = [{ type: 'toolCall', id: 'call_1', name: 't', arguments: given }]
  const messages = [
    { role: 'user', content: 'go', timestamp: 1 },
    { role: 'assistant', content, api, provider, model: 'm', stopReason: 'toolUse', timestamp: 2 },
    { role: 'toolResult', toolCallId: 'call_1', toolName: 't', content: [], isError: false },
  ]
  const call = { messages, systemPrompt: '', tools: [], options: {} }
  expect(await bodyOf('anthropic', call, 'k')).toContain('{"a":1,"b":{"c":2,"d":3}}')
  given.b = { d: 3, c: 2 }
  expect(await bodyOf('anthropic', call, 'k')).toContain('{"a":1,"b":{"d":3,"c":2}}')
  delete given.a
  given.a = 1
  expect(await bodyOf('anthropic', call, 'k')).toContain('{"b":{"d":3,"c":2},"a":1}')
  given.e = 4
  expect(await bodyOf('anthropic', call, 'k')).toContain('{"b":{"d":3,"c":2},"a":1,"e":4}')
})

test('the signature that a text gets later is sent', async () => {
  server.use(sse(wires['openai-responses'].text('Hello.')))
  const { api, provider } = wires['openai-responses'].model
  const part: Record<string, unknown> = { type: 'text', text: 'Yes.' }
  const answer = { role: 'assistant', content: [part], api, provider, model: 'm', timestamp: 2 }
  const messages = [{ role: 'user', content: 'go', timestamp: 1 }, answer]
  const call = { messages, systemPrompt: '', tools: [], options: {} }
  expect(await bodyOf('openai-responses', call, 'k')).not.toContain('msg_1')
  part.textSignature = 'msg_1'
  expect(await bodyOf('openai-responses', call, 'k')).toContain('msg_1')
})
