// Proves that the published packages work: the main package and the one for this platform are packed, installed into an empty
// project without a network, a compiler or any other package, and run. It must never build: the addon under test is the one in
// the project's root.
import { execFile, execFileSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, posix, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Conversation, shapeOf } from '../pi/agent/conversation.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const megabyte = 1024 * 1024

interface Packed {
  path: string
  files: { path: string; size: number }[]
}

/** npm itself, run by this Node.js: nothing of the developer's PATH is needed. */
function npmScript(): string {
  const requested = process.env.npm_execpath
  if (requested?.endsWith('npm-cli.js')) return requested
  const finder = process.platform === 'win32' ? 'where' : 'which'
  const npm = execFileSync(finder, ['npm'], { encoding: 'utf8' }).split(/\r?\n/)[0] ?? ''
  const beside = join(dirname(npm), 'node_modules', 'npm', 'bin', 'npm-cli.js')
  return existsSync(beside) ? beside : realpathSync(npm)
}

/** The binary for this machine, and the folder under `npm/` that publishes it. */
function platform(): { binary: string; folder: string } {
  const prefix = `agent-engine.${process.platform}-${process.arch}`
  const binary = readdirSync(root).find((name) => name.startsWith(prefix) && name.endsWith('.node'))
  if (!binary) throw new Error('there is no addon: run `npm run build`')
  return { binary, folder: binary.slice('agent-engine.'.length, -'.node'.length) }
}

/** The manifests of `npm/<platform>`. */
function platformManifests(): { name: string; version: string }[] {
  const folders = readdirSync(join(root, 'npm'))
  return folders.map((folder) =>
    JSON.parse(readFileSync(join(root, 'npm', folder, 'package.json'), 'utf8')),
  )
}

let temporary: string
let project: string
let environment: NodeJS.ProcessEnv
let main: Packed
let native: Packed

const npm = (cwd: string, ...args: string[]): string =>
  execFileSync(process.execPath, [npmScript(), ...args], {
    cwd,
    env: environment,
    encoding: 'utf8',
    maxBuffer: 16 * megabyte,
  })

function pack(folder: string): Packed {
  const [report] = JSON.parse(
    npm(folder, 'pack', '--json', '--ignore-scripts', '--pack-destination', temporary),
  )
  return { path: join(temporary, report.filename), files: report.files }
}

/** The main package as it is published: with every platform package as an optional dependency. */
function stageMain(): string {
  const staged = join(temporary, 'main')
  mkdirSync(staged)
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  for (const name of [...manifest.files, 'LICENSE', 'README.md']) {
    if (existsSync(join(root, name)))
      cpSync(join(root, name), join(staged, name), { recursive: true })
  }
  const platforms = platformManifests().map(({ name, version }) => [name, version])
  manifest.optionalDependencies = Object.fromEntries(platforms)
  writeFileSync(join(staged, 'package.json'), JSON.stringify(manifest, null, 2))
  // Files that may be in a working tree and must not be published.
  for (const name of ['.env', 'ledger.db', 'src/lib.rs', '__test__/a.spec.ts']) {
    mkdirSync(dirname(join(staged, name)), { recursive: true })
    writeFileSync(join(staged, name), 'private')
  }
  return staged
}

const run = (file: string): string =>
  execFileSync(process.execPath, [file], { cwd: project, env: environment, encoding: 'utf8' })

beforeAll(() => {
  temporary = mkdtempSync(join(tmpdir(), 'agent-engine-package-'))
  project = join(temporary, 'project')
  mkdirSync(project)

  // A PATH with only Node.js: no cargo, no compiler. No npm settings of the developer.
  const bin = join(temporary, 'bin')
  mkdirSync(bin)
  if (process.platform === 'win32') copyFileSync(process.execPath, join(bin, 'node.exe'))
  else symlinkSync(process.execPath, join(bin, 'node'))
  environment = {
    PATH: [bin, ...(process.platform === 'win32' ? ['C:\\Windows\\System32'] : [])].join(delimiter),
    HOME: temporary,
    USERPROFILE: temporary,
    TMPDIR: tmpdir(),
    SystemRoot: process.env.SystemRoot,
    npm_config_offline: 'true',
    npm_config_update_notifier: 'false',
    npm_config_cache: join(temporary, 'cache'),
  }

  main = pack(stageMain())
  const { binary, folder } = platform()
  const staged = join(temporary, folder)
  cpSync(join(root, 'npm', folder), staged, { recursive: true })
  copyFileSync(join(root, binary), join(staged, binary))
  native = pack(staged)

  writeFileSync(join(project, 'package.json'), '{ "name": "empty", "private": true }\n')
  npm(project, 'install', '--no-audit', '--no-fund', main.path, native.path)
})

afterAll(() => {
  rmSync(temporary, { recursive: true, force: true })
})

test('the crate, the package and each platform package have one version', () => {
  const crate = /^version = "(.*)"$/m.exec(readFileSync(join(root, 'Cargo.toml'), 'utf8'))?.[1]
  const { version, napi } = createRequire(import.meta.url)('../../package.json')
  const platforms = platformManifests()
  expect(platforms).toHaveLength(napi.targets.length)
  expect(new Set([version, ...platforms.map((each) => each.version)])).toEqual(new Set([crate]))
})

test('the main package has its files of code with their types, and nothing else', () => {
  const { files } = createRequire(import.meta.url)('../../package.json')
  const expected = files.flatMap((entry: string) => {
    const path = join(root, entry)
    if (!entry.endsWith('/')) return [entry]
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => relative(root, join(file.parentPath, file.name)))
  })
  const always = [
    'LICENSE',
    'package.json',
    ...(existsSync(join(root, 'README.md')) ? ['README.md'] : []),
  ]
  expect(main.files.map((file) => file.path).sort()).toEqual([...expected, ...always].sort())
})

test('each link of a packed guide leads to a packed file', () => {
  const packed = new Set(main.files.map(({ path }) => path))
  const pages = [...packed].filter((path) => path.startsWith('docs/') && path.endsWith('.md'))
  const broken = pages.flatMap((page) => {
    const links = readFileSync(join(root, page), 'utf8').matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g)
    return [...links].flatMap(([, link = '']) => {
      const path = posix.join(dirname(page), link)
      return packed.has(path) ? [] : [`${page}: ${link}`]
    })
  })
  expect(broken).toEqual([])
})

test('the platform package has the binary, and nothing else', () => {
  const { binary } = platform()
  expect(native.files.map((file) => file.path).sort()).toEqual(
    ['README.md', binary, 'package.json'].sort(),
  )
})

test('the binary is at most 20 MB', () => {
  const { binary } = platform()
  expect(statSync(join(root, binary)).size).toBeLessThanOrEqual(20 * megabyte)
})

test('no text in the packages is a key, a path of the build machine or a private package source', () => {
  const folder = join(project, 'node_modules', '@nexus')
  const texts = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile() && !path.endsWith('.node'))
  expect(texts.length).toBeGreaterThan(4)
  for (const path of texts) {
    const text = readFileSync(path, 'utf8')
    expect(text, path).not.toMatch(
      /sk-[a-z]{2,4}-[A-Za-z0-9]{8}|_authToken|BEGIN [A-Z ]*PRIVATE KEY/,
    )
    expect(text, path).not.toContain(root)
    expect(text, path).not.toMatch(/sourceMappingURL/)
  }
})

test('nothing runs when the packages are installed, and nothing else is installed with them', () => {
  const { binary, folder } = platform()
  expect(
    readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.')),
  ).toEqual(['@nexus'])
  const installed = join(project, 'node_modules', '@nexus')
  expect(readdirSync(installed).sort()).toEqual(['agent-engine', `agent-engine-${folder}`])
  for (const name of readdirSync(installed)) {
    const manifest = JSON.parse(readFileSync(join(installed, name, 'package.json'), 'utf8'))
    const lifecycle = ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish']
    expect(Object.keys(manifest.scripts ?? {}).filter((key) => lifecycle.includes(key))).toEqual([])
    expect(manifest.dependencies).toBeUndefined()
  }
  expect(readdirSync(join(installed, 'agent-engine'))).not.toContain(binary)
})

test('the installed package runs from require', () => {
  writeFileSync(
    join(project, 'main.cjs'),
    `const { AgentEngine, scriptedProvider } = require('@nexus/agent-engine')
     const engine = new AgentEngine({})
     engine.close().then(() => console.log(typeof scriptedProvider))`,
  )
  expect(run('main.cjs')).toBe('function\n')
})

test('the installed package runs from a named ESM import', () => {
  writeFileSync(
    join(project, 'main.mjs'),
    `import { AgentEngine, scriptedProvider } from '@nexus/agent-engine'
     const engine = new AgentEngine({})
     await engine.close()
     console.log(typeof scriptedProvider)`,
  )
  expect(run('main.mjs')).toBe('function\n')
})

/** Sends a run of one event, and prints the bytes and what was loaded. */
const WEB = `
  async function* source() { yield { type: 'token', text: 'a', messageId: 'm', seq: 7 } }
  const text = await toResponse(source()).text()
  console.log(JSON.stringify([text, new WebRequestError([]).name]))`
const WEB_PRINTS = JSON.stringify([
  ':\n\nid: 7\nevent: token\ndata: {"type":"token","text":"a","messageId":"m","seq":7}\n\n',
  'WebRequestError',
])

test('the subpath `/web` runs from require, and loads one file', () => {
  writeFileSync(
    join(project, 'web.cjs'),
    `const { toResponse, WebRequestError } = require('@nexus/agent-engine/web')
     const loaded = Object.keys(require.cache).map((path) => path.split(/[\\\\/]/).at(-1))
     console.log(loaded.join(' '))
     ;(async () => {${WEB}})()`,
  )
  expect(run('web.cjs')).toBe(`web.cjs web.js\n${WEB_PRINTS}\n`)
})

test('the subpath `/web` runs from a named ESM import', () => {
  writeFileSync(
    join(project, 'web.mjs'),
    `import { toResponse, WebRequestError } from '@nexus/agent-engine/web'\n${WEB}`,
  )
  expect(run('web.mjs')).toBe(`${WEB_PRINTS}\n`)
})

test('the subpath `/ai-sdk` runs from require and from a named ESM import, without `ai`, and loads one file', () => {
  const use = `
    const loaded = typeof require === 'function' ? Object.keys(require.cache).length : 0
    console.log(loaded, JSON.stringify(fromUIMessages([{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }])))`
  const prints = '[{"role":"user","content":[{"type":"text","text":"hi"}]}]\n'
  writeFileSync(
    join(project, 'ai-sdk.cjs'),
    `const { fromUIMessages } = require('@nexus/agent-engine/ai-sdk')${use}`,
  )
  writeFileSync(
    join(project, 'ai-sdk.mjs'),
    `import { fromUIMessages } from '@nexus/agent-engine/ai-sdk'${use}`,
  )
  expect(run('ai-sdk.cjs')).toBe(`2 ${prints}`)
  expect(run('ai-sdk.mjs')).toBe(`0 ${prints}`)
})

test('the subpath `/pi-ai` runs from require and from a named ESM import, without pi', () => {
  const use = `
    const model = getModel('anthropic', 'claude-haiku-4-5')
    const args = validateToolArguments(
      { name: 't', description: '', parameters: { type: 'object', properties: { n: { type: 'number' } } } },
      { type: 'toolCall', id: 'c', name: 't', arguments: { n: '5' } },
    )
    ;(async () => {
      const { stopReason } = await streamSimple(model, { messages: [] }, { apiKey: 'x' }).result()
      console.log(model.api, args.n, stopReason)
    })()`
  const names = '{ getModel, streamSimple, validateToolArguments }'
  writeFileSync(
    join(project, 'pi-ai.cjs'),
    `const ${names} = require('@nexus/agent-engine/pi-ai')${use}`,
  )
  writeFileSync(
    join(project, 'pi-ai.mjs'),
    `import ${names} from '@nexus/agent-engine/pi-ai'${use}`,
  )
  expect(run('pi-ai.cjs')).toBe('anthropic-messages 5 error\n')
  expect(run('pi-ai.mjs')).toBe('anthropic-messages 5 error\n')
})

test('the subpaths `/pi-agent` and `/pi-session` run from require and from a named ESM import', () => {
  const use = `
    const session = SessionManager.inMemory('/work')
    const agent = new Agent({ streamFn: () => { throw new Error('no model') } })
    agent.prompt('hi').then(() => {
      for (const message of agent.state.messages) session.appendMessage(message)
      console.log(agent.state.error, session.buildSessionContext().messages.length)
    })`
  for (const [file, line] of [
    ['pi.cjs', (name: string, path: string) => `const { ${name} } = require('${path}')`],
    ['pi.mjs', (name: string, path: string) => `import { ${name} } from '${path}'`],
  ] as const) {
    const lines = [
      line('Agent', '@nexus/agent-engine/pi-agent'),
      line('SessionManager', '@nexus/agent-engine/pi-session'),
    ]
    writeFileSync(join(project, file), `${lines.join('\n')}${use}`)
    expect(run(file)).toBe('no model 2\n')
  }
})

/** A run of a scripted model, to its end. */
const TESTING = `
  const engine = new AgentEngine({ providers: { test: scriptedProvider([['One ', 'two.']]) } })
  const { text, events } = await collect(engine.run({
    systemPrompt: '', currentMessage: { role: 'user', content: 'hi' }, tools: [], provider: 'test', model: 'scripted', timeoutMs: 60000,
    runId: 'r', sessionLabel: 's', role: 'unified', toolsetName: 't', permissionsGranted: [], workspacePath: '/tmp',
  }))
  await engine.close()
  console.log(text, scrub(events).at(-1).messageId)`

test('the subpath `/testing` runs from require and from a named ESM import, with the one engine', () => {
  writeFileSync(
    join(project, 'testing.cjs'),
    `const { AgentEngine } = require('@nexus/agent-engine')
     const { collect, scriptedProvider, scrub } = require('@nexus/agent-engine/testing')
     ;(async () => {${TESTING}})()`,
  )
  writeFileSync(
    join(project, 'testing.mjs'),
    `import { AgentEngine } from '@nexus/agent-engine'
     import { collect, scriptedProvider, scrub } from '@nexus/agent-engine/testing'
     ${TESTING}`,
  )
  expect(run('testing.cjs')).toBe('One two. <message-1>\n')
  expect(run('testing.mjs')).toBe('One two. <message-1>\n')
})

/** A message to a model that no server has: the run fails after everything was created. */
const RUN_AGENT = `
  const stateDir = require('node:path').resolve('state-of-' + name)
  const provider = { name: 'anthropic', model: 'claude-haiku-4-5', baseUrl: 'http://127.0.0.1:1', maxRetries: 0 }
  const { stopReason, error } = await runAgent({ sessionKey: 'main', userMessage: 'hi', config: { provider }, stateDir })
  await closeAgents()
  console.log(stopReason, error.kind, require('node:fs').readdirSync(stateDir).filter((name) => !name.startsWith('agent.db')).join(' '))`

test('the subpath `/run-agent` runs from require and from a named ESM import, with the one engine', () => {
  writeFileSync(
    join(project, 'run-agent.cjs'),
    `const { closeAgents, runAgent } = require('@nexus/agent-engine/run-agent')
     const name = 'cjs'
     ;(async () => {${RUN_AGENT}})()`,
  )
  writeFileSync(
    join(project, 'run-agent.mjs'),
    `import { createRequire } from 'node:module'
     import { closeAgents, runAgent } from '@nexus/agent-engine/run-agent'
     const require = createRequire(import.meta.url)
     const name = 'mjs'
     ${RUN_AGENT}`,
  )
  const prints = 'error model_error logs sessions workspace\n'
  expect([run('run-agent.cjs'), run('run-agent.mjs')]).toEqual([prints, prints])
})

/** Each Node.js that is tested, by its version. */
const nodes = execFileSync(process.execPath, [join(root, 'scripts', 'nodes.mjs')], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'ignore'],
})
  .trim()
  .split('\n')
  .map((line) => line.split(' ') as [version: string, path: string])

test.each(nodes)('every subpath runs from require and from import on Node.js %s', (_, node) => {
  const program = join(project, 'subpaths.mjs')
  copyFileSync(join(root, '__test__', 'children', 'node', 'subpaths.mjs'), program)
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const subpaths = Object.keys(manifest.exports).filter((path) => path !== './package.json')
  const options = { cwd: project, env: environment, encoding: 'utf8' } as const
  expect(JSON.parse(execFileSync(node, [program], options))).toEqual({
    same: Object.fromEntries(subpaths.map((path) => [path, true])),
    text: 'Hi.',
    entries: 2,
  })
})

/** What a loop with a tool that steers, and then an abort, come to. */
const conversed = (ran: unknown[], skipped: string[]) => ({
  ran,
  conversation: 'user assistant toolResult toolResult user assistant',
  skipped,
  stopReason: 'aborted',
  partial: 'One',
})

test.each(nodes)('the main path of every face runs on Node.js %s', (_, node) => {
  const program = join(project, 'faces.mjs')
  copyFileSync(join(root, '__test__', 'children', 'node', 'faces.mjs'), program)
  const options = { cwd: project, env: environment, encoding: 'utf8' } as const
  expect(JSON.parse(execFileSync(node, [program], options))).toEqual({
    piAi: {
      types: ['start', 'text_start', 'text_delta', 'text_end', 'done'],
      texts: ['One', 'Two', 'Three', 'Four'],
      topK: 3,
      n: 5,
      refused: 'Validation failed for tool "t":',
      custom: 'mine',
    },
    agent: {
      0.54: conversed(['a', 5], ['Skipped due to queued user message.']),
      0.73: conversed(['a', 5, 'b', 5], []),
    },
    sessions: {
      entries: 3,
      branch: ['one', 'three'],
      inLedger: ['one', 'three', 'four'],
      exported: 4,
    },
    embedded: {
      payloads: [{ text: 'First.' }],
      stopReason: 'stop',
      sent: 'user assistant user',
    },
    runAgent: {
      reply: 'Fine.',
      iterations: 2,
      types: expect.arrayContaining(['toolcall_start', 'toolcall_end', 'tool_end', 'text_delta']),
    },
    program: {
      types: ['stream_start', 'token', 'usage', 'stream_end', 'result'],
      text: 'Hello.',
      doctor: 'Node.js config keys model sandbox workspace ledger terminal',
    },
  })
})

test("pi's own coding agent runs on the installed agent as on its own core, in both versions on each Node.js", async () => {
  for (const name of ['coding-agent.mjs', 'alias.mjs']) {
    copyFileSync(join(root, '__test__', 'children', 'pi', name), join(project, name))
  }
  const converse = async (module: string, node: string, semantics = ''): Promise<Conversation> => {
    const entry = pathToFileURL(join(root, 'node_modules', module, 'dist', 'index.js')).href
    const alias = semantics === '' ? [] : ['--import', './alias.mjs']
    const folder = mkdtempSync(join(temporary, 'conversation-'))
    const env = { ...environment, PI_SEMANTICS: semantics }
    const options = { cwd: project, env, maxBuffer: 16 * megabyte }
    const args = [...alias, 'coding-agent.mjs', entry, folder]
    const { stdout, stderr } = await promisify(execFile)(node, args, options)
    expect(stderr).toBe('')
    return shapeOf(stdout)
  }
  const versions = [
    ['0.54', '@mariozechner/pi-coding-agent'],
    ['0.73', 'pi-coding-agent-073'],
  ] as const
  for (const [semantics, module] of versions) {
    const [theirs, ...ours] = await Promise.all([
      converse(module, process.execPath),
      ...nodes.map(([, node]) => converse(module, node, semantics)),
    ])
    expect(ours).toEqual(nodes.map(() => theirs))
    expect(theirs?.file.length).toBeGreaterThan(90)
  }
})

test('the program runs by its name, and as the only program of the package', () => {
  const { version } = createRequire(import.meta.url)('../../package.json')
  const bin = join(project, 'node_modules', '.bin', 'nexus-agent')
  const options = { cwd: project, env: environment, encoding: 'utf8' } as const
  expect(execFileSync(bin, ['--version'], options)).toBe(`${version}\n`)
  // npm starts programs with the system's shell.
  const env = { ...environment, PATH: `${environment.PATH}${delimiter}/bin` }
  const exec = [npmScript(), 'exec', '--', '@nexus/agent-engine', '--version']
  expect(execFileSync(process.execPath, exec, { ...options, env })).toBe(`${version}\n`)
  const none = join(project, 'none.db')
  const failure = (() => {
    try {
      return execFileSync(bin, ['sessions', '--ledger', none], { ...options, stdio: 'pipe' })
    } catch (error) {
      return error as { status: number; stderr: string }
    }
  })()
  expect(failure).toMatchObject({ status: 3, stderr: expect.stringContaining(none) })
})

test('on a machine without its platform package the error names the missing one', () => {
  const { folder } = platform()
  const installed = join(project, 'node_modules', '@nexus', `agent-engine-${folder}`)
  const removed = join(temporary, 'aside')
  cpSync(installed, removed, { recursive: true })
  rmSync(installed, { recursive: true })
  try {
    writeFileSync(
      join(project, 'missing.cjs'),
      `try { require('@nexus/agent-engine') } catch (error) {
         const texts = []
         for (let e = error; e; e = e.cause) texts.push(e.message)
         console.log(texts.join('\\n'))
       }`,
    )
    expect(run('missing.cjs')).toContain(`@nexus/agent-engine-${folder}`)
  } finally {
    cpSync(removed, installed, { recursive: true })
  }
})
