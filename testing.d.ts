// The types of `@nexus/agent-engine/testing`: what a test of a host needs. Written by hand; `lib/testing` is checked against them.

import type {
  AgentResult,
  AgentRun,
  Block,
  FailureKind,
  Role,
  ScriptedCall,
  ScriptedError,
  ScriptedProvider,
  ScriptedReply,
  ScriptedRequest,
  ScriptedStep,
  ScriptedUsage,
  StreamEvent,
} from './index.js'

/** A part of a reply: visible text, a step, or a {@link Gate} at which the reply waits. */
export type TestStep = string | ScriptedStep | Gate

/** A reply of the model: a list of steps in their order, or a reply of the engine's own `scriptedProvider`. */
export type TestReply = readonly TestStep[] | ScriptedReply

/** A message as the model was sent it. */
export interface RequestMessage {
  readonly id: string
  readonly role: Role
  readonly blocks: readonly Block[]
  readonly sequence: number
  readonly createdAt: number
}

/** A request that the engine made. */
export interface TestRequest extends Omit<ScriptedRequest, 'messages'> {
  messages: RequestMessage[]
}

/** A provider that answers from a script, for `providers` of an engine. */
export interface TestProvider extends ScriptedProvider {
  readonly requests: readonly TestRequest[]
  /**
   * The request at `index`, from 0; a negative number counts from the end. Throws where there is none.
   *
   * @example
   * expect(transcript(model.request(-1).messages)).toEqual(['user: How warm is it?'])
   */
  request(index: number): TestRequest
  /**
   * Throws unless the engine made exactly one request for each reply, or with `repeat` at least one. A reply that fails counts,
   * and so does each retry.
   *
   * @example
   * afterEach(() => model.verify())
   */
  verify(): void
}

/**
 * A provider that answers each call of the model with the next reply. It takes the path of a real provider, without key or network.
 *
 * @example
 * const model = scriptedProvider([
 *   [reasoning('I have to look.'), toolCall('thermometer', { room: 'bath' })],
 *   [failure('overloaded')],
 *   'It is 21 degrees.',
 * ])
 * const engine = new AgentEngine({ providers: { test: model } })
 *
 * @throws {TypeError} where an entry of a list is neither a text, a step nor a gate.
 */
export declare function scriptedProvider(
  replies: readonly TestReply[],
  options?: { repeat?: boolean },
): TestProvider

/** A step: reasoning that is shown, with the provider's signature if there is one. */
export declare function reasoning(text: string, signature?: string): ScriptedStep

/**
 * A step: a call of a tool. Without an id the calls of a script are `call_1`, `call_2`, …
 *
 * @example
 * toolCall('order', { item: 'filter' }, { id: 'toolu_1' })
 * toolCall('order', undefined, { argumentsText: '{"item":' }) // what no JSON is
 */
export declare function toolCall(
  name: string,
  params?: unknown,
  options?: Pick<ScriptedCall, 'id' | 'argumentsText'>,
): ScriptedStep

/** A step: the token counts that the provider reports. Without one, the engine estimates. */
export declare function usage(tokens: ScriptedUsage): ScriptedStep

/**
 * A step: the call of the model fails here. Before the first token of its message, `overloaded`, `server_error`, `timeout` and
 * `network` are retried twice, after 1 ms each unless `retryAfterMs` is given: each retry consumes the next reply.
 *
 * @example
 * failure('rate_limit', { status: 429, retryAfterMs: 20_000 })
 */
export declare function failure(
  kind: FailureKind,
  details?: Omit<ScriptedError, 'kind'>,
): ScriptedStep

/** A step: the connection is lost before the end of the reply. */
export declare function disconnect(): ScriptedStep

/** Something that waits until the test opens it: a reply of the script, a tool, a hook. Once open it stays open. */
export interface Gate {
  /** Whoever waits continues, and nobody waits any more. */
  open(): void
  readonly isOpen: boolean
  /**
   * Waits until the gate is open. Rejects with the reason of the signal if that is aborted before.
   *
   * @example
   * const slow = tool({ name: 'slow', description: 'Waits.', run: (_, { signal }) => door.pass(signal) })
   */
  pass(signal?: AbortSignal): Promise<void>
  /** Resolves when the first `pass` waits. The wait of a reply does not count: the events of its run show it. */
  readonly reached: Promise<void>
}

/**
 * A gate, closed.
 *
 * @example
 * const door = gate()
 * const model = scriptedProvider([['It is ', door, 'eleven.']])
 * // … the run has delivered 'It is '
 * door.open()
 */
export declare function gate(): Gate

/** A run that was read to its end. */
export interface CollectedRun {
  events: StreamEvent[]
  result: AgentResult
  /** The text of all token events. */
  text: string
}

/**
 * Reads a run to its end.
 *
 * @example
 * const { events, result, text } = await collect(engine.run(context))
 */
export declare function collect(run: AgentRun): Promise<CollectedRun>

/** A message of a request, a result or a history. */
export interface TranscriptMessage {
  readonly role: Role
  readonly content?: string
  readonly blocks?: readonly Block[]
}

/**
 * Messages as lines, one for each block: `user: …`, `assistant: …`, `reasoning: …`, `call: name {"a":1}`, `result: …`, `error: …` (the
 * result of a tool that failed), `user: [image/png]`.
 *
 * @example
 * expect(transcript(result.messages)).toEqual([
 *   'user: How warm is it?',
 *   'call: thermometer {}',
 *   'result: 11',
 *   'assistant: Eleven degrees.',
 * ])
 */
export declare function transcript(messages: readonly TranscriptMessage[]): string[]

/** What {@link scrub} makes of a number: by the name of its field. */
export type ScrubbedNumber<Name> = Name extends
  | `${string}At`
  | `${string}_at`
  | 'from'
  | 'until'
  | 'timestamp'
  ? '<time>'
  : Name extends `${string}Ms` | `${string}_ms` | 'ms'
    ? '<ms>'
    : number

/** The type of what {@link scrub} returns. */
export type Scrubbed<Value, Name = ''> = Value extends number
  ? ScrubbedNumber<Name>
  : Value extends Date
    ? '<time>'
    : Value extends (...values: any[]) => unknown
      ? Value
      : Value extends object
        ? { [Key in keyof Value]: Scrubbed<Value[Key], Key> }
        : Value

/**
 * A copy of plain data (a result, events, messages, rows) in which what differs from run to run is replaced, so that snapshots compare:
 *
 * - ULIDs and UUIDs, also inside of longer texts, by `<turn-1>`, `<message-1>`, `<call-1>`, `<run-1>` or `<id-1>`, numbered in the order in
 *   which they appear. The same id is the same placeholder.
 * - numbers in fields that end in `At` or `_at`, in `from`, `until` and `timestamp`, and every `Date`, by `<time>`
 * - numbers in fields that end in `Ms` or `_ms`, and in `ms`, by `<ms>`
 *
 * @example
 * const { events, result } = await collect(engine.run(context))
 * expect(scrub({ events, result })).toMatchSnapshot()
 */
export declare function scrub<Value>(value: Value): Scrubbed<Value>
