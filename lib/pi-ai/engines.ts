// The engines behind the calls: one for each model, address and key. It must never keep one whose key has failed, nor hold the process.

import type { AuthProfile, AgentEngine as Engine } from '../../index.d.ts'
import { AgentEngine } from '../../index.js'
import type { Model } from '../../pi-ai.d.ts'
import { engineApiOf, flavorOf } from './apis.ts'
import { AUTHENTICATED } from './env-keys.ts'

/** The limit of engines that wait for another call. */
const MAX_ENGINES = 32
/** The most retries that an engine makes. */
const MAX_RETRIES = 10
/** The time until an answer begins, as the clients have it that pi uses. */
const HEADER_TIMEOUT_MS = 600_000
/** The efforts of a model that no catalogue has. */
const EFFORTS = ['minimal', 'low', 'medium', 'high'] as const

interface Entry {
  engine: Engine
  /** Calls under way. */
  calls: number
  /** No other call gets it. */
  dropped: boolean
}

/** The most recently used is last. */
const engines = new Map<string, Entry>()
let known: Set<string> | undefined

/** An engine for one call. `release(failed)` gives it back. */
interface Lease {
  engine: Engine
  release(failed: boolean): void
}

/** An engine that sends a failed call again as often as `maxRetries` says: not at all, where the caller does not ask for it. */
function lease(model: Model, apiKey: string, maxRetries = 0): Lease {
  const retries = Math.min(Math.max(Math.trunc(maxRetries) || 0, 0), MAX_RETRIES)
  const key = JSON.stringify([
    model.provider,
    model.id,
    model.api,
    model.baseUrl,
    apiKey,
    retries,
    model.contextWindow,
    model.maxTokens,
    model.reasoning,
    model.input,
  ])
  let entry = engines.get(key)
  if (entry === undefined)
    entry = { engine: create(model, apiKey, retries), calls: 0, dropped: false }
  else engines.delete(key)
  engines.set(key, entry)
  entry.calls++
  evict()
  const held = entry
  return {
    engine: held.engine,
    release(failed) {
      held.calls--
      if (failed && engines.get(key) === held) {
        // What it remembers of the failure (a limit, a refused key) must not delay the next call: its host decides.
        engines.delete(key)
        held.dropped = true
      }
      if (held.dropped && held.calls === 0) void held.engine.close()
    },
  }
}

function evict(): void {
  for (const [key, entry] of engines) {
    if (engines.size <= MAX_ENGINES) return
    if (entry.calls > 0) continue
    engines.delete(key)
    void entry.engine.close()
  }
}

function create(model: Model, apiKey: string, maxRetries: number): Engine {
  const { provider, id, name, api: piApi, reasoning, contextWindow, maxTokens } = model
  const api = engineApiOf(piApi)
  if (api === undefined) throw new Error(`No API provider registered for api: ${piApi}`)
  const flavor = flavorOf(piApi, provider)
  const baseUrl = addressOf(model)
  const isUnknown = reasoning && !catalogued(id)
  return new AgentEngine({
    providers: {
      [provider]: {
        api,
        ...(baseUrl && { baseUrl }),
        ...(flavor && { flavor }),
        headerTimeoutMs: HEADER_TIMEOUT_MS,
        allowInsecure: true,
        ...(isProxied() && { proxy: 'env' }),
      },
    },
    authProfiles: profiles(provider, apiKey),
    models: [
      {
        provider,
        id,
        api,
        name: name ?? id,
        contextWindow,
        maxOutputTokens: maxTokens,
        input: model.input,
        reasoning,
        ...(isUnknown && {
          thinking: { adaptive: false, budget: false, efforts: [...EFFORTS], canDisable: false },
        }),
      },
    ],
    // Their callers wait, compact and retry themselves.
    failover: { maxRetries },
    rateGovernor: false,
    compaction: false,
    contextGuard: { minWindow: 1 },
  })
}

function profiles(provider: string, key: string): AuthProfile[] {
  const id = `${provider}:pi`
  if (key === AUTHENTICATED) return [{ id, provider, type: 'aws' }]
  // A token of a subscription: sent as one, without the identity of another program.
  if (key.startsWith('sk-ant-oat')) return [{ id, provider, type: 'token', key }]
  return [{ id, provider, key }]
}

/** Whether some provider has a model of that name. */
function catalogued(id: string): boolean {
  if (known === undefined) {
    const engine = new AgentEngine({})
    known = new Set(engine.models().map((model) => model.id))
    void engine.close()
  }
  return known.has(id)
}

/** Where a model's requests go. pi's addresses of Google have the version, the engine adds it. */
function addressOf({ api, baseUrl }: Model): string {
  if (engineApiOf(api) !== 'google-generative-ai') return baseUrl
  return baseUrl.replace(/\/v1(?:beta)?\/?$/, '')
}

function isProxied(): boolean {
  const { env } = process
  return ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy'].some(
    (name) => env[name],
  )
}

export type { Lease }
export { addressOf, lease }
