// The engine's calls under the names that pi's own providers have, whatever is registered for their APIs. It must never look into the registry.

import type {
  AssistantMessageEventStream,
  Context,
  Model,
  SimpleStreamOptions,
  StreamOptions,
} from '../../../pi-ai.d.ts'
import { call } from '../call.ts'
import { providerFields, simpleFields } from '../options.ts'
import { throwing } from './throwing.ts'

function streamed(
  model: Model,
  context: Context,
  options?: StreamOptions,
): AssistantMessageEventStream {
  return throwing(call(providerFields, model, context, options), options)
}

function streamedSimply(
  model: Model,
  context: Context,
  options?: SimpleStreamOptions,
): AssistantMessageEventStream {
  return throwing(call(simpleFields, model, context, options), options)
}

export {
  streamed as streamAnthropic,
  streamed as streamAzureOpenAIResponses,
  streamed as streamGoogle,
  streamed as streamGoogleVertex,
  streamed as streamMistral,
  streamed as streamOpenAICompletions,
  streamed as streamOpenAIResponses,
  streamedSimply as streamSimpleAnthropic,
  streamedSimply as streamSimpleAzureOpenAIResponses,
  streamedSimply as streamSimpleGoogle,
  streamedSimply as streamSimpleGoogleVertex,
  streamedSimply as streamSimpleMistral,
  streamedSimply as streamSimpleOpenAICompletions,
  streamedSimply as streamSimpleOpenAIResponses,
}
