// The calls of a model under pi's names: those that are registered for the model's API, which are the engine's unless the caller has replaced them. It
// must never know how an API is called.

import type {
  ApiProvider,
  AssistantMessage,
  AssistantMessageEventStream,
  Context,
  Model,
  SimpleStreamOptions,
  StreamOptions,
} from '../../pi-ai.d.ts'
import { NAMES } from './apis.ts'
import { call } from './call.ts'
import { providerFields, simpleFields } from './options.ts'
import { clearApiProviders, getApiProvider, registerApiProvider } from './registry.ts'
import { throwing } from './streams/throwing.ts'

function providerOf(model: Model): ApiProvider {
  const provider = getApiProvider(model.api)
  if (provider === undefined) throw new Error(`No API provider registered for api: ${model.api}`)
  return provider
}

function stream(
  model: Model,
  context: Context,
  options?: StreamOptions,
): AssistantMessageEventStream {
  return throwing(providerOf(model).stream(model, context, options), options)
}

async function complete(
  model: Model,
  context: Context,
  options?: StreamOptions,
): Promise<AssistantMessage> {
  return stream(model, context, options).result()
}

function streamSimple(
  model: Model,
  context: Context,
  options?: SimpleStreamOptions,
): AssistantMessageEventStream {
  return throwing(providerOf(model).streamSimple(model, context, options), options)
}

async function completeSimple(
  model: Model,
  context: Context,
  options?: SimpleStreamOptions,
): Promise<AssistantMessage> {
  return streamSimple(model, context, options).result()
}

/** The engine streams all APIs that it has. */
function registerBuiltInApiProviders(): void {
  for (const api of NAMES) {
    registerApiProvider({
      api,
      stream: (model, context, options) => call(providerFields, model, context, options),
      streamSimple: (model, context, options) => call(simpleFields, model, context, options),
    })
  }
}

/** Only the engine's own calls are registered. */
function resetApiProviders(): void {
  clearApiProviders()
  registerBuiltInApiProviders()
}

registerBuiltInApiProviders()

export {
  complete,
  completeSimple,
  registerBuiltInApiProviders,
  resetApiProviders,
  stream,
  streamSimple,
}
