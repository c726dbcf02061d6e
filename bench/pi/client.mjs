// One program over pi's interfaces, with the modules that it is given: what it takes of the processor for a token, a call, a round and a large call of a
// tool. It must never know whose modules they are.

const [, , port, ai, core, only] = process.argv
const TOKENS = 20_000
const { completeSimple, streamSimple } = await import(ai)
const { agentLoop } = await import(core)

const model = {
  id: 'claude-haiku-4-5',
  name: 'M',
  api: 'anthropic-messages',
  provider: 'anthropic',
  baseUrl: `http://127.0.0.1:${port}`,
  reasoning: false,
  input: ['text'],
  cost: { input: 1, output: 5, cacheRead: 0.1, cacheWrite: 1.25 },
  contextWindow: 1_000_000,
  maxTokens: 8_000,
}
const user = (content) => ({ role: 'user', content, timestamp: 1 })
const options = { apiKey: 'sk-x' }
const tool = {
  name: 'look',
  label: 'look',
  description: 'looks',
  parameters: { type: 'object', properties: {} },
  execute: async () => ({ content: [{ type: 'text', text: 'seen' }], details: {} }),
}

/** Of the tokens that the server writes: the engine joins those that a busy reader has not read. */
async function tokens() {
  let length = 0
  for await (const event of streamSimple(model, { messages: [user('bench:tokens')] }, options)) {
    if (event.type === 'text_delta') length += event.delta.length
  }
  if (length !== TOKENS * 'token '.length) throw new Error(`${length} characters`)
  return TOKENS
}

async function calls(count) {
  for (let at = 0; at < count; at++) {
    const { stopReason } = await completeSimple(model, { messages: [user('bench:one')] }, options)
    if (stopReason !== 'stop') throw new Error(stopReason)
  }
  return count
}

async function rounds(count) {
  const config = { ...options, model, convertToLlm: (messages) => messages }
  const context = { systemPrompt: '', messages: [], tools: [tool] }
  const loop = agentLoop([user(`bench:rounds rounds ${count}`)], context, config)
  for await (const _ of loop);
  const messages = await loop.result()
  if (messages.length !== 2 * count + 2) throw new Error(`${messages.length} messages`)
  return count
}

async function large() {
  const context = { messages: [user('bench:arguments')], tools: [tool] }
  const stream = streamSimple(model, context, options)
  for await (const _ of stream);
  const { content } = await stream.result()
  if (content[0].arguments.text.length !== 200_000) throw new Error('arguments are missing')
  return 1
}

/** Microseconds of the processor, of all threads, for each of what `work` has done. */
async function measured(work) {
  const before = process.cpuUsage()
  const count = await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / count
}

const rows = {
  W1: [() => tokens(), () => tokens()],
  W2: [() => calls(50), () => calls(500)],
  W3: [() => rounds(5), () => rounds(25)],
  W3r80: [() => rounds(5), () => rounds(80)],
  W3r200: [() => rounds(5), () => rounds(200)],
  W3args: [() => calls(1), () => large()],
}
const result = {}
for (const [name, [warm, work]] of Object.entries(rows)) {
  if (only && !only.split(',').includes(name)) continue
  await warm()
  result[name] = await measured(work)
}
process.stdout.write(JSON.stringify(result), () => process.exit(0))
