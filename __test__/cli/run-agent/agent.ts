// An agent of `runAgent` over a loopback server: a state directory of its own, and a config that calls the server. It must never read the
// developer's home directory.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  closeAgents,
  type RunAgentConfig,
  type RunAgentEvent,
  type RunAgentParams,
  runAgent,
} from '../../../run-agent.js'
import { afterwards, folder, serving } from '../../support/cleanup.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { type Handler, sse } from '../../support/servers/server.js'

/** A key of the grammar that MyClaw uses. */
export const KEY = 'agent:main:channel:test:account:default:peer:direct:user'

/** A scripted answer: a text, or calls of tools. */
export const says = (text: string, usage?: Parameters<typeof anthropic.answer>[1]): Handler =>
  sse(anthropic.answer(text, usage))
export const calls = (...list: Parameters<typeof anthropic.calls>): Handler =>
  sse(anthropic.calls(...list))

export async function agent(...answers: Handler[]) {
  const server = await serving(...answers)
  const state = join(folder().path, 'state')
  afterwards(closeAgents)
  const config: RunAgentConfig = {
    provider: {
      name: 'anthropic',
      model: 'claude-haiku-4-5',
      baseUrl: server.url,
      authProfiles: [{ id: 'primary', apiKey: 'canary-key-1' }],
    },
  }
  const workspace = join(state, 'workspace')
  const run = (userMessage: string, params: Partial<RunAgentParams> = {}) =>
    runAgent({ sessionKey: KEY, userMessage, config, stateDir: state, ...params })
  return {
    server,
    state,
    workspace,
    config,
    /** Writes a file of the workspace before the first run. */
    put(name: string, text: string) {
      mkdirSync(workspace, { recursive: true, mode: 0o700 })
      writeFileSync(join(workspace, name), text)
    },
    run,
    /** The same with `onEvent`; an event is copied as it was when it was delivered. */
    async stream(userMessage: string, params: Partial<RunAgentParams> = {}) {
      const events: RunAgentEvent[] = []
      const onEvent = (event: RunAgentEvent) => {
        events.push(structuredClone(event))
      }
      const result = await run(userMessage, { onEvent, ...params })
      return { result, events }
    },
    /** The texts of the messages that the server got with a request. */
    sent: (index: number): string[] =>
      server.seen[index]?.body.messages.map(
        ({ role, content }: { role: string; content: { type: string; text?: string }[] }) =>
          `${role}: ${content.map((part) => part.text ?? part.type).join(' | ')}`,
      ),
    /** The system prompt of a request. */
    system: (index: number): string =>
      server.seen[index]?.body.system.map(({ text }: { text: string }) => text).join('\n'),
  }
}
