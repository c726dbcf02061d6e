// Messages that wait for a run. It must never lose one.

import type { AgentMessage, QueueMode } from '../../pi-agent.d.ts'

class MessageQueue {
  mode: QueueMode
  #messages: AgentMessage[] = []

  constructor(mode: QueueMode) {
    this.mode = mode
  }

  get isEmpty(): boolean {
    return this.#messages.length === 0
  }

  push(message: AgentMessage): void {
    this.#messages.push(message)
  }

  /** Takes the first message, or all of them, by the mode. */
  take(): AgentMessage[] {
    return this.#messages.splice(0, this.mode === 'all' ? this.#messages.length : 1)
  }

  clear(): void {
    this.#messages = []
  }
}

export { MessageQueue }
