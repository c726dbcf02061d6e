// MCP servers that misbehave: whatever one does is an error of a call, or a tool that is missing, and never a failed run.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'
import { context, readAll } from '../../support/engine.js'
import { isGone } from '../../support/processes/child.js'
import { killable } from '../../support/processes/killable.js'
import { callAll, engineWith, gate, received, scriptedServer } from '../../support/servers/mcp.js'
import { callTools } from '../../support/tools.js'

test('a server that dies during a call is an error of that call, and is started again for the next one', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__about'], ['s__die'], ['s__about']),
    'done',
  ])
  const { texts, result } = await callAll({ engine, provider })
  const pids = [texts[0], texts[2]].map((text) => (JSON.parse(text ?? '') as { pid: number }).pid)
  expect(texts[1]).toBe('error: MCP server `s` has ended (exit code 3)')
  expect(pids[0]).not.toBe(pids[1])
  expect(result.stopReason).toBe('end_turn')
})

test('a server that cannot be started leaves its tools out, with a warning, and is not started again at once', async () => {
  const { engine } = engineWith(
    {
      missing: { command: '/no/such/program' },
      ends: scriptedServer({ exit: true, print: 'I give up.' }),
      fine: scriptedServer({}, { tools: { allow: ['echo'] } }),
    },
    ['done', 'done', 'done'],
  )
  const result = await engine.run(context()).result
  expect(result.stopReason).toBe('end_turn')
  expect(result.warnings.map(({ code, field, message }) => ({ code, field, message }))).toEqual([
    {
      code: 'mcp_unavailable',
      field: 'mcp.ends',
      message: 'MCP server `ends` has ended (exit code 7)',
    },
    {
      code: 'mcp_unavailable',
      field: 'mcp.missing',
      message: expect.stringMatching(/^MCP server `missing` cannot be started: .*No such file/),
    },
  ])
  expect(
    engine.mcp.servers().map(({ name, state, tools, log }) => ({ name, state, tools, log })),
  ).toEqual([
    { name: 'ends', state: 'failed', tools: [], log: 'I give up.' },
    { name: 'fine', state: 'ready', tools: ['fine__echo'], log: undefined },
    { name: 'missing', state: 'failed', tools: [], log: undefined },
  ])
  await engine.run(context()).result
  const { warnings } = await engine.run(context()).result
  expect(warnings[0]?.message).toMatch(
    /^MCP server `ends` has ended \(exit code 7\); it is started again in \d+ ms at the earliest$/,
  )
})

test('a server that does not answer in time is left out, and a run that is aborted does not wait for it', async () => {
  const { engine } = engineWith({ s: scriptedServer({ never: true }, { startTimeoutMs: 200 }) }, [
    'done',
  ])
  const { warnings, stopReason } = await engine.run(context()).result
  expect(warnings.map(({ message }) => message)).toEqual([
    'MCP server `s` did not start within 200 ms',
  ])
  expect(stopReason).toBe('end_turn')
  const { engine: other } = engineWith({ s: scriptedServer({ never: true }) }, ['done'])
  const run = other.run(context())
  run.abort()
  expect((await run.result).stopReason).toBe('aborted')
})

test('servers that take long start side by side; a run waits for them, and one without their tools does not', async () => {
  const { port, holds, release } = await gate()
  const tools = { allow: ['echo'] }
  const slow = scriptedServer({ gate: port }, { tools, startTimeoutMs: 600_000 })
  const servers = { a: slow, b: slow, fast: scriptedServer({}, { tools }) }
  const { engine, provider } = engineWith(servers, ['at once', 'later'])
  const run = engine.run(context({ sessionLabel: 'agent:main:slow' }))
  // Both came before one of them was answered.
  await holds(2)
  const states = () => engine.mcp.servers().map(({ name, state }) => `${name} ${state}`)
  expect(states().slice(0, 2)).toEqual(['a connecting', 'b connecting'])
  expect((await engine.run(context({ mcp: ['fast'] })).result).text).toBe('at once')
  release()
  expect((await run.result).text).toBe('later')
  expect(states()).toEqual(['a ready', 'b ready', 'fast ready'])
  expect(provider.requests.map((request) => request.tools)).toEqual([
    ['fast__echo'],
    ['a__echo', 'b__echo', 'fast__echo'],
  ])
})

test('a server whose run does not wait any more goes on to start, and the next run has its tools', async () => {
  const log = join(folder().path, 'log')
  const { port, holds, release } = await gate()
  const slow = { tools: { allow: ['echo'] }, startTimeoutMs: 600_000 }
  const { engine, provider } = engineWith({ s: scriptedServer({ gate: port, log }, slow) }, [
    'done',
  ])
  const run = engine.run(context())
  await holds(1)
  run.abort()
  expect((await run.result).stopReason).toBe('aborted')
  release()
  const { text, warnings } = await engine.run(context()).result
  expect([text, warnings, provider.requests[0]?.tools]).toEqual(['done', [], ['s__echo']])
  expect(received(log).filter(({ method }) => method === 'initialize')).toHaveLength(1)
})

test('a call that is not answered ends at its time limit, and the server is told', async () => {
  const log = join(folder().path, 'log')
  const { engine, provider } = engineWith({ s: scriptedServer({ log }, { timeoutMs: 200 }) }, [
    callTools(['s__slow'], ['s__echo']),
    'done',
  ])
  const { texts } = await callAll({ engine, provider })
  expect(texts).toEqual(['error: Tool s__slow timed out after 200 ms.', '{}'])
  const cancelled = received(log).find(({ method }) => method === 'notifications/cancelled')
  expect(cancelled?.params).toEqual({ requestId: 4, reason: 'the caller does not wait any more' })
})

test('an abort settles a call at once, and an answer that comes later is dropped', async () => {
  const log = join(folder().path, 'log')
  const { engine, provider } = engineWith({ s: scriptedServer({ log }) }, [
    callTools(['s__late']),
    callTools(['s__echo', { n: 1 }]),
    'done',
  ])
  const run = engine.run(context())
  for await (const event of run) {
    if (event.type === 'tool_status' && event.status === 'started') run.abort()
  }
  const { stopReason, toolCalls } = await run.result
  expect(stopReason).toBe('aborted')
  expect(toolCalls.map(({ status }) => status)).toEqual(['failed'])
  expect((await callAll({ engine, provider })).texts).toEqual(['{"n":1}'])
})

test('a second answer, and one to nobody, are dropped', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__twice'], ['s__echo', { n: 1 }]),
    'done',
  ])
  expect((await callAll({ engine, provider })).texts).toEqual(['first', '{"n":1}'])
})

test.each([
  ['flood', /^error: MCP server `s` was stopped: it sent too many messages$/],
  ['huge', /^error: MCP server `s` was stopped: it sent a message of more than 16777216 bytes$/],
])('a server that sends without an end is stopped: %s', async (name, expected) => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools([`s__${name}`], ['s__echo', { n: 1 }]),
    'done',
  ])
  const { texts } = await callAll({ engine, provider })
  expect(texts[0]).toMatch(expected)
  expect(texts[1]).toBe('{"n":1}')
})

test('a result that does not fit what its tool declares is an error', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__structured', { value: { n: 'x' } }], ['s__structured', {}], ['s__input']),
    'done',
  ])
  const { texts } = await callAll({ engine, provider })
  expect(texts).toEqual([
    'error: MCP server `s` answered a result that does not fit the output schema of the tool `structured`:\n  - n: must be number',
    'error: MCP server `s` answered without the structured result that the tool `structured` declares',
    'error: MCP server `s` asks for input that this client does not give; call the tool with all it needs',
  ])
})

test('tools whose schemas cannot be used are left out, with the reason', async () => {
  const lies = [
    { name: 'no_object', inputSchema: { type: 'array' } },
    { name: 'no_schema', inputSchema: { type: 'object', properties: { a: { type: 'objekt' } } } },
    { name: 'elsewhere', inputSchema: { type: 'object', $ref: 'https://example.com/schema' } },
    { name: 'large', inputSchema: { type: 'object' }, pad: 300_000 },
    { name: 'echo', inputSchema: { type: 'object' } },
    { name: 'task', inputSchema: {}, execution: { taskSupport: 'required' } },
    { name: 'a name with spaces', inputSchema: {} },
    { nameless: true },
  ]
  const { engine } = engineWith({ s: scriptedServer({ tools: lies }) })
  const tools = (await engine.mcp.tools()).map(({ name }) => name)
  expect(tools).toContain('s__a_name_with_spaces_6ce1bf11')
  expect(tools.filter((name) => name === 's__echo')).toHaveLength(1)
  const refused = engine.mcp.servers()[0]?.refused.map(({ tool, reason }) => `${tool}: ${reason}`)
  expect(refused?.map((line) => line.slice(0, 60))).toEqual([
    'no_object: its input schema is not one of an object',
    'task: it runs as a task only',
    ': its description cannot be read: missing field `name` at li',
    'echo: it is listed twice',
    'elsewhere: its schema refers to `https://example.com/schema`',
    'large: its schema is 300034 bytes long; at most 262144 are a',
    'no_schema: its schema is not JSON Schema at `#/properties/a/',
  ])
})

test('what a server asks for is refused politely, and lines that are no messages are skipped', async () => {
  const noise = ['Server listening', '[1]', '{"jsonrpc":"2.0","id":1}', '']
  const { engine, provider } = engineWith({ s: scriptedServer({ noise }) }, [
    callTools(['s__ask']),
    'done',
  ])
  expect((await callAll({ engine, provider })).texts).toEqual([
    'ping: {}, roots/list: -32601, sampling/createMessage: -32601, elicitation/create: {"action":"decline"}, offered: {}',
  ])
})

test('the variables of a server are in no error, no log, no event and no row', async () => {
  const { path, file } = folder()
  const env = { TOKEN: 'canary-0123456789' }
  const print = 'starting with canary-0123456789'
  const { engine, provider } = engineWith(
    { s: scriptedServer({ print }, { env }) },
    [callTools(['s__refuse']), 'done'],
    { ledger: { path: file } },
  )
  const { texts, events, result } = await callAll({ engine, provider })
  expect(texts).toEqual([
    'error: MCP server `s` answered an error: no access with [redacted] (code -32000)',
  ])
  expect(engine.mcp.servers()[0]?.log).toBe('starting with [redacted]')
  await engine.close()
  expect(JSON.stringify([events, result])).not.toContain('canary')
  for (const name of readdirSync(path)) {
    expect(readFileSync(join(path, name)).includes('canary')).toBe(false)
  }
})

test('servers end with their engine, also those that do not want to', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__about']),
    'done',
  ])
  const { texts } = await callAll({ engine, provider })
  const { pid } = JSON.parse(texts[0] ?? '') as { pid: number }
  process.kill(pid, 0)
  process.kill(pid, 'SIGSTOP')
  await engine.close()
  expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  expect(engine.mcp.servers().map(({ state }) => state)).toEqual(['closed'])
})

test.runIf(process.platform === 'linux')(
  'a server ends with a host that is killed, also one that does not read the end of its input',
  async () => {
    const host = killable('mcp/host.mjs', [])
    const pid = Number((await host.line('server ')).slice('server '.length))
    process.kill(pid, 'SIGSTOP')
    host.kill('SIGKILL')
    await host.ended
    await expect.poll(() => isGone(pid)).toBe(true)
  },
)

test('a run is aborted while it waits for a server, and leaves nothing', async () => {
  const { engine } = engineWith({ s: scriptedServer({ never: true }) }, ['done'])
  const run = engine.run(context({ timeoutMs: 200 }))
  const events = await readAll(run)
  expect((await run.result).stopReason).toBe('timeout')
  expect(events.at(-1)?.type).toBe('stream_error')
  await engine.close()
})
