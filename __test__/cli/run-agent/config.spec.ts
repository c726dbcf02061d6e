// The config of `runAgent`: an object or a file of JSON5, its variables, its defaults and everything that is refused. It must never read the
// developer's own config.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { DEFAULT_MODELS, readSettings } from '../../../lib/run-agent/config/settings.ts'
import { folder } from '../../support/cleanup.js'
import { status } from '../../support/servers/server.js'
import { agent, says } from './agent.js'

/** The warnings of a config while `use` runs. */
async function warned(use: () => Promise<unknown>): Promise<string[]> {
  const messages: string[] = []
  const listen = (warning: Error & { code?: string }) => {
    if (warning.code === 'RUN_AGENT_CONFIG_KEYS') messages.push(warning.message)
  }
  process.on('warning', listen)
  await use()
  process.off('warning', listen)
  return messages
}

const refused = (given: unknown) => {
  try {
    readSettings(given as never, folder().path, {})
  } catch (error) {
    return (error as { issues: { path: string; message: string }[] }).issues
  }
  throw new Error('it was accepted')
}

test('the default file is read, with comments, trailing commas and variables', async () => {
  const { run, state, server, system } = await agent(says('ok'))
  mkdirSync(state, { recursive: true })
  writeFileSync(
    join(state, 'myclaw.json'),
    `// MyClaw
     {
       provider: {
         name: 'anthropic', model: "claude-haiku-4-5", baseUrl: '${server.url}',
         authProfiles: [{ id: 'primary', apiKey: '\${RUN_AGENT_TEST_KEY}', }],
       },
       agent: { identity: '$\${NOT_A_VARIABLE} costs $5' },
     }`,
  )
  process.env.RUN_AGENT_TEST_KEY = 'canary-from-the-environment'
  try {
    await run('hi', { config: undefined })
  } finally {
    delete process.env.RUN_AGENT_TEST_KEY
  }
  expect(server.seen[0]?.headers['x-api-key']).toBe('canary-from-the-environment')
  expect(system(0)).toContain(`\${NOT_A_VARIABLE} costs $5`)
})

test('a config is the path of a file, too', async () => {
  const { run, server } = await agent(says('ok'))
  const path = join(folder().path, 'other.json5')
  const provider = `{ name: 'anthropic', model: 'claude-haiku-4-5', baseUrl: '${server.url}', authProfiles: [{ id: 'a', apiKey: 'canary-key-9' }] }`
  writeFileSync(path, `\ufeff{ provider: ${provider} }`)
  expect((await run('hi', { config: path })).reply).toBe('ok')
})

test('a file that does not exist, or is no JSON5, is refused with its place', () => {
  const { path } = folder()
  expect(refused(join(path, 'none.json'))).toEqual([
    { path: 'config', message: expect.stringMatching(/none\.json` cannot be read \(ENOENT\)/) },
  ])
  writeFileSync(join(path, 'bad.json'), '{\n  agent: { model: canary-secret }\n}')
  const [problem] = refused(join(path, 'bad.json'))
  expect(problem?.message).toMatch(/bad\.json` is no JSON5: line 2, column 19: unexpected `c`$/)
})

test('every wrong value is listed with its path and what is allowed, and nothing is created', async () => {
  const { run, state, server } = await agent(says('ok'))
  const config = {
    agent: {
      workspaceDir: '',
      maxIterations: 0,
      temperature: 3,
      tools: ['read', 'fly'],
      bash: { sandbox: 'maybe', network: 'yes', env: { A: 1 } },
    },
    provider: {
      name: 5,
      baseUrl: 'ftp://x',
      authProfiles: [{ id: 'a', apiKey: 'canary-secret' }, { id: 'a' }, 7],
      maxRetries: -1,
    },
    channels: 'telegram',
  }
  const error = await run('hi', { config: config as never }).catch((error) => error)
  expect([error.name, error.code]).toEqual(['AgentEngineError', 'invalid_options'])
  expect(
    error.issues.map(
      ({ path, message }: { path: string; message: string }) => `${path}: ${message}`,
    ),
  ).toEqual([
    'agent.workspaceDir: is not a text with at least one character',
    'agent.maxIterations: is not a whole number from 1 on',
    'agent.temperature: is not a number from 0 to 2',
    'agent.tools[1]: is not one of read, write, edit, bash, apply_patch, ls, grep, find',
    'agent.bash.sandbox: is not one of preferred, required, off',
    'agent.bash.network: is not true or false',
    'agent.bash.env.A: is not a text',
    'provider.name: is not a text with at least one character',
    'provider.baseUrl: is not an address that begins with http:// or https://',
    'provider.authProfiles[1].apiKey: is missing',
    'provider.authProfiles[1].id: is the id of an earlier profile',
    'provider.authProfiles[2]: is not an object',
    'provider.maxRetries: is not a whole number from 0 on',
    'channels: is not an object',
  ])
  expect(error.message).not.toContain('canary-secret')
  expect([existsSync(state), server.seen.length]).toEqual([false, 0])
})

test('unknown keys have no effect, and are named in one warning', async () => {
  const { run, config } = await agent(says('ok'))
  const warnings = await warned(async () => {
    const given = { ...config, agent: { idendity: 'x' }, extra: 1 }
    await run('hi', { config: given as never })
    await new Promise(setImmediate)
  })
  expect(warnings).toEqual([
    'the config has unknown keys, which have no effect: `agent.idendity`, `extra`',
  ])
})

test('a variable that is not set is a problem at its path', () => {
  const { path } = folder()
  writeFileSync(
    join(path, 'c.json'),
    `{ provider: { authProfiles: [{ id: 'a', apiKey: '\${RUN_AGENT_NO_SUCH_KEY}' }] } }`,
  )
  expect(refused(join(path, 'c.json'))).toContainEqual({
    path: 'provider.authProfiles[0].apiKey',
    message: 'the environment variable `RUN_AGENT_NO_SUCH_KEY` is not set',
  })
})

test('without a model the keys of the environment choose one that the catalogue has', () => {
  const { path } = folder()
  const engine = new AgentEngine()
  for (const { provider, variables, model } of DEFAULT_MODELS) {
    for (const variable of variables) {
      const { provider: name, model: id } = readSettings({}, path, { [variable]: 'canary-key' })
      expect([name, id]).toEqual([provider, model])
    }
    expect(engine.models({ provider }).find(({ id }) => id === model)).toMatchObject({
      retires: null,
      source: expect.not.stringMatching(/assumed/),
    })
  }
  expect(refused({})).toEqual([
    { path: 'provider.name', message: expect.stringContaining('ANTHROPIC_API_KEY') },
  ])
  return engine.close()
})

test("a model may name its provider, and the agent's model and provider are stronger", () => {
  const { path } = folder()
  const model = (config: object) => {
    const { provider, model } = readSettings(config, path, {})
    return `${provider} ${model}`
  }
  expect(model({ provider: { model: 'groq/llama/70b' } })).toBe('groq llama/70b')
  expect(model({ provider: { name: 'openrouter', model: 'openai/gpt-5' } })).toBe(
    'openrouter openai/gpt-5',
  )
  expect(model({ provider: { name: 'anthropic' }, agent: { model: 'openai/gpt-5' } })).toBe(
    'openai gpt-5',
  )
  expect(
    model({
      provider: { name: 'openai', model: 'gpt-5' },
      agent: { provider: 'anthropic', model: 'claude-haiku-4-5' },
    }),
  ).toBe('anthropic claude-haiku-4-5')
})

test('keys and address of one provider are not sent to another one', () => {
  const { path } = folder()
  const provider = {
    name: 'openai',
    model: 'gpt-5',
    baseUrl: 'https://proxy.test',
    authProfiles: [{ id: 'a', apiKey: 'canary-key' }],
  }
  const agent = { provider: 'anthropic', model: 'claude-haiku-4-5' }
  const settings = readSettings({ provider, agent }, path, {})
  expect([settings.profiles, settings.providerOptions]).toEqual([[], {}])
})

test('the environment names the state directory, the home directory and the config file', () => {
  const { path } = folder()
  const config = { provider: { name: 'anthropic', model: 'claude-haiku-4-5' } }
  const paths = (env: Record<string, string>) => {
    const { state, config: file } = readSettings(config, undefined, env).paths
    return [state, file].map((each) => each.replace(path, ''))
  }
  expect(paths({ MYCLAW_HOME: path })).toEqual(['/.myclaw', '/.myclaw/myclaw.json'])
  expect(paths({ MYCLAW_STATE_DIR: join(path, 'st') })).toEqual(['/st', '/st/myclaw.json'])
  expect(paths({ MYCLAW_HOME: path, MYCLAW_CONFIG_PATH: '~/c.json' })).toEqual([
    '/.myclaw',
    '/c.json',
  ])
})

test('`maxRetries` is how many further profiles a call may have', async () => {
  const failing = status(401, { error: { type: 'authentication_error', message: 'no' } })
  const { run, config, server } = await agent(failing)
  const authProfiles = ['a', 'b', 'c', 'd'].map((id) => ({ id, apiKey: `canary-key-${id}` }))
  const provider = { ...config.provider, authProfiles, maxRetries: 1 }
  const { error } = await run('hi', { config: { ...config, provider } })
  expect(error?.kind).toBe('auth_failure')
  expect(server.seen.map(({ headers }) => headers['x-api-key'])).toEqual([
    'canary-key-a',
    'canary-key-b',
  ])
})
