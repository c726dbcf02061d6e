// The MCP servers of an engine: `engine.mcp`. It checks the arguments, and the native side does the rest.
// It must never start a server that nothing was asked of.

import type { NativeEngine } from '../../binding.d.ts'
import type {
  CallOptions,
  McpPrompt,
  McpPromptResult,
  McpResource,
  McpResourceContents,
  McpResourceTemplate,
  McpServers,
  McpToolInfo,
} from '../../index.d.ts'
import { abortableRequest, signalOf } from '../native/abortable.ts'
import { guarded, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { readFields, readName } from '../values/reader.ts'

const CODE = 'invalid_options'

/** The face of the servers of `native`. */
function mcpServers(native: NativeEngine): McpServers {
  /** A question that an abort cancels at the server, too. */
  const ask = <Value>(options: CallOptions, send: (id: number) => void) =>
    abortableRequest<Value>(signalOf(options), send, (id) => native.cancelRequest(id))
  const list = <Item>(server: string, method: string, field: string, options: CallOptions) => {
    readName(server, 'server', CODE)
    return ask<Item[]>(options, (id) => native.mcpItems(id, server, method, field))
  }
  return Object.freeze<McpServers>({
    servers: () => JSON.parse(guarded(() => native.mcpStates())),
    tools: async (options = {}) => ask<McpToolInfo[]>(options, (id) => native.mcpTools(id)),
    resources: async (server, options = {}) =>
      list<McpResource>(server, 'resources/list', 'resources', options),
    resourceTemplates: async (server, options = {}) =>
      list<McpResourceTemplate>(server, 'resources/templates/list', 'resourceTemplates', options),
    readResource: async (server, uri, options = {}) => {
      readName(server, 'server', CODE)
      readName(uri, 'uri', CODE)
      type Read = { contents: McpResourceContents[] }
      const { contents } = await ask<Read>(options, (id) => native.mcpResource(id, server, uri))
      return contents
    },
    prompts: async (server, options = {}) =>
      list<McpPrompt>(server, 'prompts/list', 'prompts', options),
    getPrompt: async (server, name, args = {}, options = {}) => {
      readName(server, 'server', CODE)
      readName(name, 'name', CODE)
      const fields = readFields(args, 'args', CODE)
      const wrong = Object.entries(fields).find(([, value]) => typeof value !== 'string')
      if (wrong !== undefined) throw refusal(CODE, `args.${wrong[0]}`, 'is not a string')
      const json = toJson(fields, 'args', () => CODE)
      return ask<McpPromptResult>(options, (id) => native.mcpPrompt(id, server, name, json))
    },
    reload: async (server, options = {}) => {
      if (server !== undefined) readName(server, 'server', CODE)
      // An abort does not leave a server half started: it starts, and nobody waits for it.
      await abortableRequest(signalOf(options), (id) => native.mcpReload(id, server))
    },
  })
}

export { mcpServers }
