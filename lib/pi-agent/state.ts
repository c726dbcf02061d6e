// The state of an agent under the names of both versions: one value each. It must never notify.

import type { AgentOptions, AgentState, Semantics } from '../../pi-agent.d.ts'
import type { Model } from '../../pi-ai.d.ts'

/** What an agent has before it gets a model. */
const NO_MODEL: Model = {
  id: 'unknown',
  name: 'unknown',
  api: 'unknown',
  provider: 'unknown',
  baseUrl: '',
  reasoning: false,
  input: [],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  contextWindow: 0,
  maxTokens: 0,
}

/** 0.73 copies a list that is assigned; 0.54 takes it. */
function stateOf(initial: AgentOptions['initialState'], semantics: Semantics): AgentState {
  const copies = semantics === '0.73'
  const taken = <Item>(list: Item[]): Item[] => (copies ? list.slice() : list)
  let tools = taken(initial?.tools ?? [])
  let messages = taken(initial?.messages ?? [])
  const { tools: _tools, messages: _messages, ...others } = initial ?? {}
  const state = {
    systemPrompt: '',
    model: NO_MODEL,
    thinkingLevel: 'off',
    isStreaming: false,
    streamMessage: null,
    pendingToolCalls: new Set(),
    error: undefined,
    ...others,
    get tools() {
      return tools
    },
    set tools(next) {
      tools = taken(next)
    },
    get messages() {
      return messages
    },
    set messages(next) {
      messages = taken(next)
    },
    get streamingMessage() {
      return this.streamMessage ?? undefined
    },
    set streamingMessage(next) {
      this.streamMessage = next ?? null
    },
    get errorMessage() {
      return this.error
    },
    set errorMessage(next) {
      this.error = next
    },
  } as AgentState
  return state
}

export { stateOf }
