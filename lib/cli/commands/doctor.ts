// `doctor`: what an agent needs, what is there, and what to do about the rest. It must never print a key, send a request or leave a file.

import { accessSync, constants, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { AgentEngine } from '../../../index.js'
import { isOnServer, ledgerOptions, shownLedger } from '../../run-agent/config/ledger.ts'
import type { Settings } from '../../run-agent/config/settings.ts'
import { type Context, ledgerPath, type Run, settingsOf } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { bytes, count, counted } from '../output/format.ts'

/** `missing`: nothing runs without it. `note`: something works less well. */
type State = 'ok' | 'note' | 'missing'
interface Check {
  name: string
  state: State
  /** What was found. */
  found: string
  /** What to do about it. */
  advice?: string
}

/** The oldest Node.js. */
const NODE = [20, 3] as const
/** Services that need nothing but a key, in the order of docs/services.md. */
const SERVICES = [
  'anthropic',
  'openai',
  'google',
  'openrouter',
  'groq',
  'mistral',
  'deepseek',
  'xai',
  'together',
  'fireworks',
  'cerebras',
  'moonshot',
  'zai',
  'perplexity',
  'huggingface',
] as const

const doctor: Run = async (context) => {
  const { out, json } = context
  const checks = await checked(context)
  const missing = checks.filter(({ state }) => state === 'missing')
  if (json) for (const check of checks) out.json(check)
  else {
    const marks = {
      ok: out.style('green', 'ok     '),
      note: out.style('yellow', 'note   '),
      missing: out.style('red', 'missing'),
    }
    for (const { name, state, found, advice } of checks) {
      out.line(`${marks[state]}  ${out.style('bold', name.padEnd(9))}  ${out.safe(found)}`)
      if (advice !== undefined) out.line(`${' '.repeat(20)}${out.safe(advice)}`)
    }
    out.line()
    out.line(
      missing.length === 0
        ? out.style('green', 'An agent can run.')
        : out.style('red', `An agent cannot run: ${missing.map(({ name }) => name).join(', ')}.`),
    )
  }
  return missing.length === 0 ? EXIT.ok : EXIT.problems
}

async function checked(context: Context): Promise<Check[]> {
  const settings = attempted(() => settingsOf(context))
  const engine = new AgentEngine({
    providers: Object.fromEntries(SERVICES.map((name) => [name, {}])),
  })
  try {
    return [
      node(),
      config(settings),
      await keys(engine, settings.value),
      await model(settings.value),
      sandbox(engine, settings.value),
      workspace(settings.value),
      await ledger(context),
      terminal(context),
    ]
  } finally {
    await engine.close()
  }
}

function node(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const isOld = major < NODE[0] || (major === NODE[0] && minor < NODE[1])
  return {
    name: 'Node.js',
    state: isOld ? 'missing' : 'ok',
    found: `${process.version} on ${process.platform} ${process.arch}`,
    ...(isOld && { advice: `install Node.js ${NODE.join('.')} or newer` }),
  }
}

function config({ value, error }: Attempt<Settings>): Check {
  if (value === undefined) {
    return { name: 'config', state: 'missing', found: error, advice: 'correct it, then try again' }
  }
  const { config } = value.paths
  return existsSync(config)
    ? { name: 'config', state: 'ok', found: config }
    : { name: 'config', state: 'ok', found: `none at ${config}: defaults` }
}

/** Which services have a key in the environment, and whether the one that is used has one. */
async function keys(engine: AgentEngine, settings: Settings | undefined): Promise<Check> {
  const inEnvironment = (await engine.profiles()).map(({ provider }) => provider)
  const own = settings?.profiles.map(({ id }) => id) ?? []
  const found = [
    own.length > 0 ? `config: ${own.join(', ')}` : undefined,
    inEnvironment.length > 0 ? `environment: ${inEnvironment.join(', ')}` : undefined,
  ].filter((part) => part !== undefined)
  const text = found.length === 0 ? 'none' : found.join('; ')
  if (settings === undefined) {
    return found.length > 0
      ? { name: 'keys', state: 'ok', found: text }
      : {
          name: 'keys',
          state: 'missing',
          found: text,
          advice:
            'set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or use a local server (--provider ollama)',
        }
  }
  const { provider } = settings
  const needsKey = (SERVICES as readonly string[]).includes(provider)
  const hasKey = own.length > 0 || inEnvironment.includes(provider)
  if (!needsKey || hasKey) return { name: 'keys', state: 'ok', found: text }
  return {
    name: 'keys',
    state: settings.providerOptions.baseUrl === undefined ? 'missing' : 'note',
    found: text,
    advice: `no key for \`${provider}\`: set its variable (docs/services.md), or \`provider.authProfiles\` in the config`,
  }
}

async function model(settings: Settings | undefined): Promise<Check> {
  if (settings === undefined) {
    return {
      name: 'model',
      state: 'missing',
      found: 'none',
      advice: 'name one: --provider anthropic --model claude-sonnet-5-5, or in the config',
    }
  }
  const { provider, model, providerOptions, contextWindow } = settings
  const name = `${provider} ${model}`
  const opened = attempted(() => new AgentEngine({ providers: { [provider]: providerOptions } }))
  if (opened.value === undefined) {
    return { name: 'model', state: 'missing', found: `${name}: ${opened.error}` }
  }
  const engine = opened.value
  try {
    const { window } = await engine.countTokens('', { provider, model })
    const retires = engine.models({ provider }).find(({ id }) => id === model)?.retires
    return {
      name: 'model',
      state: retires ? 'note' : 'ok',
      found: `${name}, a window of ${count(window)} tokens`,
      ...(retires && { advice: `the provider stops serving it on ${retires}: choose another one` }),
    }
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string }
    if (code !== 'unknown_model') return { name: 'model', state: 'missing', found: message }
    const found = `${name}, which the catalogue does not have`
    if (contextWindow === undefined) {
      const advice = 'set `agent.contextWindow` to its window; prices are unknown'
      return { name: 'model', state: 'note', found, advice }
    }
    const window = `a window of ${count(contextWindow)} tokens, prices are unknown`
    return { name: 'model', state: 'ok', found: `${found}: ${window}` }
  } finally {
    await engine.close()
  }
}

function sandbox(engine: AgentEngine, settings: Settings | undefined): Check {
  const { codingTools, sandbox } = engine.capabilities()
  if (!codingTools) {
    return {
      name: 'sandbox',
      state: 'missing',
      found: 'the coding tools do not work here',
      advice: 'they need Linux 5.6 or newer; set `agent.tools` to []',
    }
  }
  const limits = [
    sandbox.files ? 'files' : '',
    sandbox.tcp ? 'TCP' : '',
    sandbox.signals ? 'signals' : '',
  ]
  const found = limits.filter((each) => each !== '').join(', ')
  if (found !== '') {
    return {
      name: 'sandbox',
      state: 'ok',
      found: `Landlock ${sandbox.landlock}: restricts ${found}`,
    }
  }
  const isRequired = settings?.bash.sandbox === 'required'
  return {
    name: 'sandbox',
    state: isRequired ? 'missing' : 'note',
    found: 'none: commands of `bash` can read and write what you can',
    advice: 'use a kernel with Landlock (Linux 5.13), or leave `bash` out of `agent.tools`',
  }
}

function workspace(settings: Settings | undefined): Check {
  if (settings === undefined)
    return { name: 'workspace', state: 'note', found: 'unknown without a config' }
  const { workspace } = settings
  const nearest = existing(workspace)
  try {
    if (!statSync(nearest).isDirectory()) throw new Error(`\`${nearest}\` is no directory`)
    accessSync(nearest, constants.W_OK)
  } catch (error) {
    return {
      name: 'workspace',
      state: 'missing',
      found: `${workspace}: ${(error as Error).message}`,
      advice: 'set `agent.workspaceDir` to a directory that you may write',
    }
  }
  const found = nearest === workspace ? workspace : `${workspace}, created by the first run`
  return { name: 'workspace', state: 'ok', found }
}

/** The path, or the nearest one above it that exists. */
function existing(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existing(dirname(path))
}

async function ledger(context: Context): Promise<Check> {
  const path = attempted(() => ledgerPath(context))
  if (path.value === undefined) return { name: 'ledger', state: 'missing', found: path.error }
  const file = path.value
  return isOnServer(file) || existsSync(file) ? existingLedger(file) : newLedger(file)
}

async function existingLedger(file: string): Promise<Check> {
  const advice = 'name another with --ledger'
  const opened = attempted(() => new AgentEngine({ ledger: ledgerOptions(file) }))
  if (opened.value === undefined) {
    return { name: 'ledger', state: 'missing', found: opened.error, advice }
  }
  const engine = opened.value
  try {
    const { turns, sessions, fileBytes, schemaVersion } = await engine.ledger.stats()
    const interrupted = (await engine.recover()).length
    const content = `${counted(sessions, 'session')}, ${counted(turns.completed, 'completed turn')}`
    const version = `schema ${schemaVersion}, ${await (isOnServer(file) ? postgres(engine) : sqlite(engine))}`
    return {
      name: 'ledger',
      state: interrupted === 0 ? 'ok' : 'note',
      found: `${shownLedger(file)}: ${content}, ${bytes(fileBytes)}, ${version}`,
      ...(interrupted > 0 && {
        advice: `${counted(interrupted, 'turn')} interrupted: nexus-agent recover`,
      }),
    }
  } catch (error) {
    return { name: 'ledger', state: 'missing', found: (error as Error).message, advice }
  } finally {
    await engine.close()
  }
}

async function postgres({ ledger }: AgentEngine): Promise<string> {
  const { rows } = await ledger.query("SELECT current_setting('server_version') AS version")
  return `PostgreSQL ${rows[0]?.version}`
}

/** Whether SQLite works here, tried in a temporary directory. */
async function newLedger(file: string): Promise<Check> {
  const folder = mkdtempSync(join(tmpdir(), 'nexus-agent-'))
  const opened = attempted(() => new AgentEngine({ ledger: { path: join(folder, 'agent.db') } }))
  try {
    if (opened.value === undefined) return { name: 'ledger', state: 'missing', found: opened.error }
    const found = `${file}, created by the first run, ${await sqlite(opened.value)}`
    return { name: 'ledger', state: 'ok', found }
  } finally {
    await opened.value?.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function sqlite({ ledger }: AgentEngine): Promise<string> {
  const { rows } = await ledger.query('SELECT sqlite_version() AS version')
  return `SQLite ${rows[0]?.version}`
}

function terminal({ out, stdin }: Context): Check {
  const isTerminal = out.isTerminal && stdin.isTTY === true
  const found = isTerminal ? `yes, ${out.columns} columns` : 'no: no colours, no progress'
  return { name: 'terminal', state: 'ok', found }
}

/** What a call returns, or why it failed. */
interface Attempt<Value> {
  value: Value | undefined
  error: string
}
function attempted<Value>(call: () => Value): Attempt<Value> {
  try {
    return { value: call(), error: '' }
  } catch (error) {
    return { value: undefined, error: (error as Error).message }
  }
}

export { doctor }
