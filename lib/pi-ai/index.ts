// The public face of @nexus/agent-engine/pi-ai. It owns the list of exports and holds no logic. Nothing here may load pi.

import type * as declared from '../../pi-ai.d.ts'

export { findEnvKeys, getEnvApiKey } from './env-keys.ts'
export { getOverflowPatterns, isContextOverflow } from './errors/overflow.ts'
export { parseStreamingJson } from './json/partial-json.ts'
export { parseJsonWithRepair, repairJson } from './json/repair-json.ts'
export {
  calculateCost,
  clampThinkingLevel,
  getModel,
  getModels,
  getProviders,
  getSupportedThinkingLevels,
  modelsAreEqual,
  supportsXhigh,
} from './models.ts'
export * from './oauth.ts'
export {
  clearApiProviders,
  getApiProvider,
  getApiProviders,
  registerApiProvider,
  unregisterApiProviders,
} from './registry.ts'
export { StringEnum, Type } from './schema/typebox.ts'
export { validateToolArguments, validateToolCall } from './schema/validation.ts'
export {
  complete,
  completeSimple,
  registerBuiltInApiProviders,
  resetApiProviders,
  stream,
  streamSimple,
} from './stream.ts'
export * from './streams/api-streams.ts'
export {
  AssistantMessageEventStream,
  createAssistantMessageEventStream,
  EventStream,
} from './streams/event-stream.ts'
export { ModelCallError } from './streams/throwing.ts'
export { transformMessages } from './transform.ts'

/** What a caller types (streams as pi's own, `Type` as TypeBox's), and `getModel`, which pi declares without `undefined`. */
type Loose =
  | 'createAssistantMessageEventStream'
  | 'getModel'
  | 'stream'
  | 'streamSimple'
  | 'Type'
  | keyof typeof import('./streams/api-streams.ts')
type Own = Omit<typeof import('./index.ts'), Loose>
/** Compiles only while the exports are what `pi-ai.d.ts` declares. */
export type Face = Conforms<Own, Omit<typeof declared, Loose>>
type Conforms<Made extends Declared, Declared> = Made
