// The names of the APIs: pi's and the engine's. It must never know what an API looks like.

import type { Api as EngineApi } from '../../index.d.ts'

/** pi's APIs that the engine has. The others are subscriptions with an identity of their own. */
const APIS: Readonly<Record<string, EngineApi>> = {
  'anthropic-messages': 'anthropic-messages',
  'azure-openai-responses': 'openai-responses',
  'bedrock-converse-stream': 'bedrock-converse',
  'google-generative-ai': 'google-generative-ai',
  'google-vertex': 'google-generative-ai',
  'mistral-conversations': 'openai-chat',
  'openai-completions': 'openai-chat',
  'openai-responses': 'openai-responses',
}
/** The service that an API or a provider of pi is, where neither its host nor its name shows it. */
const FLAVORS: Readonly<Record<string, string>> = {
  'amazon-bedrock': 'bedrock',
  'azure-openai-responses': 'azure',
  'google-vertex': 'vertex',
  'mistral-conversations': 'mistral',
  moonshotai: 'moonshot',
  'moonshotai-cn': 'moonshot',
}

/** The engine's name of one of pi's APIs; undefined for an API that the engine does not have. */
function engineApiOf(api: string): EngineApi | undefined {
  return Object.hasOwn(APIS, api) ? APIS[api] : undefined
}

/** The service of a model; undefined where the engine finds it itself. */
function flavorOf(api: string, provider: string): string | undefined {
  return FLAVORS[api] ?? FLAVORS[provider]
}

/** pi's name of one of the engine's APIs. */
function apiOf(api: string, provider: string): string {
  if (api === 'openai-chat') return 'openai-completions'
  if (api === 'bedrock-converse') return 'bedrock-converse-stream'
  if (provider === 'google-vertex' && api === 'google-generative-ai') return 'google-vertex'
  return api
}

const NAMES: readonly string[] = Object.keys(APIS)

export { apiOf, engineApiOf, flavorOf, NAMES }
