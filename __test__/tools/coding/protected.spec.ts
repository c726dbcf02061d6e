// What of ours can lie in a workspace, and that no tool changes it: the ledger with SQLite's files, the config of the command line, the journal of
// patches, and the repository's `.git`, which the host runs. It must never take a refusal for the proof: the files are compared after each call.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine, type CodingTool, createCodingTools } from '../../../index.js'
import { closeAgents, runAgent } from '../../../run-agent.js'
import { afterwards, closing, folder, serving } from '../../support/cleanup.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { sse } from '../../support/servers/server.js'

const ATTEMPTS = ['write', 'edit', 'update', 'add', 'delete', 'move away', 'move to'] as const

/** Calls of the file tools that would change `path`, whose content is `text`. */
function calls(path: string, text: string): [name: string, tool: string, params: object][] {
  const patch = (...lines: string[]) => ({
    patch: ['*** Begin Patch', ...lines, '*** End Patch'].join('\n'),
  })
  const line = text.trimEnd().split('\n')[0]
  const update = ['@@', `-${line}`, '+changed']
  const params = {
    write: ['write', { path, content: 'changed' }],
    edit: ['edit', { path, oldText: line, newText: 'changed' }],
    update: ['apply_patch', patch(`*** Update File: ${path}`, ...update)],
    add: ['apply_patch', patch(`*** Add File: ${path}`, '+changed')],
    delete: ['apply_patch', patch(`*** Delete File: ${path}`)],
    'move away': [
      'apply_patch',
      patch(`*** Update File: ${path}`, '*** Move to: moved', ...update),
    ],
    'move to': [
      'apply_patch',
      patch('*** Update File: plain.txt', `*** Move to: ${path}`, '@@', '-plain', '+changed'),
    ],
  } as const
  return ATTEMPTS.map((name) => [name, ...params[name]])
}

/** Every file beneath a directory with its content. */
function files(path: string): Record<string, string> {
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' })
  const found = names.filter((name) => statSync(join(path, name)).isFile()).sort()
  return Object.fromEntries(found.map((name) => [name, readFileSync(join(path, name), 'latin1')]))
}

async function outcome(tools: CodingTool[], tool: string, params: object): Promise<string> {
  const found = tools.find(({ name }) => name === tool)
  if (found === undefined) throw new Error(`there is no ${tool}`)
  return found.execute('1', params).then(
    () => 'done',
    (error: Error) => error.message,
  )
}

/** A workspace with a file that may be changed, and these. */
function workspace(given: Record<string, string> = {}): string {
  const path = realpathSync(folder().path)
  for (const [name, text] of Object.entries({ 'plain.txt': 'plain\n', ...given })) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), text)
  }
  return path
}

async function expectUnchanged(
  cwd: string,
  tools: CodingTool[],
  paths: string[],
  refusal: RegExp,
): Promise<void> {
  const before = files(cwd)
  for (const path of paths) {
    const content = existsSync(join(cwd, path)) ? readFileSync(join(cwd, path), 'latin1') : ''
    const text = content === '' ? 'none' : content
    for (const [name, tool, params] of calls(path, text)) {
      const found = await outcome(tools, tool, params)
      // What is not there is not found, which is no reason to make it.
      if (text !== 'none' || !found.startsWith('File not found'))
        expect(found, `${name} ${path}`).toMatch(refusal)
      expect(files(cwd), `${name} ${path}`).toEqual(before)
    }
  }
  // The same calls change what may be changed, so that none was refused for its form.
  for (const [name, tool, params] of calls('plain.txt', 'plain\n')) {
    if (name === 'add' || name === 'move to') continue
    writeFileSync(join(cwd, 'plain.txt'), 'plain\n')
    expect(await outcome(tools, tool, params), name).toBe('done')
  }
}

test('a repository of the workspace: nothing in its `.git` is changed by a file tool, whatever is there', async () => {
  const cwd = workspace({ '.git/hooks/pre-commit': 'exit 0\n', 'module/.git': 'gitdir: ../x\n' })
  symlinkSync('.git', join(cwd, 'alias'))
  await expectUnchanged(
    cwd,
    createCodingTools(cwd),
    [
      '.git/hooks/pre-commit',
      '.GIT/hooks/post-commit',
      '.git/config',
      'module/.git',
      'alias/config',
    ],
    /is in a `\.git`, which the file tools do not write|symbolic link/,
  )
})

test('the journal of patches: no file tool writes the plan by which files are restored', async () => {
  const cwd = workspace({ 'deep/.nexus-patch/old-0': 'old\n' })
  symlinkSync('deep/.nexus-patch', join(cwd, 'alias'))
  const plan = [
    '.nexus-patch/plan.json',
    '.nexus-patch',
    '.NEXUS-PATCH/old-0',
    'deep/.nexus-patch/old-0',
    'alias/plan.json',
  ]
  await expectUnchanged(
    cwd,
    createCodingTools(cwd),
    plan,
    /is in a `\.nexus-patch`, which the file tools do not write/,
  )
})

test('a ledger whose path is a link into the workspace: neither it nor what SQLite has beside it', async () => {
  const [cwd, elsewhere] = [workspace({ 'data/real.db': '' }), realpathSync(folder().path)]
  const link = join(elsewhere, 'agent.db')
  const path = join(cwd, 'data/real.db')
  // A ledger is made under its own name, and opened by the link.
  await new AgentEngine({ ledger: { path: join(cwd, 'data/new.db') } }).close()
  writeFileSync(path, readFileSync(join(cwd, 'data/new.db')))
  symlinkSync(path, link)
  const tools = createCodingTools(cwd)
  const engine = closing(new AgentEngine({ ledger: { path: link } }))
  await engine.ledger.sessions()
  const log = join(cwd, 'data/real.db-wal')
  expect(existsSync(log)).toBe(true)
  await expectUnchanged(
    cwd,
    tools,
    ['data/real.db', 'data/real.db-wal', 'data/real.db-shm', 'data/real.db-journal'],
    /is protected: the host's own data is in it/,
  )
  expect(await outcome(tools, 'bash', { command: 'echo changed > data/real.db' })).toMatch(
    /^a ledger of this process: `.*agent\.db` is in the workspace, where `bash` could change it/,
  )
  expect((await engine.ledger.verify()).ok).toBe(true)
})

test('a file of the host that is a link into the workspace is protected, and `bash` is refused', async () => {
  const [cwd, elsewhere] = [workspace({ 'host.json': '{}\n' }), folder().path]
  const link = join(elsewhere, 'host.json')
  symlinkSync(join(cwd, 'host.json'), link)
  expect(() => createCodingTools(cwd, { protect: [link] })).toThrow(
    expect.objectContaining({
      code: 'invalid_options',
      field: 'protect[0]',
      message: expect.stringContaining('is in the workspace, where `bash` could change it'),
    }),
  )
  const tools = createCodingTools(cwd, { protect: [link], tools: ['write', 'edit', 'apply_patch'] })
  await expectUnchanged(cwd, tools, ['host.json'], /is protected/)
})

test('the config of the command line in its own workspace: no file tool of its agent changes it, and `bash` is refused', async () => {
  const attempts = calls('myclaw.json', '{\n').map(
    ([, tool, params], at): [string, string, object] => [`toolu_${at}`, tool, params],
  )
  const server = await serving(sse(anthropic.calls(...attempts)), sse(anthropic.answer('I see.')))
  afterwards(closeAgents)
  const state = workspace()
  const path = join(state, 'myclaw.json')
  const ledger = join(folder().path, 'agent.db')
  const config = (tools: string[]) =>
    JSON.stringify(
      {
        agent: { workspaceDir: state, ledger, tools },
        provider: {
          name: 'anthropic',
          model: 'claude-haiku-4-5',
          baseUrl: server.url,
          authProfiles: [{ id: 'primary', apiKey: 'canary-key-1' }],
        },
      },
      null,
      2,
    )
  const given = config(['write', 'edit', 'apply_patch'])
  writeFileSync(path, given)
  const run = () =>
    runAgent({ sessionKey: 'agent:main:main', userMessage: 'hi', config: path, stateDir: state })
  expect((await run()).reply).toBe('I see.')
  const results = server.seen[1]?.body.messages.at(-1).content
  expect(results).toHaveLength(attempts.length)
  for (const result of results) expect(JSON.stringify(result)).toContain('is protected')
  expect(readFileSync(path, 'utf8')).toBe(given)
  await closeAgents()
  writeFileSync(path, config(['write', 'bash']))
  await expect(run()).rejects.toThrow(/myclaw\.json` is in the workspace/)
})
