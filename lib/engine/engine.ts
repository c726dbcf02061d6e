// The public class `AgentEngine`: reads the options, starts runs, closes once.
// It must never pass a wrong option or context to the native side.

import type { KnownHistory, NativeEngine } from '../../binding.d.ts'
import type {
  AgentEngineCallbacks,
  AgentEngineOptions,
  AgentMemory,
  AgentResult,
  Approval,
  ApprovalFilter,
  ApproveOptions,
  AssembledContext,
  AttachOptions,
  BudgetState,
  CallOptions,
  CloseOptions,
  CompactionResult,
  CompactOptions,
  CoreStreamEvent,
  CountOptions,
  AgentEngine as Declared,
  AgentRun as DeclaredRun,
  DenyOptions,
  EngineCapabilities,
  InterruptedTurn,
  LimitState,
  McpServers,
  Message,
  ModelFilter,
  ModelInfo,
  OnRequest,
  Page,
  ProfileState,
  ProvideOptions,
  RecoveredTurn,
  ResumeOptions,
  RunFilter,
  RunInfo,
  RunOptions,
  StreamEvent,
  TokenCount,
} from '../../index.d.ts'
import { Ledger } from '../ledger/ledger.ts'
import { embedTexts } from '../memory/embedder.ts'
import { memoryOf } from '../memory/memory.ts'
import { abortable, abortableRequest, signalOf } from '../native/abortable.ts'
import * as addon from '../native/addon.ts'
import * as hub from '../native/hub.ts'
import { callRequestHook, requestWithHook } from '../native/request-hook.ts'
import { attachment } from '../run/attachment.ts'
import {
  contextJson,
  noteProblems,
  type ReadContext,
  readCallbacks,
  readContext,
} from '../run/context.ts'
import { GROUPS } from '../run/event-groups.ts'
import { abortSession, attach, steerSession } from '../run/follow.ts'
import { GivenHistories } from '../run/given-histories.ts'
import type { OwnHooks } from '../run/hooks.ts'
import { AgentRun } from '../run/run.ts'
import {
  ABORTED,
  CHECKS_OUTPUT,
  DECIDES,
  HOOKED,
  PHASES,
  PREPARES,
  REPLACES,
  SKIPPED_SHIFT,
  STOPS,
  TIMED_OUT,
} from '../run/run-flags.ts'
import { type OfEngine, type RunInput, readInput } from '../run/run-input.ts'
import { SMALLEST } from '../run/smallest-context.ts'
import { offers } from '../tools/coding/native.ts'
import { AgentEngineError, guarded, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { listed, listing, noted, type Problems } from '../values/problems.ts'
import { type Fields, readFields, readName } from '../values/reader.ts'
import { readSignal } from '../values/signals.ts'
import * as approvals from './approvals.ts'
import { answerServer } from './client-functions.ts'
import { readClosing } from './closing.ts'
import { compact } from './compaction.ts'
import { requestKey } from './key-functions.ts'
import { mcpServers } from './mcp-servers.ts'
import { noteOptionProblems, readOptions } from './options.ts'
import { PREPARE, type PreparedRun, type Preparing } from './prepared.ts'
import { readResumption, recoverAtOpen, resumedPlanner } from './recovery.ts'
import { resultOf, runInfo, runs } from './runs.ts'
import { ScriptedProvider } from './scripted-provider.ts'

/** Starts native run `number` with a context; null where the beginning of its history is not known any more. */
type Start = (
  number: number,
  json: string,
  known: KnownHistory | undefined,
  flags: number,
) => number | null

/** The parts of an engine that a broker uses. */
interface EngineParts {
  native: NativeEngine
  /** Absent for an engine without one. */
  memory: AgentMemory | undefined
  defaults: Readonly<Fields>
  /** Begins a run of a context that was read. */
  begin(context: Fields, start: Start): AgentRun
}
let partsOf: (engine: AgentEngine) => EngineParts

class AgentEngine implements Declared, Preparing {
  static {
    partsOf = (engine) => ({
      native: engine.#native,
      memory: engine.#memory,
      defaults: engine.#defaults,
      begin: (context, start) => engine.#begin(context, {}, start),
    })
  }

  #native: NativeEngine
  #given = new GivenHistories((number) => this.#native.forgetHistory(number))
  #onRequest: OnRequest | undefined
  /** The hooks of runs whose context has none of that name. */
  #hooks: OwnHooks | undefined
  /** The groups of events that are left out, where a context does not decide. */
  #skipped: number
  #closing: Promise<void> | undefined
  /** The runs that have not ended. */
  #runs = new Set<AgentRun>()
  #ended = (run: AgentRun): void => void this.#runs.delete(run)
  #ledger: Ledger | undefined
  #memory: AgentMemory | undefined
  /** Its MCP servers. */
  readonly mcp: McpServers
  #defaults: Readonly<Fields>
  /** What it adds to contexts. */
  #ofContexts: OfEngine
  // Not made in the constructor: what is made there keeps the options, with their keys, as long as the engine.
  #newId = (): string => this.#native.newId()
  /** The number that identifies the key functions for the native side; 0 where no key is a function. */
  #keys = 0
  /** The number of the `onRequest` for the requests of its memory. */
  #memoryHook: number | undefined
  readonly recovered: Promise<RecoveredTurn[]>
  /** Added below, where the runtime has the symbol. */
  declare [Symbol.asyncDispose]: () => Promise<void>

  constructor(options: AgentEngineOptions = {}) {
    const checked = <Value>(call: () => Value) =>
      listing(call, (problems) => noteOptionProblems(options, problems))
    const read = checked(() => readOptions(options))
    const { json, functions, onRequest, hooks, skipped, providers, recovery, defaults } = read
    const { embed } = read
    this.#onRequest = onRequest
    this.#skipped = skipped
    this.#hooks = hooks
    this.#defaults = defaults
    this.#ofContexts = { defaults, newId: this.#newId, toolsets: read.toolsets }
    if (functions.size > 0 || embed !== undefined) {
      this.#keys = hub.addKeySource(
        (number, index, refused, ask) => {
          const held = functions.get(index)
          if (held === undefined) return
          if ('answer' in held) {
            if (ask === undefined) return
            answerServer(held, ask).then(({ result, error }) =>
              this.#native.answerClient(number, result, error),
            )
            return
          }
          requestKey(held, refused).then(({ key, expiresAt, error }) =>
            this.#native.answerKey(number, key, expiresAt, error),
          )
        },
        embed &&
          ((number, texts, isQuery) => {
            embedTexts(embed, texts, isQuery).then(({ bytes, lengths, error }) =>
              this.#native.answerEmbedding(number, bytes, lengths, error),
            )
          }),
      )
    }
    if (read.hasMemory && onRequest !== undefined) {
      this.#memoryHook = hub.addEngineHook((number, request) => {
        callRequestHook(onRequest, request).then(({ body, error }) =>
          this.#native.answerLook(number, body, error),
        )
      })
    }
    try {
      const { NativeEngine } = addon
      this.#native = checked(() =>
        guarded(() => new NativeEngine(hub.nativeHub(), json, this.#keys, this.#memoryHook)),
      )
    } catch (error) {
      hub.removeKeySource(this.#keys)
      if (this.#memoryHook !== undefined) hub.removeHook(this.#memoryHook)
      throw error
    }
    for (const [name, provider] of Object.entries(providers)) {
      if (ScriptedProvider.is(provider)) provider.attach(this.#native, name)
    }
    this.mcp = mcpServers(this.#native)
    if (recovery.ledger) this.#ledger = new Ledger(this.#native)
    if (read.hasMemory) this.#memory = memoryOf(this.#native)
    this.recovered = recoverAtOpen(this, recovery)
    // It need not be awaited: failures are in its list, and a ledger that cannot be read fails the next call.
    this.recovered.catch(() => {})
  }

  get ledger(): Ledger {
    if (this.#ledger === undefined) {
      throw new AgentEngineError(
        'no_ledger',
        'the engine has no ledger; pass `ledger: { path }`',
        'ledger',
      )
    }
    return this.#ledger
  }

  get memory(): AgentMemory {
    if (this.#memory === undefined) {
      throw new AgentEngineError(
        'no_memory',
        'the engine has no memory; pass `memory: true`',
        'memory',
      )
    }
    return this.#memory
  }

  run(
    message: string | Message,
    options: RunOptions & { events: 'core' },
  ): DeclaredRun<CoreStreamEvent>
  run(message: string | Message, options?: RunOptions): AgentRun
  run(
    context: AssembledContext & { events: 'core' },
    callbacks?: AgentEngineCallbacks,
  ): DeclaredRun<CoreStreamEvent>
  run(context: AssembledContext, callbacks?: AgentEngineCallbacks): AgentRun
  run(
    input: string | Message | AssembledContext,
    second?: RunOptions | AgentEngineCallbacks,
  ): AgentRun | DeclaredRun<CoreStreamEvent> {
    const start: Start = (number, json, known, flags) =>
      this.#native.run(number, json, known, flags)
    return listing(
      () => {
        const { context, callbacks } = this.#input(input, second)
        return this.#begin(context, readCallbacks(callbacks), start)
      },
      (problems) => this.#noteProblems(input, second, problems),
    )
  }

  /** @internal See `prepared.ts`. */
  [PREPARE](options: RunOptions): PreparedRun {
    const { context } = this.#input('', options)
    const read = readContext(context)
    const { sessionLabel } = context
    // Each run has its own.
    for (const name of ['currentMessage', 'sessionLabel', 'runId']) context[name] = undefined
    const shared = contextJson(context)
    const start: Start = (number, json, known, flags) =>
      this.#native.run(number, json, known, flags)
    return ({ history, currentTurn, currentMessage, signal: given, onRequest }) => {
      const runId = this.#native.newId()
      const fields: Fields = { sessionLabel, runId, history, currentTurn, currentMessage }
      const signal = readSignal(given, 'abortSignal', 'invalid_context')
      return this.#started({ ...read, fields, signal, onRequest }, {}, start, shared)
    }
  }

  #input(first: unknown, second: unknown): RunInput {
    return readInput(first, second, this.#ofContexts)
  }

  #noteProblems(first: unknown, second: unknown, problems: Problems): void {
    const { context, callbacks } = readInput(first, second, this.#ofContexts, problems.note)
    noted(problems.note, () => readCallbacks(callbacks, problems.note))
    noteProblems(context, problems, (json) => this.#native.contextProblems(json))
  }

  #begin(
    context: Fields,
    callbacks: AgentEngineCallbacks,
    start: Start,
    drain?: () => void,
  ): AgentRun {
    return this.#started(readContext(context), callbacks, start, undefined, drain)
  }

  /** Begins a run; `shared` is the JSON of the fields that `fields` leaves out. */
  #started(
    {
      fields,
      tools,
      signal,
      onRequest = this.#onRequest,
      hooks: own,
      skipped = this.#skipped,
      attaches,
      output,
    }: ReadContext,
    callbacks: AgentEngineCallbacks,
    start: Start,
    shared?: string,
    drain?: () => void,
  ): AgentRun {
    const hooks = own === undefined ? this.#hooks : { ...this.#hooks, ...own }
    const crossing = this.#given.prepare(fields, shared)
    const run = new AgentRun({
      // One that is no text is refused when the run begins.
      id: fields.runId as string,
      tools,
      callbacks,
      detached: fields.detached === true,
      coalesce: fields.coalesce !== false,
      signal,
      onRequest,
      hooks,
      skipped,
      output,
      attachment: attaches
        ? () => attachment(this.#native, fields.runId as string, skipped)
        : undefined,
      onEnd: this.#ended,
    })
    const listened = callbacks.onAgentEvent === undefined ? 0 : PHASES
    const hooked = onRequest === undefined ? 0 : HOOKED
    const decides = hooks?.beforeToolCall === undefined ? 0 : DECIDES
    const stops = hooks?.stopWhen === undefined ? 0 : STOPS
    const prepares = hooks?.prepareStep === undefined ? 0 : PREPARES
    const checked = output?.check === undefined ? 0 : CHECKS_OUTPUT
    const replaces = hooks?.afterToolCall === undefined ? 0 : REPLACES
    const asked = decides | stops | prepares | checked | replaces
    const always = hooked | listened | asked | (skipped << SKIPPED_SHIFT)
    // Where results may be replaced, they come to JavaScript anyway.
    const coding = hooks?.afterToolCall === undefined ? offers(tools) : undefined
    const updates = callbacks.onToolUpdate !== undefined || (skipped & GROUPS.toolProgress) === 0
    const native = (number: number, aborted: boolean, timedOut: boolean) => {
      const all = always | (aborted ? ABORTED : 0) | (timedOut ? TIMED_OUT : 0)
      return crossing((json, known) => {
        for (const [workspace, names] of coding ?? []) {
          workspace.offer(hub.nativeHub(), number, JSON.stringify(names), updates)
        }
        return guarded(() => start(number, json, known, all))
      })
    }
    run.begin(native, drain)
    this.#runs.add(run)
    return run
  }

  models(filter: ModelFilter = {}): ModelInfo[] {
    const fields = readFields(filter, 'filter', 'invalid_options', 'filter.')
    const json = toJson(fields, 'filter', () => 'invalid_options')
    return JSON.parse(guarded(() => this.#native.models(json)))
  }

  capabilities(): EngineCapabilities {
    return JSON.parse(guarded(() => this.#native.capabilities()))
  }

  budgets(): BudgetState[] {
    return JSON.parse(guarded(() => this.#native.budgets()))
  }

  limits(): LimitState[] {
    return JSON.parse(guarded(() => this.#native.limits()))
  }

  async countTokens(
    input: string | Message | AssembledContext,
    options: CountOptions = {},
  ): Promise<TokenCount> {
    const { exact = false, ...others } = readFields(options, 'options', 'invalid_options')
    const signal = others.signal ?? others.abortSignal
    if (typeof exact !== 'boolean') {
      throw refusal('invalid_options', 'exact', 'is not true or false')
    }
    try {
      const { context } = this.#input(input, others)
      const { fields, onRequest = this.#onRequest } = readContext(context)
      const crossing = this.#given.prepare(fields)
      const counting = () =>
        requestWithHook<TokenCount>(this.#native, onRequest, (id, hooked) =>
          crossing((json, known) => this.#native.countTokens(id, json, known, exact, hooked)),
        )
      return await abortable(signal, counting)
    } catch (error) {
      throw listed(error, (problems) => this.#noteProblems(input, others, problems))
    }
  }

  /** Compacts a session between its turns; see `compaction.ts`. */
  async compact(label: string, options: CompactOptions = {}): Promise<CompactionResult | null> {
    return compact(this.#native, label, options, this.#onRequest)
  }

  /** The state of the auth profiles. */
  async profiles(options: CallOptions = {}): Promise<ProfileState[]> {
    return abortableRequest(signalOf(options), (id) => this.#native.profiles(id))
  }

  /** Clears the failures of an auth profile. */
  async resetProfile(profileId: string, options: CallOptions = {}): Promise<void> {
    readName(profileId, 'id', 'unknown_profile')
    await abortableRequest(signalOf(options), (id) => this.#native.resetProfile(id, profileId))
  }

  /** The turns that a crash has interrupted. */
  async recover(options: CallOptions = {}): Promise<InterruptedTurn[]> {
    return abortableRequest(signalOf(options), (id) => this.#native.recover(id))
  }

  /** Resumes an interrupted turn. A promise, because its context is loaded from the ledger first. */
  async resume(turnId: string, options: ResumeOptions = {}): Promise<AgentRun> {
    let persisted: Fields = { ...SMALLEST }
    try {
      const { callbacks, fields } = readResumption(turnId, options)
      persisted = await hub.request<Fields>((id) => this.#native.interruptedContext(id, turnId))
      const lastEvent = await hub.request<number>((id) => this.#native.lastEvent(id, turnId))
      const from = { turn: turnId, lastEvent }
      const start: Start = (number, json, known, flags) =>
        this.#native.resume(number, from, json, known, flags)
      const { toolsets } = this.#ofContexts
      const tools = options.tools === undefined ? toolsets?.ofResumed(persisted) : undefined
      const planner = resumedPlanner(persisted.planner, this.#hooks?.plan)
      const context: Fields = { ...persisted, planner, ...fields }
      if (tools !== undefined) context.tools = tools
      return this.#begin(context, callbacks, start, hub.drainLater)
    } catch (error) {
      throw listed(error, (problems) => {
        const { fields } = readResumption(turnId, options, problems.note)
        // Only what the options say: the turn began with the rest of its context.
        const check = (json: string) => addon.NativeEngine.fieldProblems(json)
        noteProblems({ ...persisted, ...fields }, problems, check)
      })
    }
  }

  /** Closes an interrupted turn as failed. Its messages stay in the ledger. */
  async discard(turnId: string, options: CallOptions = {}): Promise<void> {
    readName(turnId, 'turnId', 'invalid_context')
    await abortableRequest(signalOf(options), (id) => this.#native.discard(id, turnId))
  }

  /** The calls that wait for a decision, or have one. */
  async approvals(filter: ApprovalFilter & CallOptions = {}): Promise<Page<Approval>> {
    return approvals.list(this.#native, filter)
  }

  async approve(approvalId: string, options?: ApproveOptions & CallOptions): Promise<Approval> {
    return approvals.approve(this.#native, approvalId, options)
  }

  async deny(approvalId: string, options?: DenyOptions & CallOptions): Promise<Approval> {
    return approvals.deny(this.#native, approvalId, options)
  }

  async provideToolResult(
    callId: string,
    value: unknown,
    options?: ProvideOptions & CallOptions,
  ): Promise<Approval> {
    return approvals.provide(this.#native, callId, value, options)
  }

  /** The events of a run, of this process or another, after one of them; see `../run/follow.ts`. */
  attach(runId: string, options: AttachOptions = {}): AsyncIterableIterator<StreamEvent> {
    return attach(this.#native, runId, options, this.#skipped)
  }

  /** The runs in the ledger; see `runs.ts`. */
  async runs(filter: RunFilter & CallOptions = {}): Promise<Page<RunInfo>> {
    return runs(this.#native, filter)
  }

  async runInfo(runId: string, options: CallOptions = {}): Promise<RunInfo | null> {
    return runInfo(this.#native, runId, options)
  }

  /** The result of a run, of this process or another, when it has ended. */
  async resultOf(runId: string, options: CallOptions = {}): Promise<AgentResult> {
    return resultOf(this.#native, this.#runs, runId, options)
  }

  /** Aborts the run that is under way in a session, in any process. */
  async abortSession(label: string, options: CallOptions = {}): Promise<void> {
    return abortSession(this.#native, label, signalOf(options))
  }

  /** Sends a message to the run that is under way in a session, in any process. */
  async steerSession(label: string, text: string, options: CallOptions = {}): Promise<boolean> {
    return steerSession(this.#native, label, text, signalOf(options))
  }

  /** Aborts all runs of this engine, and resolves when they have ended. */
  async abortAll(options: CallOptions = {}): Promise<void> {
    const signal = signalOf(options)
    const runs = [...this.#runs]
    for (const run of runs) run.abort()
    await abortable(signal, () => Promise.allSettled(runs.map(({ result }) => result)))
  }

  close(options: CloseOptions = {}): Promise<void> {
    const { abort, graceMs } = readClosing(options)
    this.#given.clear()
    this.#closing ??= hub
      .request<void>((id) => this.#native.close(id))
      .finally(() => {
        hub.removeKeySource(this.#keys)
        if (this.#memoryHook !== undefined) hub.removeHook(this.#memoryHook)
      })
    if (abort) void this.abortAll()
    if (graceMs === undefined) return this.#closing
    const timer = setTimeout(() => void this.abortAll(), graceMs)
    return this.#closing.finally(() => clearTimeout(timer))
  }
}

// `await using engine = …` where the runtime has it.
if (Symbol.asyncDispose !== undefined) {
  const dispose = function (this: AgentEngine): Promise<void> {
    return this.close()
  }
  Object.assign(AgentEngine.prototype, { [Symbol.asyncDispose]: dispose })
}

/** The parts of an engine for a broker; undefined for what is no engine. */
function enginePartsOf(engine: unknown): EngineParts | undefined {
  return engine instanceof AgentEngine ? partsOf(engine) : undefined
}

export type { EngineParts, Start }
export { AgentEngine, enginePartsOf }
