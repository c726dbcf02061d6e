// What must type-check between `/pi-ai` and pi 0.73's own declarations, in both directions (`tsc` over this file is the test). It is never run.

import type { StreamFn } from 'pi-agent-core-073'
import type * as pi from 'pi-ai-073'
import type * as login from 'pi-ai-073/oauth'
import { Type } from 'typebox'
import * as ours from '../../../pi-ai.js'

/** Each is assignable to the other. */
type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : never) : never
const same = <One, Other>(_: Same<One, Other>) => {}

same<pi.AssistantMessage, ours.AssistantMessage>(true)
same<pi.UserMessage, ours.UserMessage>(true)
same<pi.ToolResultMessage, ours.ToolResultMessage>(true)
same<pi.Message, ours.Message>(true)
same<pi.Context, ours.Context>(true)
same<pi.Tool, ours.Tool>(true)
same<pi.Usage, ours.Usage>(true)
same<pi.StopReason, ours.StopReason>(true)
same<pi.TextContent, ours.TextContent>(true)
same<pi.ThinkingContent, ours.ThinkingContent>(true)
same<pi.ImageContent, ours.ImageContent>(true)
same<pi.ToolCall, ours.ToolCall>(true)
same<pi.ThinkingLevel, ours.ThinkingLevel>(true)
same<pi.ThinkingBudgets, ours.ThinkingBudgets>(true)
same<pi.AssistantMessageEvent, ours.AssistantMessageEvent>(true)
same<pi.StreamOptions, ours.StreamOptions>(true)
same<pi.SimpleStreamOptions, ours.SimpleStreamOptions>(true)
same<pi.Model<any>, ours.Model<any>>(true)

// Functions of the package where pi's are expected.
ours.streamSimple satisfies StreamFn
ours.streamSimple satisfies typeof pi.streamSimple
ours.stream satisfies typeof pi.stream
ours.complete satisfies typeof pi.complete
ours.completeSimple satisfies typeof pi.completeSimple
ours.createAssistantMessageEventStream satisfies typeof pi.createAssistantMessageEventStream
ours.calculateCost satisfies typeof pi.calculateCost
ours.getModel satisfies (
  provider: 'anthropic',
  id: 'claude-haiku-4-5',
) => pi.Model<'anthropic-messages'>
ours.getModels satisfies (provider: 'anthropic') => pi.Model<any>[]
ours.getProviders satisfies typeof pi.getProviders
ours.getEnvApiKey satisfies typeof pi.getEnvApiKey
ours.isContextOverflow satisfies typeof pi.isContextOverflow
ours.validateToolArguments satisfies typeof pi.validateToolArguments
ours.validateToolCall satisfies typeof pi.validateToolCall
ours.registerApiProvider satisfies (provider: pi.ApiProvider<any, any>, source?: string) => void
ours.unregisterApiProviders satisfies typeof pi.unregisterApiProviders

// And the other way round.
declare const theirs: typeof pi
theirs.complete satisfies typeof ours.complete
theirs.completeSimple satisfies typeof ours.completeSimple
theirs.calculateCost satisfies typeof ours.calculateCost
theirs.isContextOverflow satisfies typeof ours.isContextOverflow
theirs.createAssistantMessageEventStream() satisfies ours.AssistantMessageEventStream
theirs.registerApiProvider({
  api: 'mine',
  stream: ours.stream,
  streamSimple: ours.streamSimple,
})

// Logins.
same<login.OAuthCredentials, ours.OAuthCredentials>(true)
same<login.OAuthLoginCallbacks, ours.OAuthLoginCallbacks>(true)
same<login.OAuthProviderInterface, ours.OAuthProviderInterface>(true)
same<login.OAuthProviderInfo, ours.OAuthProviderInfo>(true)
same<login.OAuthProviderId, ours.OAuthProviderId>(true)
same<pi.OAuthSelectPrompt, ours.OAuthSelectPrompt>(true)
same<pi.OAuthAuthInfo, ours.OAuthAuthInfo>(true)
same<pi.OAuthPrompt, ours.OAuthPrompt>(true)
same<typeof login.registerOAuthProvider, typeof ours.registerOAuthProvider>(true)
same<typeof login.getOAuthProvider, typeof ours.getOAuthProvider>(true)
same<typeof login.getOAuthProviders, typeof ours.getOAuthProviders>(true)
same<typeof login.getOAuthProviderInfoList, typeof ours.getOAuthProviderInfoList>(true)
same<typeof login.refreshOAuthToken, typeof ours.refreshOAuthToken>(true)
same<typeof login.getOAuthApiKey, typeof ours.getOAuthApiKey>(true)

// Names of providers and options of a call, by the API.
type Accepted<Given, By> = [Given] extends [By] ? true : never
const accepted = <Given, By>(_: Accepted<Given, By>) => {}
accepted<pi.KnownProvider, ours.KnownProvider>(true)
accepted<pi.AnthropicOptions, ours.AnthropicOptions>(true)
same<pi.AzureOpenAIResponsesOptions, ours.AzureOpenAIResponsesOptions>(true)
same<pi.GoogleOptions, ours.GoogleOptions>(true)
same<pi.GoogleVertexOptions, ours.GoogleVertexOptions>(true)
same<pi.OpenAICompletionsOptions, ours.OpenAICompletionsOptions>(true)
same<pi.OpenAIResponsesOptions, ours.OpenAIResponsesOptions>(true)
same<pi.OpenAICompletionsCompat, ours.OpenAICompletionsCompat>(true)
same<pi.OpenAIResponsesCompat, ours.OpenAIResponsesCompat>(true)
same<pi.OpenRouterRouting, ours.OpenRouterRouting>(true)
same<pi.VercelGatewayRouting, ours.VercelGatewayRouting>(true)
ours.streamAnthropic satisfies typeof pi.streamAnthropic
ours.streamAzureOpenAIResponses satisfies typeof pi.streamAzureOpenAIResponses
ours.streamGoogle satisfies typeof pi.streamGoogle
ours.streamGoogleVertex satisfies typeof pi.streamGoogleVertex
ours.streamOpenAICompletions satisfies typeof pi.streamOpenAICompletions
ours.streamOpenAIResponses satisfies typeof pi.streamOpenAIResponses
ours.streamSimpleAnthropic satisfies typeof pi.streamSimpleAnthropic
ours.streamSimpleGoogle satisfies typeof pi.streamSimpleGoogle
ours.streamSimpleOpenAIResponses satisfies typeof pi.streamSimpleOpenAIResponses

// Schemas of the version's own TypeBox, and what they stand for.
const point = Type.Object({ x: Type.Number(), tags: Type.Optional(Type.Array(Type.String())) })
same<ours.Static<typeof point>, { x: number; tags?: string[] }>(true)
same<ours.Static<typeof point>, pi.Static<typeof point>>(true)
accepted<pi.TSchema, ours.TSchema>(true)
accepted<typeof point, ours.TSchema>(true)
const plot = { name: 'plot', description: 'Plots.', parameters: point }
plot satisfies ours.Tool<typeof point>
plot satisfies pi.Tool<typeof point>
plot satisfies ours.Tool

// What 0.54 has not.
same<pi.AnthropicMessagesCompat, ours.AnthropicMessagesCompat>(true)
same<pi.AssistantMessageDiagnostic, ours.AssistantMessageDiagnostic>(true)
same<pi.BedrockOptions, ours.BedrockOptions>(true)
same<pi.MistralOptions, ours.MistralOptions>(true)
same<pi.ModelThinkingLevel, ours.ModelThinkingLevel>(true)
same<pi.ThinkingLevelMap, ours.ThinkingLevelMap>(true)
same<pi.ProviderResponse, ours.ProviderResponse>(true)
same<pi.TextSignatureV1, ours.TextSignatureV1>(true)
ours.streamMistral satisfies typeof pi.streamMistral
ours.clampThinkingLevel satisfies typeof pi.clampThinkingLevel
ours.getSupportedThinkingLevels satisfies typeof pi.getSupportedThinkingLevels
ours.findEnvKeys satisfies typeof pi.findEnvKeys
ours.repairJson satisfies typeof pi.repairJson
ours.parseJsonWithRepair satisfies typeof pi.parseJsonWithRepair
