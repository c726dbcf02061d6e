// The config of a run, read from an object or a file and completed with its defaults. It must never create a file, or use a config that
// has a problem.

import { readFileSync } from 'node:fs'
import type {
  BashOptions,
  CodingToolName,
  ProviderOptions,
  ThinkingConfig,
} from '../../../index.d.ts'
import type { RunAgentConfig, RunAgentProfile } from '../../../run-agent.d.ts'
import { Json5Error, parseJson5 } from './json5.ts'
import { namedLedger } from './ledger.ts'
import { type Environment, expanded, type StatePaths, statePaths } from './paths.ts'
import { ConfigProblems, refusal } from './problems.ts'
import { configRule } from './rules.ts'
import { resolved } from './variables.ts'

/** The model of each service whose key is in the environment, where the config names none. */
const DEFAULT_MODELS = [
  { provider: 'anthropic', variables: ['ANTHROPIC_API_KEY'], model: 'claude-sonnet-5-5' },
  { provider: 'openai', variables: ['OPENAI_API_KEY'], model: 'gpt-5.5' },
  {
    provider: 'google',
    variables: ['GEMINI_API_KEY', 'GOOGLE_API_KEY'],
    model: 'gemini-pro-latest',
  },
] as const
/** Services whose models have no `/` in their names: a model with one names another service. */
const WITHOUT_SLASH: readonly unknown[] = ['anthropic', 'openai', 'google']
const TOOLS: readonly CodingToolName[] = ['read', 'write', 'edit', 'bash', 'apply_patch']

/** A config with its defaults. */
interface Settings {
  paths: StatePaths
  workspace: string
  provider: string
  model: string
  /** The provider in the form of the engine's options. */
  providerOptions: ProviderOptions
  profiles: readonly RunAgentProfile[]
  maxRetries: number
  fallbacks: readonly string[]
  /** The window of a model that the catalogue does not have; where it is absent, one is assumed. */
  contextWindow: number | undefined
  identity: string | undefined
  tools: readonly CodingToolName[]
  bash: BashOptions
  readRoots: readonly string[]
  maxIterations: number
  maxToolResultChars: number
  timeoutMs: number | undefined
  maxResponseTokens: number | undefined
  temperature: number | undefined
  thinkingConfig: ThinkingConfig | undefined
}

/** What a caller says beside the config; it wins. */
interface Overrides {
  provider?: string | undefined
  model?: string | undefined
  baseUrl?: string | undefined
  ledger?: string | undefined
}

/** The settings of a config: an object, the path of a file, or none for the default file. */
function readSettings(
  given: RunAgentConfig | string | undefined,
  stateDir: string | undefined,
  env: Environment,
  overrides: Overrides = {},
): Settings {
  const paths = statePaths(stateDir, env)
  const config = readConfig(given, paths, env)
  return completed(config, paths, env, overrides)
}

/** The ledger of a config, for those who call no model. */
function readLedgerPath(
  given: string | undefined,
  env: Environment,
  ledger: string | undefined,
): string {
  const paths = statePaths(undefined, env)
  if (ledger !== undefined) return namedLedger(ledger, env)
  const { agent = {} } = readConfig(given, paths, env)
  return agent.ledger === undefined ? paths.ledger : namedLedger(agent.ledger, env)
}

function readConfig(
  given: RunAgentConfig | string | undefined,
  paths: StatePaths,
  env: Environment,
): RunAgentConfig {
  const problems = new ConfigProblems()
  const config =
    given === undefined || typeof given === 'string'
      ? resolved(readFile(given, paths, env), env, problems)
      : given
  configRule(config, 'config', problems)
  problems.check()
  warnOfKeys(problems.unknown)
  return config as RunAgentConfig
}

/** The value of a config file. A default file that does not exist is an empty config. */
function readFile(given: string | undefined, paths: StatePaths, env: Environment): unknown {
  const path = given === undefined ? paths.config : expanded(given, env)
  if (given !== undefined) paths.config = path
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (given === undefined && code === 'ENOENT') return {}
    throw refusal('invalid_options', [
      { path: 'config', message: `\`${path}\` cannot be read (${code}); pass another file` },
    ])
  }
  try {
    return parseJson5(text.replace(/^\ufeff/, ''))
  } catch (error) {
    if (!(error instanceof Json5Error)) throw error
    throw refusal('invalid_options', [
      { path: 'config', message: `\`${path}\` is no JSON5: ${error.message}` },
    ])
  }
}

function completed(
  config: RunAgentConfig,
  paths: StatePaths,
  env: Environment,
  overrides: Overrides,
): Settings {
  const { agent = {}, provider = {} } = config
  const { name, id } = modelOf(config, overrides, env)
  const baseUrl = overrides.baseUrl ?? provider.baseUrl
  const ledger = overrides.ledger ?? agent.ledger
  if (ledger !== undefined) paths.ledger = namedLedger(ledger, env)
  const workspace =
    agent.workspaceDir === undefined ? paths.workspace : expanded(agent.workspaceDir, env)
  // A key is for the provider that the config names it for.
  const own = provider.name === undefined || provider.name === name
  return {
    paths,
    workspace,
    provider: name,
    model: id,
    providerOptions: {
      ...(baseUrl !== undefined && (own || overrides.baseUrl !== undefined) && { baseUrl }),
      ...(provider.api !== undefined && own && { api: provider.api }),
    },
    profiles: own ? (provider.authProfiles ?? []) : [],
    maxRetries: provider.maxRetries ?? agent.maxRetries ?? 3,
    fallbacks: provider.fallbacks ?? [],
    contextWindow: agent.contextWindow,
    identity: agent.identity,
    tools: agent.tools ?? TOOLS,
    bash: agent.bash ?? {},
    readRoots: (agent.readRoots ?? []).map((path) => expanded(path, env)),
    maxIterations: agent.maxIterations ?? 25,
    maxToolResultChars: agent.maxToolResultChars ?? 50_000,
    timeoutMs: agent.timeoutMs,
    maxResponseTokens: agent.maxResponseTokens,
    temperature: agent.temperature,
    thinkingConfig: agent.thinkingConfig,
  }
}

/** Provider and model: as requested, else as configured, else by the keys of the environment. */
function modelOf(
  { agent = {}, provider = {} }: RunAgentConfig,
  overrides: Overrides,
  env: Environment,
): { name: string; id: string } {
  const model = overrides.model ?? agent.model ?? provider.model
  const name = overrides.provider ?? agent.provider ?? provider.name
  const [, service, id] = /^([^/]+)\/(.+)$/.exec(model ?? '') ?? []
  const namesBoth =
    name === undefined || (overrides.provider === undefined && WITHOUT_SLASH.includes(name))
  if (service !== undefined && id !== undefined && namesBoth) return { name: service, id }
  if (model !== undefined && name !== undefined) return { name, id: model }
  const found = DEFAULT_MODELS.find(
    (each) =>
      (name === undefined || each.provider === name) &&
      (name !== undefined || each.variables.some((variable) => env[variable])),
  )
  if (found !== undefined && model === undefined) return { name: found.provider, id: found.model }
  if (found !== undefined && model !== undefined) return { name: found.provider, id: model }
  const where = name === undefined ? 'provider.name' : 'provider.model'
  throw refusal('invalid_options', [
    {
      path: where,
      message:
        'is missing; name a provider and a model, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY',
    },
  ])
}

function warnOfKeys(unknown: readonly string[]): void {
  if (unknown.length === 0) return
  const names = unknown.slice(0, 20).map((name) => `\`${name}\``)
  process.emitWarning(`the config has unknown keys, which have no effect: ${names.join(', ')}`, {
    code: 'RUN_AGENT_CONFIG_KEYS',
  })
}

export type { Overrides, Settings }
export { DEFAULT_MODELS, readLedgerPath, readSettings }
