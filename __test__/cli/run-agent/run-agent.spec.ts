// `runAgent` as a program calls it: one message to its reply, with tools, a session that continues, and the limits of its config. Every
// test goes over HTTP to a scripted server. It must never reach a real provider.

import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { RunAgentFailure } from '../../../run-agent.js'
import { folder } from '../../support/cleanup.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { sse, sseThenHold, status } from '../../support/servers/server.js'
import { agent, calls, KEY, says } from './agent.js'

test('a message gets a reply, its usage and the number of answers', async () => {
  const { run } = await agent(says('Hello there.', { input: 4000, output: 50, cached: 1000 }))
  const result = await run('Hello!')
  const usage = {
    input: 4000,
    output: 50,
    cacheRead: 1000,
    cacheWrite: 0,
    totalTokens: 5050,
    cost: {
      input: expect.closeTo(0.004, 10),
      output: expect.closeTo(0.00025, 10),
      cacheRead: expect.closeTo(0.0001, 10),
      cacheWrite: 0,
      total: expect.closeTo(0.00435, 10),
    },
  }
  expect(result).toEqual({
    reply: 'Hello there.',
    usage,
    lastCallUsage: usage,
    iterations: 1,
    maxIterationsReached: false,
    stopReason: 'end_turn',
    turnId: expect.stringMatching(/^[0-9A-Z]{26}$/),
  })
})

test('the directories are created for their owner only, and the workspace has its instructions', async () => {
  const { run, state } = await agent(says('ok'))
  await run('hi')
  const mode = (name: string) => (statSync(join(state, name)).mode & 0o777).toString(8)
  expect([mode('.'), mode('workspace'), mode('sessions'), mode('logs')]).toEqual(
    Array(4).fill('700'),
  )
  expect(readFileSync(join(state, 'workspace', 'AGENTS.md'), 'utf8')).toContain(
    '# Agent Instructions',
  )
  expect(existsSync(join(state, 'agent.db'))).toBe(true)
})

test('instructions that exist are not overwritten', async () => {
  const { run, put, workspace, system } = await agent(says('ok'))
  put('AGENTS.md', 'Mine.')
  await run('hi')
  expect(readFileSync(join(workspace, 'AGENTS.md'), 'utf8')).toBe('Mine.')
  expect(system(0)).toContain('<file path="AGENTS.md">\nMine.\n</file>')
})

test('`agent.workspaceDir` is where the tools work, and what the model reads as its directory', async () => {
  const project = join(folder().path, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'port.txt'), '8080')
  const { run, config, system, sent, workspace } = await agent(
    calls(['t1', 'read', { path: 'port.txt' }]),
    says('It is 8080.'),
  )
  const result = await run('Which port?', {
    config: { ...config, agent: { workspaceDir: project } },
  })
  expect([result.reply, result.iterations]).toEqual(['It is 8080.', 2])
  expect(system(0)).toContain(`- CWD: ${project}\n`)
  expect(sent(1).at(-1)).toBe('user: tool_result')
  expect(existsSync(workspace)).toBe(false)
})

test('every file of the table is in the prompt, in its order, and no other', async () => {
  const { run, put, system } = await agent(says('ok'))
  const names = [
    'AGENTS.md',
    'SOUL.md',
    'USER.md',
    'TOOLS.md',
    'IDENTITY.md',
    'HEARTBEAT.md',
    'MEMORY.md',
    'BOOTSTRAP.md',
  ]
  for (const name of [...names, 'OTHER.md']) put(name, `text of ${name}`)
  await run('hi')
  expect(
    [...system(0).matchAll(/<file path="(.*)">\n(.*)\n<\/file>/g)].map(([, a, b]) => [a, b]),
  ).toEqual(names.map((name) => [name, `text of ${name}`]))
})

test('an empty file is left out, and one that leads out of the workspace is named without its text', async () => {
  const { run, put, workspace, system } = await agent(says('ok'))
  const secret = join(folder().path, 'secret')
  writeFileSync(secret, 'the secret of the machine')
  put('USER.md', ' \n ')
  put('NOTES.md', 'linked inside')
  symlinkSync(secret, join(workspace, 'SOUL.md'))
  symlinkSync('NOTES.md', join(workspace, 'TOOLS.md'))
  await run('hi')
  expect(system(0)).not.toContain('USER.md">')
  expect(system(0)).not.toContain('the secret of the machine')
  expect(system(0)).toMatch(/SOUL\.md.*leads outside of the workspace/)
  expect(system(0)).toContain('<file path="TOOLS.md">\nlinked inside\n</file>')
})

test('a group does not get what the agent remembers', async () => {
  const { run, put, system } = await agent(says('ok'))
  put('MEMORY.md', 'Ada is ill.')
  await run('hi', { sessionKey: 'agent:main:channel:test:account:default:peer:group:chat' })
  await run('hi')
  expect([system(0).includes('Ada is ill.'), system(1).includes('Ada is ill.')]).toEqual([
    false,
    true,
  ])
})

test('the prompt has identity, files, tools and runtime, in this order', async () => {
  const { run, system } = await agent(says('ok'))
  await run('hi')
  const prompt = system(0)
  const parts = [
    'You are a helpful AI assistant.',
    '<file path="AGENTS.md">',
    '## Tools',
    '## Runtime',
  ]
  expect(parts.map((part) => prompt.indexOf(part))).toEqual(
    parts.map((part) => prompt.indexOf(part)).toSorted((a, b) => a - b),
  )
  expect(parts.every((part) => prompt.includes(part))).toBe(true)
  expect(prompt).toMatch(/\n- OS: \w+ \w+\n- CWD: \S+\n- Time zone: \S+\n- Node\.js: v[\d.]+/)
})

test('a custom identity stands in place of the default one', async () => {
  const { run, config, system } = await agent(says('ok'))
  await run('hi', { config: { ...config, agent: { identity: 'You are a pirate.' } } })
  expect(system(0)).toMatch(/^You are a pirate\./)
  expect(system(0)).not.toContain('helpful AI assistant')
})

test('the date is beside the message, so that the prompt stays the same from call to call', async () => {
  const { run, system, sent } = await agent(says('one'), says('two'))
  await run('hi')
  await run('and now?')
  expect(system(1)).toBe(system(0))
  expect(system(0)).not.toMatch(/\bDate:/)
  expect(sent(1)).toEqual([
    expect.stringMatching(/^user: Date: .*\d{4}.* \| hi$/),
    'assistant: one',
    expect.stringMatching(/^user: Date: .*\d{4}.* \| and now\?$/),
  ])
})

test('the model has the five tools with their parameters, and the prompt says how to use them', async () => {
  const { run, server, system } = await agent(says('ok'))
  await run('hi')
  const tools = server.seen[0]?.body.tools.map(
    ({ name, input_schema }: { name: string; input_schema: { properties: object } }) => [
      name,
      Object.keys(input_schema.properties).sort(),
    ],
  )
  expect(Object.fromEntries(tools)).toEqual({
    read: ['limit', 'offset', 'path'],
    write: ['content', 'path'],
    edit: expect.arrayContaining(['newText', 'oldText', 'path']),
    bash: ['command', 'timeout'],
    apply_patch: expect.arrayContaining(['patch']),
  })
  for (const [name] of tools) expect(system(0)).toMatch(new RegExp(`\n- ${name}: .+\n  - .+`))
})

test('the tools read, write, edit, patch and run commands in the workspace', async () => {
  const patch = '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-three\n+four\n'
  const { run, workspace } = await agent(
    calls(['t1', 'write', { path: 'a.txt', content: 'one\n' }]),
    calls(['t2', 'edit', { path: 'a.txt', oldText: 'one', newText: 'two' }]),
    calls(['t3', 'bash', { command: 'sed -i s/two/three/ a.txt' }]),
    calls(['t4', 'apply_patch', { patch }]),
    says('done'),
  )
  const { reply, iterations } = await run('change it')
  expect([reply, iterations, readFileSync(join(workspace, 'a.txt'), 'utf8')]).toEqual([
    'done',
    5,
    'four\n',
  ])
})

test('a file outside of the workspace cannot be read', async () => {
  const { run, server } = await agent(calls(['t1', 'read', { path: '/etc/passwd' }]), says('no'))
  await run('read it')
  const [result] = server.seen[1]?.body.messages.at(-1).content ?? []
  expect(result).toMatchObject({ type: 'tool_result', tool_use_id: 't1', is_error: true })
  expect(JSON.stringify(result)).not.toContain('root:')
})

test('a tool that does not exist is an error for the model, and the run goes on', async () => {
  const { run, server } = await agent(calls(['t1', 'nonexistent', {}]), says('I see.'))
  expect((await run('use it')).reply).toBe('I see.')
  expect(server.seen[1]?.body.messages.at(-1).content[0]).toMatchObject({ is_error: true })
})

test('a session continues where it ended, and another one is empty', async () => {
  const { run, sent } = await agent(says('I am Ada.'), says('Ada.'), says('Nobody.'))
  await run('Who are you?')
  await run('Again?')
  await run('Who?', { sessionKey: 'agent:main:other' })
  expect([sent(1).length, sent(2).length]).toEqual([3, 1])
})

test('where the window is exceeded, all but the last ten messages become a summary, and the call is repeated', async () => {
  const overflow = status(400, {
    error: {
      type: 'invalid_request_error',
      message: 'prompt is too long: 210000 tokens > 200000 maximum',
    },
  })
  const long = 'x'.repeat(4000)
  const answers = Array.from({ length: 8 }, (_, index) => says(`answer ${index} ${long}`))
  const { run, server, sent } = await agent(...answers, overflow, says('We talked.'), says('done'))
  for (const index of answers.keys()) await run(`question ${index} ${long}`)
  expect(await run('and now?')).toMatchObject({ reply: 'done', iterations: 1 })
  expect(server.seen).toHaveLength(11)
  const [summary, ...others] = sent(10)
  expect(summary).toMatch(/^user: \[Previous conversation summary\]:\s+We talked\./)
  expect(others.map((text) => /(question|answer) \d|and now/.exec(text)?.[0])).toEqual([
    'answer 3',
    'question 4',
    'answer 4',
    'question 5',
    'answer 5',
    'question 6',
    'answer 6',
    'question 7',
    'answer 7',
    'and now',
  ])
})

test('25 answers is the limit, or that of the config', async () => {
  const { run, config } = await agent(calls(['t1', 'bash', { command: 'true' }]))
  const short = await run('loop', { config: { ...config, agent: { maxIterations: 3 } } })
  expect(short).toMatchObject({
    iterations: 3,
    maxIterationsReached: true,
    stopReason: 'tool_use',
  })
  expect(short).not.toHaveProperty('error')
  const long = await run('loop', { sessionKey: 'agent:main:long' })
  expect([long.iterations, long.maxIterationsReached]).toEqual([25, true])
})

test('usage is the sum of all calls, and that of the last call is told apart', async () => {
  const { run } = await agent(
    sse(
      anthropic.start({ input: 4000 }),
      anthropic.toolUse(0, 't1', 'bash', { command: 'true' }),
      anthropic.end('tool_use', { output: 50 }),
    ),
    says('done', { input: 5000, output: 100 }),
  )
  const { usage, lastCallUsage } = await run('hi')
  expect([usage.input, usage.output, usage.totalTokens]).toEqual([9000, 150, 9150])
  expect([lastCallUsage.input, lastCallUsage.output]).toEqual([5000, 100])
})

test('the cost of a model without a price is null, and its window is assumed with a warning', async () => {
  const warnings: string[] = []
  const listen = (warning: Error & { code?: string }) => {
    if (warning.code === 'RUN_AGENT_MODEL') warnings.push(warning.message)
  }
  process.on('warning', listen)
  const { run, config } = await agent(says('ok'))
  const result = await run('hi', {
    config: { ...config, provider: { ...config.provider, model: 'of-our-own' } },
  })
  process.off('warning', listen)
  expect(result.usage.cost).toBe(null)
  expect(warnings).toEqual([expect.stringMatching(/`of-our-own`.*128000 tokens/)])
})

test('a result longer than the limit is cut for the model', async () => {
  const { run, config, put, server } = await agent(
    calls(['t1', 'read', { path: 'long.txt' }]),
    says('ok'),
  )
  put('long.txt', 'x'.repeat(1000))
  await run('read', { config: { ...config, agent: { maxToolResultChars: 200 } } })
  const [result] = server.seen[1]?.body.messages.at(-1).content ?? []
  expect(JSON.stringify(result).length).toBeLessThan(500)
})

test('an abort ends the run, and its reason is what `throwOnError` rejects with', async () => {
  const { run } = await agent(
    sseThenHold(
      anthropic.start(),
      anthropic.blockStart(0, { type: 'text', text: '' }),
      anthropic.delta(0, { type: 'text_delta', text: 'Hel' }),
    ),
  )
  const ending = async (throwOnError: boolean) => {
    const controller = new AbortController()
    const reason = new Error('the user has left')
    return run('hi', {
      signal: controller.signal,
      throwOnError,
      onEvent: (event) => event.type === 'text_delta' && controller.abort(reason),
    })
  }
  expect(await ending(false)).toMatchObject({
    reply: 'Hel',
    stopReason: 'aborted',
    error: { kind: 'aborted', retryable: false },
  })
  await expect(ending(true)).rejects.toThrow('the user has left')
})

test('a failed run has its error, and with `throwOnError` it rejects', async () => {
  const { run } = await agent(
    status(400, { error: { type: 'invalid_request_error', message: 'no' } }),
  )
  const result = await run('hi')
  expect(result).toMatchObject({
    reply: '',
    stopReason: 'error',
    error: { kind: 'model_error', retryable: false, detail: { kind: 'format', status: 400 } },
  })
  const failure = await run('hi', { throwOnError: true }).catch((error) => error)
  expect(failure).toBeInstanceOf(RunAgentFailure)
  expect([failure.name, failure.kind, failure.message, failure.result.stopReason]).toEqual([
    'RunAgentFailure',
    'model_error',
    result.error?.message,
    'error',
  ])
})

test('runs of one session wait for each other, and lose nothing', async () => {
  const { run, sent } = await agent(says('one'), says('two'), says('three'))
  await Promise.all([run('a'), run('b'), run('c')])
  expect([0, 1, 2].map((index) => sent(index).length)).toEqual([1, 3, 5])
})

test('what is no message is refused before anything is created', async () => {
  const { run, state } = await agent(says('ok'))
  const wrong = { sessionKey: '', userMessage: '', onEvent: 5 as never }
  const error = await run('', wrong).catch((error) => error)
  expect([error.code, error.issues.map(({ path }: { path: string }) => path)]).toEqual([
    'invalid_options',
    ['sessionKey', 'userMessage', 'onEvent'],
  ])
  expect(existsSync(state)).toBe(false)
})

test("a ledger that the agent's commands could change is refused", async () => {
  const { run, config, state } = await agent(says('ok'))
  await expect(
    run('hi', { config: { ...config, agent: { workspaceDir: state } } }),
  ).rejects.toMatchObject({ code: 'invalid_options' })
})

test('the ledger has the whole session, and it is sound', async () => {
  const { run, state } = await agent(calls(['t1', 'bash', { command: 'echo hi' }]), says('done'))
  await run('hi')
  const { AgentEngine } = await import('../../../index.js')
  const engine = new AgentEngine({ ledger: { path: join(state, 'agent.db') } })
  const history = await engine.ledger.history(KEY)
  const report = await engine.ledger.verify()
  await engine.close()
  expect(history.map(({ role, content }) => [role, content])).toEqual([
    ['user', 'hi'],
    ['assistant', ''],
    ['tool', expect.stringContaining('hi')],
    ['assistant', 'done'],
  ])
  expect(report.ok).toBe(true)
})
