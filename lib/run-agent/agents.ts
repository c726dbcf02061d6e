// The engines behind runs: one for each ledger and provider, shared by the runs that use them, and closed a while after the last one. It
// must never close an engine that somebody uses.

import type { AgentEngineOptions, ModelInfo } from '../../index.d.ts'
import { AgentEngine } from '../../index.js'
import { ledgerOptions } from './config/ledger.ts'
import type { Settings } from './config/settings.ts'

/** An engine that no run has used for so long is closed. Until then a next run has its connections. */
const IDLE_MS = 30_000
/** The window of a model that nobody describes, in tokens. */
const ASSUMED_WINDOW = 128_000

interface Agent {
  readonly engine: AgentEngine
  /** Prices and API of a model, where they are known. */
  model(provider: string, id: string): ModelInfo | undefined
}

interface Shared {
  agent: Promise<Agent>
  users: number
  timer: NodeJS.Timeout | undefined
}

const open = new Map<string, Shared>()

/** Calls `use` with the engine of these settings. */
async function withAgent<Value>(
  settings: Settings,
  use: (agent: Agent) => Promise<Value>,
): Promise<Value> {
  const options = engineOptions(settings)
  const key = JSON.stringify([options, settings.model, settings.contextWindow])
  const shared = open.get(key) ?? {
    agent: openAgent(options, settings),
    users: 0,
    timer: undefined,
  }
  open.set(key, shared)
  clearTimeout(shared.timer)
  shared.users += 1
  try {
    return await use(await shared.agent)
  } catch (error) {
    // One that did not open is opened again.
    await shared.agent.catch(() => open.delete(key))
    throw error
  } finally {
    shared.users -= 1
    if (shared.users === 0 && open.get(key) === shared) {
      shared.timer = setTimeout(() => void closeIdle(key, shared), IDLE_MS).unref()
    }
  }
}

async function closeIdle(key: string, shared: Shared): Promise<void> {
  open.delete(key)
  await (await shared.agent).engine.close()
}

/** Closes the engines of all runs; running ones are waited for. */
async function closeAgents(): Promise<void> {
  const closing = [...open.values()]
  open.clear()
  for (const { timer } of closing) clearTimeout(timer)
  await Promise.all(closing.map(async ({ agent }) => (await agent).engine.close()))
}

function engineOptions(settings: Settings): AgentEngineOptions {
  const { provider, providerOptions, profiles, maxRetries, fallbacks, paths } = settings
  return {
    ledger: ledgerOptions(paths.ledger),
    providers: providersOf(settings),
    authProfiles: profiles.map(({ id, apiKey, type = 'api_key' }) => ({
      id,
      provider,
      key: apiKey,
      type,
    })),
    failover: {
      fallbacks,
      // Each retry has the next profile.
      ...(profiles.length > 0 && {
        order: { [provider]: profiles.slice(0, maxRetries + 1).map(({ id }) => id) },
      }),
    },
    compaction: { preset: 'myclaw', maxOverflowRecoveries: 3 },
  }

  function providersOf({ fallbacks }: Settings): NonNullable<AgentEngineOptions['providers']> {
    const others = fallbacks.flatMap((name) => /^([^/]+)\//.exec(name)?.[1] ?? [])
    const entries = others.map((name) => [name, {}] as const)
    return { ...Object.fromEntries(entries), [provider]: providerOptions }
  }
}

async function openAgent(options: AgentEngineOptions, settings: Settings): Promise<Agent> {
  const engine = new AgentEngine(options)
  const { provider, model, contextWindow = ASSUMED_WINDOW } = settings
  try {
    await engine.countTokens('', { provider, model })
    return agentOf(engine)
  } catch (error) {
    await engine.close()
    if ((error as { code?: unknown }).code !== 'unknown_model') throw error
  }
  if (settings.contextWindow === undefined) {
    process.emitWarning(
      `the catalogue does not have the model \`${model}\` of \`${provider}\`: a window of ${ASSUMED_WINDOW} tokens is assumed; set \`agent.contextWindow\` to its own`,
      { code: 'RUN_AGENT_MODEL' },
    )
  }
  return agentOf(new AgentEngine({ ...options, models: [{ provider, id: model, contextWindow }] }))
}

function agentOf(engine: AgentEngine): Agent {
  const known = new Map<string, readonly ModelInfo[]>()
  return {
    engine,
    model(provider, id) {
      let models = known.get(provider)
      if (models === undefined) {
        models = engine.models({ provider })
        known.set(provider, models)
      }
      return models.find((each) => each.id === id || each.aliases.includes(id))
    },
  }
}

export type { Agent }
export { closeAgents, withAgent }
