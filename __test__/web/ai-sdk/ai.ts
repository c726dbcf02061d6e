// The two supported versions of `ai`, and a chat as `useChat` holds it, without React. It must never read a chunk itself.

import * as seven from 'ai'
import * as six from 'ai-v6'

/** The versions, by name. Their types differ where nothing of this depends on it. */
export const versions: [name: string, ai: typeof seven][] = [
  ['ai 7', seven],
  ['ai 6', six as unknown as typeof seven],
]

/** The state of a chat: plain fields. */
class State {
  status: seven.ChatStatus = 'ready'
  error: Error | undefined
  messages: seven.UIMessage[] = []
  pushMessage = (message: seven.UIMessage) => {
    this.messages = [...this.messages, structuredClone(message)]
    this.changed()
  }
  popMessage = () => {
    this.messages = this.messages.slice(0, -1)
  }
  replaceMessage = (index: number, message: seven.UIMessage) => {
    this.messages = this.messages.with(index, structuredClone(message))
    this.changed()
  }
  snapshot = <T>(thing: T): T => structuredClone(thing)
  #waiting = new Set<() => void>()

  changed(): void {
    for (const look of this.#waiting) look()
  }

  /** Resolves when the text of the last message ends so. */
  until(end: string): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!textOf(this.messages.at(-1)).endsWith(end)) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }
}

/** The text parts of a message. */
export function textOf(message: seven.UIMessage | undefined): string {
  const parts = message?.parts ?? []
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
}

/** A chat with the real transport against the server at `url`. */
export function chatOf(
  ai: typeof seven,
  url: string,
  options: Omit<seven.ChatInit<seven.UIMessage>, 'messages' | 'transport'> = {},
  transport: seven.HttpChatTransportInitOptions<seven.UIMessage> = {},
) {
  class Chat extends ai.AbstractChat<seven.UIMessage> {}
  const state = new State()
  const chat = new Chat({
    id: 'chat-1',
    ...options,
    state,
    transport: new ai.DefaultChatTransport({ api: url, ...transport }),
  })
  return { chat, state }
}
