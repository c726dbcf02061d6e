// Which functions stream an API: one registry of the process. It must never know what a provider does.

import type { ApiProvider, Model, StreamFunction } from '../../pi-ai.d.ts'

interface Entry {
  provider: ApiProvider
  sourceId: string | undefined
}

const registry = new Map<string, Entry>()

function registerApiProvider(provider: ApiProvider, sourceId?: string): void {
  const { api, stream, streamSimple } = provider
  const only =
    (call: StreamFunction): StreamFunction =>
    (model: Model, ...rest) => {
      if (model.api !== api) throw new Error(`Mismatched api: ${model.api} expected ${api}`)
      return call(model, ...rest)
    }
  const checked = { api, stream: only(stream), streamSimple: only(streamSimple) }
  registry.set(api, { provider: checked, sourceId })
}

function getApiProvider(api: string): ApiProvider | undefined {
  return registry.get(api)?.provider
}

function getApiProviders(): ApiProvider[] {
  return Array.from(registry.values(), ({ provider }) => provider)
}

function unregisterApiProviders(sourceId: string): void {
  for (const [api, entry] of registry) {
    if (entry.sourceId === sourceId) registry.delete(api)
  }
}

function clearApiProviders(): void {
  registry.clear()
}

export {
  clearApiProviders,
  getApiProvider,
  getApiProviders,
  registerApiProvider,
  unregisterApiProviders,
}
