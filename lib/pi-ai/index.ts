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
import {
  getOAuthApiKey,
  getOAuthProvider,
  getOAuthProviderInfoList,
  getOAuthProviders,
  LoginUnavailableError,
  loginAnthropic,
  loginAntigravity,
  loginGeminiCli,
  loginGitHubCopilot,
  loginOpenAICodex,
  refreshOAuthToken,
  registerOAuthProvider,
} from './oauth.ts'
import { getOverflowPatterns, isContextOverflow } from './overflow.ts'
import { parseStreamingJson } from './partial-json.ts'
import {
  clearApiProviders,
  getApiProvider,
  getApiProviders,
  registerApiProvider,
  unregisterApiProviders,
} from './registry.ts'
import { StringEnum, Type } from './schema/typebox.ts'
import { validateToolArguments, validateToolCall } from './schema/validation.ts'
import {
  complete,
  completeSimple,
  registerBuiltInApiProviders,
  resetApiProviders,
  stream,
  streamSimple,
} from './stream.ts'
import { ModelCallError } from './throwing.ts'
import { transformMessages } from './transform.ts'

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
  getOAuthApiKey,
  getOAuthProvider,
  getOAuthProviderInfoList,
  getOAuthProviders,
  getOverflowPatterns,
  getProviders,
  isContextOverflow,
  LoginUnavailableError,
  loginAnthropic,
  loginAntigravity,
  loginGeminiCli,
  loginGitHubCopilot,
  loginOpenAICodex,
  ModelCallError,
  modelsAreEqual,
  parseStreamingJson,
  refreshOAuthToken,
  registerApiProvider,
  registerBuiltInApiProviders,
  registerOAuthProvider,
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
  Conforms<typeof getOAuthApiKey, typeof declared.getOAuthApiKey>,
  Conforms<typeof getOAuthProvider, typeof declared.getOAuthProvider>,
  Conforms<typeof getOAuthProviderInfoList, typeof declared.getOAuthProviderInfoList>,
  Conforms<typeof getOAuthProviders, typeof declared.getOAuthProviders>,
  Conforms<typeof LoginUnavailableError, typeof declared.LoginUnavailableError>,
  Conforms<typeof loginAnthropic, typeof declared.loginAnthropic>,
  Conforms<typeof loginAntigravity, typeof declared.loginAntigravity>,
  Conforms<typeof loginGeminiCli, typeof declared.loginGeminiCli>,
  Conforms<typeof loginGitHubCopilot, typeof declared.loginGitHubCopilot>,
  Conforms<typeof loginOpenAICodex, typeof declared.loginOpenAICodex>,
  Conforms<typeof ModelCallError, typeof declared.ModelCallError>,
  Conforms<typeof refreshOAuthToken, typeof declared.refreshOAuthToken>,
  Conforms<typeof registerOAuthProvider, typeof declared.registerOAuthProvider>,
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
  Conforms<typeof unregisterApiProviders, typeof declared.unregisterApiProviders>,
  Conforms<typeof validateToolArguments, typeof declared.validateToolArguments>,
  Conforms<typeof validateToolCall, typeof declared.validateToolCall>,
]
type Conforms<Made extends Declared, Declared> = Made
