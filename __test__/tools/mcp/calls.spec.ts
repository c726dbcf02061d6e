// The tools of MCP servers in a run: their names, their calls and results, and what a host decides about them. Servers that misbehave are
// hostile.spec.ts, real ones are servers.spec.ts.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'
import { context, readAll } from '../../support/engine.js'
import { callAll, engineWith, received, scriptedServer } from '../../support/servers/mcp.js'
import { callTools, tool } from '../../support/tools.js'

test('the tools of every server are in a run as server__tool, after those of the host, and are called by the model', async () => {
  const { engine, provider } = engineWith(
    {
      b: scriptedServer({}, { tools: { allow: ['echo'] } }),
      a: scriptedServer({}, { tools: { allow: ['e*', 'twice'], deny: ['twice'] } }),
    },
    [callTools(['a__echo', { n: 1 }], ['b__echo', { n: 2 }], ['own', {}]), 'done'],
  )
  const { texts, result } = await callAll(
    { engine, provider },
    { tools: [tool('own', () => 'mine')] },
  )
  expect(texts).toEqual(['{"n":1}', '{"n":2}', 'mine'])
  expect(result.stopReason).toBe('end_turn')
  expect(provider.requests[0]?.tools).toEqual(['own', 'a__echo', 'b__echo'])
})

test('a server that knows no handshake is spoken to without one, and one that is asked for it never is', async () => {
  const dir = folder()
  const log = join(dir.path, 'log')
  const { engine, provider } = engineWith(
    { new: scriptedServer({ modern: true }), old: scriptedServer({ log }) },
    [callTools(['new__echo', { n: 1 }], ['old__echo', { n: 2 }]), 'done'],
  )
  expect((await callAll({ engine, provider })).texts).toEqual(['{"n":1}', '{"n":2}'])
  const protocols = engine.mcp
    .servers()
    .map(({ name, state, protocol, server }) => ({ name, state, protocol, server }))
  const server = { name: 'scripted', version: '1.2.3' }
  expect(protocols).toEqual([
    { name: 'new', state: 'ready', protocol: '2026-07-28', server },
    { name: 'old', state: 'ready', protocol: '2025-11-25', server },
  ])
  expect(received(log).map(({ method }) => method)).toEqual([
    'initialize',
    'notifications/initialized',
    'tools/list',
    'tools/list',
    'tools/call',
  ])
  const { engine: pinned } = engineWith({
    s: scriptedServer({ modern: true }, { protocol: '2025-11-25' }),
  })
  expect(await pinned.mcp.tools()).toEqual([])
  expect(pinned.mcp.servers()[0]?.error).toBe(
    'answered an error: unsupported protocol version (code -32022)',
  )
})

test('a context selects tools by server, by either form of their names, and by patterns', async () => {
  const names = async (mcp: boolean | string[] | undefined) => {
    const { engine, provider } = engineWith(
      {
        a: scriptedServer({}, { tools: { allow: ['echo', 'slow'] } }),
        b: scriptedServer({}, { tools: { allow: ['echo'] } }),
      },
      ['done'],
    )
    const result = await engine.run(context({ mcp })).result
    expect(result.warnings).toEqual([])
    return {
      offered: provider.requests[0]?.tools,
      started: engine.mcp.servers().map(({ state }) => state),
    }
  }
  expect(await names(undefined)).toEqual({
    offered: ['a__echo', 'a__slow', 'b__echo'],
    started: ['ready', 'ready'],
  })
  expect(await names(false)).toEqual({ offered: [], started: ['idle', 'idle'] })
  expect(await names(['a.slow', 'b'])).toEqual({
    offered: ['a__slow', 'b__echo'],
    started: ['ready', 'ready'],
  })
  expect(await names(['a__*'])).toEqual({
    offered: ['a__echo', 'a__slow'],
    started: ['ready', 'idle'],
  })
  expect(await names(['*.echo'])).toEqual({
    offered: ['a__echo', 'b__echo'],
    started: ['ready', 'ready'],
  })
})

test('a tool of a server whose name the host has gets another one', async () => {
  const { engine, provider } = engineWith(
    { a: scriptedServer({}, { tools: { allow: ['echo'] } }) },
    ['done'],
  )
  await engine.run(context({ tools: [tool('a__echo', () => 'mine')] })).result
  expect(provider.requests[0]?.tools).toEqual(['a__echo', 'a__echo_dd039d33'])
})

test('texts, images, links, resources and structured results are what the model reads', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__parts'], ['s__structured', { value: { n: 1 } }], ['s__fail']),
    'done',
  ])
  const { texts, result } = await callAll({ engine, provider })
  expect(texts).toEqual([
    'a\n[image/png]\n[resource a at file:///a]\n[resource file:///b]\nb\n[a part of kind audio of audio/wav was left out]',
    '{"n":1}',
    'error: It did not work.',
  ])
  expect(result.toolCalls.map(({ status, result }) => ({ status, result }))).toMatchObject([
    { status: 'completed' },
    { status: 'completed', result: { content: [], structuredContent: { n: 1 } } },
    { status: 'failed' },
  ])
})

test('the progress of a call is reported while it runs', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__progress']),
    'done',
  ])
  const updates: unknown[] = []
  const run = engine.run(context(), { onToolUpdate: (update) => updates.push(update) })
  const events = await readAll(run)
  const partial = (n: number) => ({
    content: [{ type: 'text', text: `step ${n}` }],
    details: { progress: n, total: 2, message: `step ${n}` },
  })
  const [call] = (await run.result).toolCalls
  const about = { toolName: 's__progress', toolCallId: call?.id }
  expect(updates).toEqual([
    { ...about, partial: partial(1) },
    { ...about, partial: partial(2) },
  ])
  const seen = events.flatMap((event) => (event.type === 'tool_progress' ? [event.partial] : []))
  expect(seen).toEqual([partial(1), partial(2)])
  expect(provider.requests).toHaveLength(2)
})

test('arguments are checked by the schema of the server, and do not reach it when they do not fit', async () => {
  const dir = folder()
  const log = join(dir.path, 'log')
  const { engine, provider } = engineWith({ s: scriptedServer({ log }) }, [
    callTools(['s__strict', { n: 'x' }], ['s__strict', { n: 1, m: 2 }], ['s__strict', { n: 3 }]),
    'done',
  ])
  const { texts } = await callAll({ engine, provider })
  expect(texts[0]).toMatch(/^error: .*n: must be integer/s)
  expect(texts[1]).toMatch(/^error: .*additional propert/s)
  expect(texts[2]).toBe('{"n":3}')
  const calls = received(log).filter(({ method }) => method === 'tools/call')
  expect(calls.map(({ params }) => params?.arguments)).toEqual([{ n: 3 }])
})

test('beforeToolCall decides about calls of servers, which ask where nothing else is said, and afterToolCall replaces their results', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__echo', { n: 1 }], ['s__about'], ['s__fail']),
    'done',
  ])
  const { texts } = await callAll(
    { engine, provider },
    {
      beforeToolCall: ({ toolName }) => (toolName === 's__about' ? { deny: 'Not that.' } : 'allow'),
      afterToolCall: (_call, value) => ({
        ...(value as object),
        content: [{ type: 'text', text: JSON.stringify(value) }],
      }),
    },
  )
  const details = { content: [{ type: 'text', text: '{"n":1}' }] }
  expect(texts).toEqual([
    JSON.stringify({ content: [{ type: 'text', text: '{"n":1}' }], details }),
    'error: Not that.',
    'error: It did not work.',
  ])
})

test('in a run with a hook, calls of a server wait for a permission whatever it says about its tools, unless the host trusts it', async () => {
  const tools = [
    { name: 'look', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
    { name: 'wipe', inputSchema: { type: 'object' }, annotations: { destructiveHint: true } },
  ]
  const waiting = async (options: object, hooked: boolean) => {
    const s = scriptedServer({ tools }, { tools: { allow: ['look', 'wipe'] }, ...options })
    const { engine } = engineWith({ s }, [callTools(['s__look'], ['s__wipe']), 'done'], {
      ledger: { path: folder().file },
    })
    const run = engine.run(context(hooked ? { beforeToolCall: ({ params }) => ({ params }) } : {}))
    const waits: string[] = []
    for await (const event of run) {
      if (event.type !== 'approval' || event.phase !== 'requested') continue
      waits.push(event.toolName)
      await engine.deny(event.approvalId)
    }
    return waits.sort()
  }
  expect(await waiting({}, true)).toEqual(['s__look', 's__wipe'])
  expect(await waiting({}, false)).toEqual([])
  expect(await waiting({ trustAnnotations: true }, true)).toEqual(['s__wipe'])
  expect(await waiting({ trustAnnotations: true }, false)).toEqual(['s__wipe'])
})

test('annotations grant nothing unless the host trusts them', async () => {
  const tools = async (trustAnnotations: boolean) => {
    const server = scriptedServer({}, { trustAnnotations, tools: { allow: ['progress', 'echo'] } })
    const { engine } = engineWith({ s: server })
    return (await engine.mcp.tools()).map(({ tool, replay }) => [tool, replay])
  }
  expect(await tools(false)).toEqual([
    ['echo', 'unsafe'],
    ['progress', 'unsafe'],
  ])
  expect(await tools(true)).toEqual([
    ['echo', 'unsafe'],
    ['progress', 'pure'],
  ])
})

test('a server gets a few variables of the process and those of its options', async () => {
  process.env.MCP_SPEC_CANARY = 'not for servers'
  try {
    const { engine, provider } = engineWith({ s: scriptedServer({}, { env: { OWN: 'x' } }) }, [
      callTools(['s__about']),
      'done',
    ])
    const { texts } = await callAll({ engine, provider })
    const { variables } = JSON.parse(texts[0] ?? '') as { variables: string[] }
    const known = [
      'HOME',
      'LANG',
      'LOGNAME',
      'OWN',
      'PATH',
      'SHELL',
      'TERM',
      'TMPDIR',
      'TZ',
      'USER',
    ]
    expect(variables.filter((name) => !known.includes(name))).toEqual([])
    expect(variables).toContain('OWN')
  } finally {
    delete process.env.MCP_SPEC_CANARY
  }
})

test('the tools of a run are frozen when it begins, and a change takes effect at the next run', async () => {
  const { engine, provider } = engineWith(
    { s: scriptedServer({}, { tools: { allow: ['grow', 'grown'] } }) },
    [callTools(['s__grow']), 'done', 'done'],
  )
  await engine.run(context()).result
  await engine.run(context()).result
  expect(provider.requests.map(({ tools }) => tools)).toEqual([
    ['s__grow'],
    ['s__grow'],
    ['s__grow', 's__grown'],
  ])
})

test('policies allow and deny a tool by its own name where a run has it under another one', async () => {
  const own = [{ name: 'files.delete', inputSchema: { type: 'object' } }]
  const s = scriptedServer({ tools: own }, { tools: { allow: ['files.delete', 'echo'] } })
  const { engine: any, provider: seen } = engineWith({ s }, ['done'])
  await any.run(context()).result
  const [echo, exposed = ''] = seen.requests[0]?.tools ?? []
  expect([echo, exposed]).toEqual([
    's__echo',
    expect.stringMatching(/^s__files_delete_[0-9a-f]{8}$/),
  ])

  for (const name of ['s.files.delete', 's__files.delete', 's.files.*', '*.delete', exposed]) {
    const denying = engineWith({ s }, [callTools([exposed]), 'done'], {
      policy: { deniedTools: [name] },
    })
    const denied = await callAll(denying)
    expect([name, denying.provider.requests[0]?.tools]).toEqual([name, ['s__echo']])
    expect(denied.texts).toEqual([`error: Tool ${exposed} is not allowed (policy \`deniedTools\`)`])
    const allowing = engineWith({ s }, [callTools([exposed], ['s__echo']), 'done'])
    const allowed = await callAll(allowing, { policy: { allowedTools: [name] } })
    expect(allowing.provider.requests[0]?.tools).toEqual([exposed])
    expect(allowed.texts).toEqual([
      'error: MCP server `s` answered an error: unknown tool files.delete (code -32602)',
      'error: Tool s__echo is not allowed (policy `allowedTools`)',
    ])
  }
})

test('policies deny a tool by its own name where the host has a tool of that name', async () => {
  const s = scriptedServer({}, { tools: { allow: ['echo'] } })
  const mine = { name: 's__echo', parameters: { type: 'object' }, run: () => 'mine' }
  const { engine, provider } = engineWith({ s }, ['done', 'done'])
  await engine.run(context({ tools: [mine] })).result
  await engine.run(context({ tools: [mine], policy: { deniedTools: ['s.echo'] } })).result
  expect(provider.requests.map(({ tools }) => tools)).toEqual([
    ['s__echo', expect.stringMatching(/^s__echo_[0-9a-f]{8}$/)],
    [],
  ])
})

test('policies allow and deny tools of servers by either form of their names', async () => {
  const { engine, provider } = engineWith(
    { s: scriptedServer({}, { tools: { allow: ['echo', 'slow', 'twice'] } }) },
    [callTools(['s__twice'], ['s__echo', { n: 1 }]), 'done'],
    { policy: { deniedTools: ['s.twice'] } },
  )
  const { texts } = await callAll({ engine, provider }, { policy: { allowedTools: ['s.*'] } })
  expect(provider.requests[0]?.tools).toEqual(['s__echo', 's__slow'])
  expect(texts).toEqual(['error: Tool s__twice is not allowed (policy `deniedTools`)', '{"n":1}'])
})
