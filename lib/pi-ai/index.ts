// The public face of @nexus/agent-engine/pi-ai. It owns the list of exports and holds no logic. Nothing here may load pi.

import type * as declared from '../../pi-ai.d.ts'
import { getEnvApiKey } from './env-keys.ts'
import {
  AssistantMessageEventStream,
  createAssistantMessageEventStream,
  EventStream,
} from './event-stream.ts'
import {
  calculateCost,
  getModel,
  getModels,
  getProviders,
  modelsAreEqual,
  supportsXhigh,
} from './models.ts'
import { getOverflowPatterns, isContextOverflow } from './overflow.ts'
import { parseStreamingJson } from './partial-json.ts'
import {
  clearApiProviders,
  getApiProvider,
  getApiProviders,
  registerApiProvider,
  unregisterApiProviders,
} from './registry.ts'
import {
  complete,
  completeSimple,
  registerBuiltInApiProviders,
  resetApiProviders,
  stream,
  streamSimple,
} from './stream.ts'
import { transformMessages } from './transform.ts'
import { StringEnum, Type } from './typebox.ts'
import { validateToolArguments, validateToolCall } from './validation.ts'

export {
  AssistantMessageEventStream,
  calculateCost,
  clearApiProviders,
  complete,
  completeSimple,
  createAssistantMessageEventStream,
  EventStream,
  getApiProvider,
  getApiProviders,
  getEnvApiKey,
  getModel,
  getModels,
  getOverflowPatterns,
  getProviders,
  isContextOverflow,
  modelsAreEqual,
  parseStreamingJson,
  registerApiProvider,
  registerBuiltInApiProviders,
  resetApiProviders,
  StringEnum,
  stream,
  streamSimple,
  supportsXhigh,
  Type,
  transformMessages,
  unregisterApiProviders,
  validateToolArguments,
  validateToolCall,
}

/** Compiles only while each export is what `pi-ai.d.ts` declares. */
export type Face = [
  Conforms<typeof AssistantMessageEventStream, typeof declared.AssistantMessageEventStream>,
  Conforms<typeof calculateCost, typeof declared.calculateCost>,
  Conforms<typeof clearApiProviders, typeof declared.clearApiProviders>,
  Conforms<typeof complete, typeof declared.complete>,
  Conforms<typeof completeSimple, typeof declared.completeSimple>,
  Conforms<typeof EventStream, typeof declared.EventStream>,
  Conforms<typeof getApiProvider, typeof declared.getApiProvider>,
  Conforms<typeof getApiProviders, typeof declared.getApiProviders>,
  Conforms<typeof getEnvApiKey, typeof declared.getEnvApiKey>,
  Conforms<typeof getModels, typeof declared.getModels>,
  Conforms<typeof getOverflowPatterns, typeof declared.getOverflowPatterns>,
  Conforms<typeof getProviders, typeof declared.getProviders>,
  Conforms<typeof isContextOverflow, typeof declared.isContextOverflow>,
  Conforms<typeof modelsAreEqual, typeof declared.modelsAreEqual>,
  Conforms<typeof parseStreamingJson, typeof declared.parseStreamingJson>,
  Conforms<typeof registerApiProvider, typeof declared.registerApiProvider>,
  Conforms<typeof registerBuiltInApiProviders, typeof declared.registerBuiltInApiProviders>,
  Conforms<typeof resetApiProviders, typeof declared.resetApiProviders>,
  Conforms<typeof StringEnum, typeof declared.StringEnum>,
  Conforms<typeof supportsXhigh, typeof declared.supportsXhigh>,
  Conforms<typeof transformMessages, typeof declared.transformMessages>,
  Conforms<typeof Type, typeof declared.Type>,
  Conforms<typeof unregisterApiProviders, typeof declared.unregisterApiProviders>,
  Conforms<typeof validateToolArguments, typeof declared.validateToolArguments>,
  Conforms<typeof validateToolCall, typeof declared.validateToolCall>,
]
type Conforms<Made extends Declared, Declared> = Made
