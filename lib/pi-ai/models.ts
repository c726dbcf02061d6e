// The models of the engine's catalogue, as pi has them. It must never have a model of its own.

import type { AgentEngine as Engine, ModelInfo } from '../../index.d.ts'
import { AgentEngine } from '../../index.js'
import type { Model, ModelThinkingLevel, Usage } from '../../pi-ai.d.ts'
import { apiOf } from './apis.ts'

/** Where a provider is: pi's models carry the address. */
const ADDRESSES: Readonly<Record<string, string>> = {
  'amazon-bedrock': 'https://bedrock-runtime.us-east-1.amazonaws.com',
  anthropic: 'https://api.anthropic.com',
  cerebras: 'https://api.cerebras.ai/v1',
  deepseek: 'https://api.deepseek.com',
  google: 'https://generativelanguage.googleapis.com/v1beta',
  'google-vertex': 'https://{location}-aiplatform.googleapis.com',
  groq: 'https://api.groq.com/openai/v1',
  minimax: 'https://api.minimax.io/anthropic',
  mistral: 'https://api.mistral.ai/v1',
  moonshotai: 'https://api.moonshot.ai/v1',
  openai: 'https://api.openai.com/v1',
  openrouter: 'https://openrouter.ai/api/v1',
  together: 'https://api.together.xyz/v1',
  xai: 'https://api.x.ai/v1',
  zai: 'https://api.z.ai/api/paas/v4',
}

let registry: Map<string, Map<string, Model>> | undefined

/** Read when it is first needed. */
function models(): Map<string, Map<string, Model>> {
  if (registry !== undefined) return registry
  registry = new Map()
  const engine: Engine = new AgentEngine({})
  try {
    for (const info of engine.models()) {
      const model = modelOf(info)
      if (model === undefined) continue
      const known = registry.get(model.provider)
      if (known === undefined) registry.set(model.provider, new Map([[model.id, model]]))
      else known.set(model.id, model)
    }
  } finally {
    void engine.close()
  }
  return registry
}

function modelOf(info: ModelInfo): Model | undefined {
  const { provider, id, name, contextWindow, maxOutputTokens, reasoning, input, cost } = info
  const baseUrl = ADDRESSES[provider]
  if (info.api === null || baseUrl === undefined) return undefined
  return {
    id,
    name,
    api: apiOf(info.api, provider),
    provider,
    baseUrl,
    reasoning,
    input: input.includes('image') ? ['text', 'image'] : ['text'],
    cost: {
      input: cost?.input ?? 0,
      output: cost?.output ?? 0,
      cacheRead: cost?.cacheRead ?? 0,
      cacheWrite: cost?.cacheWrite ?? 0,
    },
    contextWindow,
    maxTokens: maxOutputTokens,
  }
}

/** A model by its name; undefined for an unknown one. */
function getModel(provider: string, modelId: string): Model | undefined {
  return models().get(provider)?.get(modelId)
}

function getModels(provider: string): Model[] {
  return Array.from(models().get(provider)?.values() ?? [])
}

function getProviders(): string[] {
  return Array.from(models().keys())
}

/** Sets the cost of a usage by the prices of a model, and returns it. */
function calculateCost(model: Model, usage: Usage): Usage['cost'] {
  const { cost } = usage
  cost.input = (model.cost.input / 1_000_000) * usage.input
  cost.output = (model.cost.output / 1_000_000) * usage.output
  cost.cacheRead = (model.cost.cacheRead / 1_000_000) * usage.cacheRead
  cost.cacheWrite = (model.cost.cacheWrite / 1_000_000) * usage.cacheWrite
  cost.total = cost.input + cost.output + cost.cacheRead + cost.cacheWrite
  return cost
}

/** Whether the model has the thinking level `xhigh`. */
function supportsXhigh(model: Model): boolean {
  const { id, api, thinkingLevelMap } = model
  if (thinkingLevelMap?.xhigh !== undefined) return thinkingLevelMap.xhigh !== null
  if (/gpt-5\.[2-9]/.test(id)) return true
  return api === 'anthropic-messages' && /opus-4[-.][6-9]|claude-[a-z]+-[5-9]/.test(id)
}

/** From none to the most. */
const LEVELS = ['off', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const

function getSupportedThinkingLevels(model: Model): ModelThinkingLevel[] {
  if (!model.reasoning) return ['off']
  return LEVELS.filter((level) => {
    if (level === 'xhigh') return supportsXhigh(model)
    return model.thinkingLevelMap?.[level] !== null
  })
}

/** The level, or the nearest one that the model has: a higher one first. */
function clampThinkingLevel(model: Model, level: ModelThinkingLevel): ModelThinkingLevel {
  const has = getSupportedThinkingLevels(model)
  const at = LEVELS.indexOf(level)
  if (at < 0) return has[0] ?? 'off'
  const nearest = [...LEVELS.slice(at), ...LEVELS.slice(0, at).reverse()]
  return nearest.find((each) => has.includes(each)) ?? 'off'
}

function modelsAreEqual(one: Model | null | undefined, other: Model | null | undefined): boolean {
  return !!one && !!other && one.id === other.id && one.provider === other.provider
}

export {
  calculateCost,
  clampThinkingLevel,
  getModel,
  getModels,
  getProviders,
  getSupportedThinkingLevels,
  modelsAreEqual,
  supportsXhigh,
}
