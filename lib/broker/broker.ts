// The public class `Broker`: messages in, receipts and runs out. The native side drives the queues; this side knows agents, tools
// and listeners. It must never hold a message that is not stored.

import type { NativeBroker } from '../../binding.d.ts'
import type {
  AgentResult,
  AgentRun,
  Approval,
  ApprovalFilter,
  ApproveOptions,
  AssembledContext,
  BrokerEvents,
  BrokerExecution,
  BrokerOptions,
  CallOptions,
  Broker as Declared,
  AgentEngine as DeclaredEngine,
  Delivery,
  DeliveryListOptions,
  DenyOptions,
  Dispatch,
  MessageExecution,
  NexusRequest,
  Page,
  QueuedMessage,
  RoutingTarget,
  Schedule,
  ScheduleOptions,
  SendReceipt,
  SessionEvent,
  StoredDelivery,
  SubscribeOptions,
} from '../../index.d.ts'
import { type AgentEngine, type EngineParts, enginePartsOf } from '../engine/engine.ts'
import * as addon from '../native/addon.ts'
import * as hub from '../native/hub.ts'
import { AgentEngineError, guarded, messageOf, refusal } from '../values/errors.ts'
import { readFields, readId, readName } from '../values/reader.ts'
import { AgentStore } from './agents/store.ts'
import { Approvals } from './approvals.ts'
import { sessionScope } from './decisions.ts'
import { Deliveries } from './deliveries.ts'
import { Execution } from './execution.ts'
import { type ReadOptions, readBrokerOptions } from './options.ts'
import { type ReadRequest, readRequest } from './requests.ts'
import { type Routed, route, smartRoute } from './routes.ts'
import { Schedules, type StoredSchedule } from './schedules/schedules.ts'
import { subscribe } from './subscription.ts'
import { type BegunTurn, type StartTurn, type TaskLimits, type TurnItem, Turns } from './turns.ts'

/** What the native side emits. */
type NativeEvent =
  | ({ type: 'start' } & StartTurn)
  | ({ type: 'resume'; turnId: string; sessionLabel: string } & TaskLimits)
  | { type: 'compose'; turnId: string; sessionLabel: string; items: TurnItem[] }
  | { type: 'steered'; turnId: string; items: string[] }
  | { type: 'approvals'; turnId: string; sessionLabel: string }
  | { type: 'ended'; turnId: string; items: TurnItem[] }
  | { type: 'failed'; items: TurnItem[] }
  | { type: 'deliver'; delivery: StoredDelivery }
  | { type: 'parked'; delivery: StoredDelivery }
  | { type: 'due'; schedules: StoredSchedule[] }
  | { type: 'abortParked'; sessionLabel: string }
  | { type: 'error'; code: AgentEngineError['code']; message: string }

/** The events that any number of listeners get: a delivery has one. */
type Emitted = Omit<BrokerEvents, 'delivery'>
type Listeners = { [Name in keyof Emitted]: Set<(event: Emitted[Name]) => void> }

/** A run that has not ended. */
interface Running {
  run: AgentRun
  about: { sessionLabel: string; agentId: string; turnId: string }
  /** The state of its session where it was begun past the queue. Of a turn of the queue the native side has it. */
  direct: SessionState | undefined
  /** Whether the session's states are emitted, and whether its usage is. */
  isWatched: boolean
  isCounted: boolean
}

type SessionState = BrokerEvents['session']['state']

class Broker implements Declared {
  #engine: AgentEngine
  #parts: EngineParts
  #options: ReadOptions
  #agents: AgentStore
  #turns: Turns
  #deliveries: Deliveries
  #schedules: Schedules
  #approvals: Approvals
  #native: NativeBroker
  #number: number
  /** The messages that are followed, by id. */
  #executions = new Map<string, Execution>()
  /** The runs that have not ended, by turn. */
  #runs = new Map<string, Running>()
  /** The messages that are composed for running turns, by turn: they enter in their order. */
  #composing = new Map<string, Promise<void>>()
  /** The turns that this process has tried to resume. */
  #resumed = new Set<string>()
  #listeners: Listeners = {
    run: new Set(),
    queue: new Set(),
    deliveryParked: new Set(),
    session: new Set(),
    usage: new Set(),
    approval: new Set(),
    error: new Set(),
  }
  #closing: Promise<void> | undefined

  constructor(engine: DeclaredEngine, options: BrokerOptions) {
    const parts = enginePartsOf(engine)
    if (parts === undefined) throw refusal('invalid_options', 'engine', 'is not an AgentEngine')
    this.#engine = engine as AgentEngine
    this.#parts = parts
    const { defaults, native: engineNative } = parts
    const providers = engineNative.providerNames()
    this.#options = readBrokerOptions(options, { defaults, providers })
    this.#deliveries = new Deliveries(
      this.#engine,
      () => this.#native,
      this.#options.deliveryMs,
      (error) => this.#emit('error', error),
    )
    this.#schedules = new Schedules(
      this.#options,
      () => this.#native,
      () => parts.native.newId(),
    )
    this.#approvals = new Approvals(this.#engine, (event) => this.#emit('approval', event))
    this.#agents = new AgentStore(() => this.#native)
    this.#turns = new Turns(this.#engine, parts, this.#options, this.#agents)
    this.#number = hub.addBroker((event) => this.#receive(event as NativeEvent))
    try {
      const { native } = this.#options
      this.#native = guarded(() => new addon.NativeBroker(parts.native, native, this.#number))
    } catch (error) {
      hub.removeBroker(this.#number)
      throw error
    }
  }

  async send(request: NexusRequest): Promise<SendReceipt> {
    return this.#send(readRequest(request, this.#options, true), this.#parts.native.newId())
  }

  async #send(request: ReadRequest, id: string): Promise<SendReceipt> {
    this.#refuseClosed()
    const routed = await smartRoute(this.#engine, this.#options, request)
    const row = request.row(id, routed)
    const receipt = await hub.request<SendReceipt>((number) => this.#native.send(number, row))
    const { smartFallback } = routed
    return smartFallback === undefined ? receipt : { ...receipt, smartFallback }
  }

  execute(request: NexusRequest): MessageExecution {
    const read = readRequest(request, this.#options, false)
    const id = this.#parts.native.newId()
    // Registered first: the message's turn may begin before its receipt is here.
    const receipt = Promise.resolve().then(() => this.#send(read, id))
    const execution = new Execution(receipt, () => this.#cancelFollowed(id))
    this.#executions.set(id, execution)
    // Until the message has ended, its process does not: it may wait for another try.
    hub.holdProcess()
    const ended = () => {
      this.#executions.delete(id)
      hub.releaseProcess()
    }
    execution.result.then(ended, ended)
    receipt.then(
      ({ disposition }) => {
        if (disposition === 'duplicate' || disposition === 'rejected') execution.fail(disposition)
      },
      () => {},
    )
    return execution
  }

  async assembleContext(request: NexusRequest): Promise<AssembledContext> {
    const read = readRequest(request, this.#options, false)
    const routed = await smartRoute(this.#engine, this.#options, read)
    const label = routed.sessionLabel ?? (await this.#sessionOf(routed))
    const turnId = this.#parts.native.newId()
    const stored = { ...read.stored, eventId: read.eventId }
    const { context } = await this.#turns.context(label, turnId, read.message, stored)
    if (routed.thread !== undefined) context.parentTurnId = routed.thread
    return context as unknown as AssembledContext
  }

  /** The session of a thread: that of its turn. */
  async #sessionOf({ thread = '' }: Routed): Promise<string> {
    const turn = await this.#engine.ledger.turn(thread)
    if (turn === null) throw refusal('unknown_turn', 'to.thread', 'is no turn of the ledger')
    return turn.sessionLabel
  }

  runAgent(assembled: AssembledContext): BrokerExecution {
    return this.#runDirectly(assembled)
  }

  startBrokerExecution(
    assembled: AssembledContext,
    options: { sessionKey?: string; sessionLabel?: string } = {},
  ): BrokerExecution {
    const { sessionKey, sessionLabel = sessionKey } = readFields(
      options,
      'options',
      'invalid_options',
    )
    if (sessionLabel === undefined) return this.#runDirectly(assembled)
    return this.#runDirectly({ ...assembled, sessionLabel: sessionLabel as string })
  }

  /** Runs a context past the queue. Listeners have the run as one of the queue, from the first event of its turn on. */
  #runDirectly(context: AssembledContext): BrokerExecution {
    this.#refuseClosed()
    const run = this.#engine.run(context)
    const { sessionLabel = `run:${run.id}` } = context
    const { agentId } = sessionScope(this.#options.routes, sessionLabel)
    const leave = run.stream.onEvent(() => {
      const { turnId } = run
      // It waits for its session.
      if (turnId === undefined) return
      leave()
      this.#begun(turnId, sessionLabel, [], { run: run as never, agentId }, 'running')
      const ended = () => {
        const about = this.#runs.get(turnId)?.about
        this.#runs.delete(turnId)
        if (about !== undefined) this.#emit('session', { ...about, state: 'idle' })
      }
      run.result.then(ended, ended)
    })
    return run
  }

  route(target: RoutingTarget): { thread?: string; sessionLabel?: string; agentId?: string } {
    const { smart, ...given } = readFields(target, 'to', 'invalid_target', 'to.') as RoutingTarget
    return route(this.#options, given)
  }

  state(label: string): SessionState {
    const queued = this.#native.state(readLabel(label)) as SessionState
    if (queued !== 'idle') return queued
    for (const { about, direct } of this.#runs.values()) {
      if (direct !== undefined && about.sessionLabel === label) return direct
    }
    return 'idle'
  }

  async queue(label: string): Promise<QueuedMessage[]> {
    const named = readLabel(label)
    const items = await hub.request<TurnItem[]>((id) => this.#native.queue(id, named))
    return items.map(publicItem)
  }

  async cancel(itemId: string): Promise<boolean> {
    readId(itemId, 'itemId', 'invalid_options')
    return hub.request((id) => this.#native.cancel(id, itemId))
  }

  async dispatch(id: string): Promise<Dispatch | null> {
    return this.#agents.dispatch(readId(id, 'id', 'invalid_options'))
  }

  async dispatches(label: string): Promise<Dispatch[]> {
    return this.#agents.madeBy(readId(label, 'label', 'invalid_options'))
  }

  async cancelDispatch(id: string): Promise<Dispatch | null> {
    return this.#agents.cancel(readId(id, 'id', 'invalid_options'))
  }

  #cancelFollowed(itemId: string): void {
    this.cancel(itemId).catch((error) => this.#emit('error', error))
  }

  async abort(label: string, options: { queue?: 'keep' | 'clear' } = {}): Promise<void> {
    readLabel(label)
    const { queue = 'keep' } = readFields(options, 'options', 'invalid_options')
    if (queue !== 'keep' && queue !== 'clear') {
      throw refusal('invalid_options', 'queue', 'is not one of keep, clear')
    }
    // First, or the next message would begin.
    if (queue === 'clear') await hub.request<void>((id) => this.#native.clear(id, label))
    if (!this.#native.abort(label)) await this.#abortSession(label)
  }

  /** Aborts the turn of a session that this broker does not run. */
  async #abortSession(label: string): Promise<void> {
    try {
      await this.#engine.abortSession(label)
    } catch (error) {
      // A session that does nothing is as it was to be.
      if ((error as AgentEngineError).code !== 'not_running') throw error
    }
  }

  async suspendQueue(label: string): Promise<void> {
    const named = readLabel(label)
    return hub.request((id) => this.#native.suspend(id, named, true))
  }

  async resumeQueue(label: string): Promise<void> {
    const named = readLabel(label)
    return hub.request((id) => this.#native.suspend(id, named, false))
  }

  async fork(
    turnId: string,
    message?: string | NexusRequest['message'],
  ): Promise<{ sessionLabel: string; receipt: SendReceipt | null }> {
    this.#refuseClosed()
    const requestOf = (session: string) => ({ to: { session }, message }) as NexusRequest
    // A message that is refused makes no fork.
    if (message !== undefined) readRequest(requestOf('fork'), this.#options, true)
    const { label: sessionLabel } = await this.#engine.ledger.fork(turnId)
    const receipt = message === undefined ? null : await this.send(requestOf(sessionLabel))
    return { sessionLabel, receipt }
  }

  approvals(filter?: ApprovalFilter & CallOptions): Promise<Page<Approval>> {
    return this.#engine.approvals(filter)
  }

  approve(approvalId: string, options?: ApproveOptions & CallOptions): Promise<Approval> {
    return this.#engine.approve(approvalId, options)
  }

  deny(approvalId: string, options?: string | (DenyOptions & CallOptions)): Promise<Approval> {
    const given = typeof options === 'string' ? { reason: options } : options
    return this.#engine.deny(approvalId, given)
  }

  subscribe(label: string, options?: SubscribeOptions): AsyncIterableIterator<SessionEvent> {
    return subscribe(this.#engine, label, options)
  }

  on<Name extends keyof BrokerEvents>(
    name: Name,
    listener: (event: BrokerEvents[Name]) => void,
  ): () => void {
    if (name !== 'delivery' && !Object.hasOwn(this.#listeners, name)) {
      const names = [...Object.keys(this.#listeners), 'delivery'].join(', ')
      throw refusal('invalid_options', 'name', `is not one of ${names}`)
    }
    if (typeof listener !== 'function') {
      throw refusal('invalid_options', 'listener', 'is not a function')
    }
    if (name === 'delivery') return this.#deliveries.listen(listener as (it: Delivery) => void)
    const listeners: Set<unknown> = this.#listeners[name as keyof Emitted]
    listeners.add(listener)
    // After the caller has the function that removes its listener.
    if (name === 'session') queueMicrotask(() => this.#runs.forEach(this.#watch, this))
    if (name === 'usage') this.#runs.forEach(this.#countUsage, this)
    return () => void listeners.delete(listener)
  }

  delivered(turnId: string): Promise<boolean> {
    return this.#deliveries.delivered(turnId)
  }

  redeliver(turnId: string): Promise<boolean> {
    return this.#deliveries.redeliver(turnId)
  }

  deliveries(options?: DeliveryListOptions): Promise<StoredDelivery[]> {
    return this.#deliveries.list(options)
  }

  async schedule(schedule: ScheduleOptions): Promise<Schedule> {
    this.#refuseClosed()
    return this.#schedules.define(schedule)
  }

  unschedule(id: string): Promise<boolean> {
    return this.#schedules.remove(id)
  }

  schedules(): Promise<Schedule[]> {
    return this.#schedules.list()
  }

  #emit<Name extends keyof Emitted>(name: Name, event: Emitted[Name]): void {
    for (const listener of this.#listeners[name]) {
      try {
        listener(event)
      } catch (error) {
        // A listener that throws affects nothing else.
        process.emitWarning(`a listener of a broker threw: ${messageOf(error, 'it')}`, {
          code: 'AGENT_ENGINE_CALLBACK',
        })
      }
    }
  }

  #receive(event: NativeEvent): void {
    switch (event.type) {
      case 'start':
        this.#start(event)
        break
      case 'resume':
        this.#resume(event.turnId, event.sessionLabel, event)
        break
      case 'compose':
        this.#compose(event.turnId, event.sessionLabel, event.items)
        break
      case 'approvals':
        this.#approvalsChanged(event.turnId)
        break
      case 'steered':
        this.#follow(event.items, this.#runs.get(event.turnId)?.run)
        break
      case 'ended':
        this.#ended(event.turnId, event.items)
        break
      case 'failed':
        this.#ended(null, event.items)
        break
      case 'abortParked':
        this.#abortSession(event.sessionLabel).catch((error) => this.#emit('error', error))
        break
      case 'deliver':
        this.#deliveries.receive(event.delivery)
        break
      case 'parked':
        this.#emit('deliveryParked', event.delivery)
        break
      case 'due':
        this.#schedules.take(event.schedules).catch((error) => {
          if (!closes(error)) this.#emit('error', error)
        })
        break
      case 'error':
        this.#emit('error', new AgentEngineError(event.code, event.message))
        break
    }
  }

  #start(turn: StartTurn): void {
    const { turnId, sessionLabel, items } = turn
    const ids = items.map(({ id }) => id)
    hub.holdProcess()
    this.#turns
      .start(this.#native, turn, (begun) => this.#begun(turnId, sessionLabel, ids, begun))
      .catch((error) => {
        if (closes(error)) return this.#native.abandon(sessionLabel, turnId)
        this.#emit('error', error)
        this.#native.refuse(sessionLabel, turnId, messageOf(error, 'the turn'))
      })
      .finally(hub.releaseProcess)
  }

  #resume(turnId: string, sessionLabel: string, limits: TaskLimits): void {
    // One that could not be stored again is closed: what it has is visible then.
    const isSecond = this.#resumed.has(turnId)
    this.#resumed.add(turnId)
    hub.holdProcess()
    const resuming = isSecond
      ? Promise.resolve('unresumable' as const)
      : this.#turns.resume(this.#native, turnId, sessionLabel, limits, (begun) =>
          this.#begun(turnId, sessionLabel, [], begun),
        )
    resuming
      .then((how) => {
        if (how === 'unresumable') this.#native.closeTurn(sessionLabel, turnId)
        if (how !== 'elsewhere') return
        this.#resumed.delete(turnId)
        this.#native.releaseTurn(sessionLabel, turnId)
      })
      .catch((error) => {
        if (closes(error)) return this.#native.abandon(sessionLabel, turnId)
        this.#emit('error', error)
        this.#native.closeTurn(sessionLabel, turnId)
      })
      .finally(hub.releaseProcess)
  }

  #compose(turnId: string, sessionLabel: string, items: TurnItem[]): void {
    const before = this.#composing.get(turnId) ?? Promise.resolve()
    const composed = before
      .then(() => this.#turns.compose(sessionLabel, turnId, items))
      .then((messages) => this.#native.enterTurn(sessionLabel, turnId, messages))
      // They wait for the end of the turn, and fail in their own with the reason.
      .catch((error) => this.#emit('error', error))
      .finally(() => {
        if (this.#composing.get(turnId) === composed) this.#composing.delete(turnId)
      })
    this.#composing.set(turnId, composed)
  }

  #approvalsChanged(turnId: string): void {
    const run = this.#runs.get(turnId)?.run
    // Without a listener, nothing is read for it.
    if (run === undefined || this.#listeners.approval.size === 0) return
    this.#approvals.changed(turnId, run.id).catch((error) => {
      if (!closes(error)) this.#emit('error', error)
    })
  }

  #begun(
    turnId: string,
    sessionLabel: string,
    itemIds: string[],
    begun: BegunTurn,
    direct?: SessionState,
  ): void {
    const { run, agentId } = begun
    const about = { sessionLabel, agentId, turnId }
    const running: Running = { run, about, direct, isWatched: false, isCounted: false }
    this.#runs.set(turnId, running)
    this.#follow(itemIds, run)
    this.#emit('run', { run, turnId, sessionLabel, agentId, itemIds })
    // Without a listener, nothing of the run crosses for it.
    if (direct !== undefined || this.#listeners.session.size > 0) this.#watch(running)
    if (this.#listeners.usage.size > 0) this.#countUsage(running)
  }

  /** Emits what a run has used, at its end. */
  #countUsage(running: Running): void {
    if (running.isCounted) return
    running.isCounted = true
    const { run, about } = running
    const used = ({ usage, cost }: AgentResult) =>
      this.#emit('usage', { ...about, usage, cost: cost ?? null })
    run.result.then(used, () => {})
  }

  /** Emits the states of a session while a run of it is under way. That it is idle comes with its end. */
  #watch(running: Running): void {
    if (running.isWatched) return
    running.isWatched = true
    const { run, about } = running
    const emit = (state: SessionState) => {
      if (running.direct !== undefined) running.direct = state
      this.#emit('session', { ...about, state })
    }
    emit('running')
    let isAnswering = false
    run.stream.onEvent((event) => {
      if (event.type === 'approval' && running.direct !== undefined) {
        this.#approvalsChanged(about.turnId)
      }
      if (event.type === 'compaction') emit(event.phase === 'start' ? 'compacting' : 'running')
      else if (event.type === 'token' && !isAnswering) emit('streaming')
      else if (event.type !== 'token' && isAnswering) emit('running')
      else return
      isAnswering = event.type === 'token'
    })
  }

  /** The messages are in a run. */
  #follow(itemIds: readonly string[], run: AgentRun | undefined): void {
    if (run === undefined) return
    for (const id of itemIds) this.#executions.get(id)?.begin(run as never)
  }

  #ended(turnId: string | null, items: TurnItem[]): void {
    const all = items.map(publicItem)
    for (const item of all) {
      this.#executions.get(item.id)?.end(item, turnId, () => this.#resultOf(item.turnId))
    }
    if (turnId !== null) {
      if (this.#approvals.awaits(turnId)) this.#approvalsChanged(turnId)
      const ended = this.#runs.get(turnId)
      this.#runs.delete(turnId)
      // Another process was first: where that one ends, the turn is resumed here.
      const isElsewhere = ({ persistError, stopReason }: AgentResult) => {
        // An abort, or the end of its time, before it had the turn is no sign of another process.
        if (persistError?.code === 'unknown_turn' && stopReason === 'error')
          this.#resumed.delete(turnId)
      }
      if (this.#resumed.has(turnId)) ended?.run.result.then(isElsewhere, () => {})
      // The ledger could not be read: a later step reports the messages.
      if (ended !== undefined && all.length === 0) {
        for (const execution of this.#executions.values()) execution.leave(ended.run as never)
      }
      if (ended !== undefined) this.#emit('session', { ...ended.about, state: 'idle' })
      if (all.every(({ status }) => status !== 'processing')) this.#resumed.delete(turnId)
    }
    this.#emit('queue', { turnId, items: all })
  }

  /** The result of a turn that another process has run. */
  async #resultOf(turnId: string | null): Promise<AgentResult> {
    const turn = turnId === null ? null : await this.#engine.ledger.turn(turnId)
    if (turn !== null) return this.#engine.resultOf(turn.runId)
    throw new AgentEngineError('not_delivered', 'the turn of the message was deleted')
  }

  #refuseClosed(): void {
    if (this.#closing !== undefined) {
      throw new AgentEngineError('engine_closed', 'the broker is closed; make a new one')
    }
  }

  close(options: { drainMs?: number } = {}): Promise<void> {
    const { drainMs } = readFields(options, 'options', 'invalid_options')
    if (drainMs !== undefined && !(typeof drainMs === 'number' && drainMs >= 0)) {
      throw refusal('invalid_options', 'drainMs', 'is not a number of milliseconds')
    }
    this.#closing ??= this.#close(drainMs)
    return this.#closing
  }

  async #close(drainMs: number | undefined): Promise<void> {
    const closed = hub.request<void>((id) => this.#native.close(id))
    const timer =
      drainMs === undefined ? undefined : setTimeout(() => this.#native.abortAll(), drainMs)
    await closed.finally(() => clearTimeout(timer))
    await this.#drainDeliveries(drainMs)
    hub.removeBroker(this.#number)
    for (const execution of this.#executions.values()) execution.fail('left in the queue')
  }

  /** Waits for the deliveries that the host has; after `drainMs` they are left for the next broker. */
  async #drainDeliveries(drainMs: number | undefined): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      if (drainMs !== undefined) timer = setTimeout(resolve, drainMs)
    })
    await Promise.race([this.#deliveries.drain(), late]).finally(() => clearTimeout(timer))
    this.#deliveries.abandon()
  }
}

/** A session's label: the native side reads what it has. */
function readLabel(label: unknown): string {
  const named = readName(label, 'label', 'invalid_label')
  if (named === '') throw refusal('invalid_label', 'label', 'is empty; pass a session label')
  return named
}

/** Whether a turn cannot begin because its engine closes. */
function closes(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === 'engine_closed' || code === 'ledger_closed'
}

/** A message without the part of its request that the broker uses itself. */
function publicItem({ request: _, ...item }: TurnItem): QueuedMessage {
  return item
}

export { Broker }
