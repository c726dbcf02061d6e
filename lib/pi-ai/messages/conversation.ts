// pi's messages as a context of the engine: its history, the turn under way, and its last message. It must never change a message.

import type { AssembledContext, Block, Message as EngineMessage } from '../../../index.d.ts'
import type { AssistantMessage, Message, ToolResultMessage } from '../../../pi-ai.d.ts'
import { engineApiOf } from '../apis.ts'
import { callBlock, callIdOf, textBlock, thinkingBlock } from '../signatures.ts'
import { converted } from './converted.ts'

type Conversation = Pick<AssembledContext, 'history' | 'currentTurn' | 'currentMessage'>

/**
 * The conversation. Answers that failed are left out, as pi does, and the engine leaves out the results of their calls. What follows an answer
 * with calls is one turn with it, so that nothing is put between.
 */
function conversationOf(messages: readonly Message[]): Conversation {
  const sent = messages.filter(isSent)
  const last = sent.at(-1)
  if (last === undefined) throw new Error('the context has no message; add one of the user')
  if (last.role === 'assistant') {
    throw new Error("the context ends with the assistant's answer; add a message of the user")
  }
  const begin = turnOf(sent)
  const engine = converted(sent, engineMessage)
  const currentMessage = engine[engine.length - 1] as EngineMessage
  return {
    history: engine.slice(0, begin),
    ...(begin < engine.length - 1 && { currentTurn: engine.slice(begin, -1) }),
    currentMessage,
  }
}

function isSent(message: Message): boolean {
  if (message.role !== 'assistant') return message.role === 'user' || message.role === 'toolResult'
  return message.stopReason !== 'error' && message.stopReason !== 'aborted'
}

/** Where the turn under way begins: at the answer whose results come last, else at the last message. */
function turnOf(messages: readonly Message[]): number {
  const last = messages.length - 1
  let at = last
  while (at >= 0 && messages[at]?.role === 'user') at--
  if (messages[at]?.role !== 'toolResult') return last
  while (at >= 0 && messages[at]?.role !== 'assistant') at--
  return at < 0 ? last : at
}

function engineMessage(message: Message): EngineMessage {
  switch (message.role) {
    case 'user':
      return {
        role: 'user',
        content: typeof message.content === 'string' ? message.content : [...message.content],
        createdAt: message.timestamp,
      }
    case 'assistant':
      return answer(message)
    case 'toolResult':
      return result(message)
  }
}

function answer(message: AssistantMessage): EngineMessage {
  const { api, provider, model, timestamp } = message
  return {
    role: 'assistant',
    content: message.content.map((content) => blockOf(content, api)),
    createdAt: timestamp,
    provider,
    api: engineApiOf(api) ?? api,
    model,
  }
}

function blockOf(content: AssistantMessage['content'][number], api: string): Block {
  switch (content.type) {
    case 'text':
      return textBlock(content, api)
    case 'thinking':
      return thinkingBlock(content, api)
    case 'toolCall':
      return callBlock(content)
  }
}

/** Without `details`, which are the host's. */
function result(message: ToolResultMessage): EngineMessage {
  return {
    role: 'tool',
    toolCallId: callIdOf(message.toolCallId),
    toolName: message.toolName,
    content: [...message.content],
    isError: message.isError,
    createdAt: message.timestamp,
  }
}

export type { Conversation }
export { conversationOf }
