// The scripted provider with the conveniences of a test: replies as lists, gates as objects, checks of the requests.
// It must never play a script itself: the engine's own scripted provider does.

import type { ScriptedReply, ScriptedStep } from '../../index.d.ts'
import { scriptedProvider as engineProvider } from '../../index.js'
import type { TestProvider, TestReply, TestRequest } from '../../testing.d.ts'
import { TestGate } from './gate.ts'

/** A provider that answers each call of the model with the next reply. */
function scriptedProvider(
  replies: readonly TestReply[],
  options: { repeat?: boolean } = {},
): TestProvider {
  const gates = new Set<TestGate>()
  const script = replies.map((reply, index) => readReply(reply, `script[${index}]`, gates))
  const provider = engineProvider(script, options)
  for (const gate of gates) gate.whenOpen(() => provider.open(gate.name))
  const requests = () => provider.requests as readonly TestRequest[]
  return Object.assign(provider, {
    request: (index: number) => requestAt(requests(), index),
    verify: () => verify(script.length, requests().length, options.repeat === true),
  }) as TestProvider
}

/** A reply in the form of the engine. */
function readReply(reply: TestReply, path: string, gates: Set<TestGate>): ScriptedReply {
  if (!Array.isArray(reply)) return reply as ScriptedReply
  const steps = reply.map((step, index): ScriptedStep => {
    if (typeof step === 'string') return { text: step }
    if (step instanceof TestGate) {
      gates.add(step)
      return { gate: step.name }
    }
    if (step === null || typeof step !== 'object' || Array.isArray(step)) {
      throw new TypeError(`\`${path}[${index}]\`: is neither a text, a step nor a gate`)
    }
    return step
  })
  return { steps }
}

function requestAt(requests: readonly TestRequest[], index: number): TestRequest {
  const request = requests.at(index)
  if (request === undefined) {
    throw new RangeError(
      `there is no request \`${index}\`: the engine made ${count(requests.length, 'request')}`,
    )
  }
  return request
}

function verify(replies: number, requests: number, repeat: boolean): void {
  if (requests === replies || (repeat && requests > replies)) return
  const what = `the script has ${count(replies, 'reply')} and the engine made ${count(requests, 'request')}`
  throw new Error(
    requests < replies
      ? `${what}: the first unused reply is script[${requests}]`
      : `${what}: the last ones failed with \`script_exhausted\``,
  )
}

function count(number: number, what: 'reply' | 'request'): string {
  const many = what === 'reply' ? 'replies' : 'requests'
  return `${number} ${number === 1 ? what : many}`
}

export { scriptedProvider }
