// pi's agent: a conversation in memory, its queues, its subscribers. It must never leave a run that does not settle.

import type {
  AgentEvent,
  AgentLoopConfig,
  AgentMessage,
  AgentOptions,
  AgentState,
  Agent as Declared,
  QueueMode,
  Semantics,
  StreamFn,
  ThinkingLevel,
  ToolExecutionMode,
} from '../../pi-agent.d.ts'
import type { ImageContent, Message, Model, ThinkingBudgets, Transport } from '../../pi-ai.d.ts'
import { streamSimple } from '../../pi-ai.js'
import { failure } from './answer.ts'
import { runAgentLoop, runAgentLoopContinue } from './loop.ts'
import { MessageQueue } from './queue.ts'
import { type Limits, messageOf, refuseLimits } from './run.ts'
import { stateOf } from './state.ts'

const BUSY =
  'Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion.'
const LLM_ROLES: ReadonlySet<string> = new Set(['user', 'assistant', 'toolResult'])

type Listener = (event: AgentEvent, signal: AbortSignal) => unknown

/** A run of the agent under way. */
interface Active {
  controller: AbortController
  idle: Promise<void>
  settle: () => void
}

class Agent implements Declared {
  static defaultSemantics: Semantics = '0.54'
  readonly semantics: Semantics
  streamFn: StreamFn
  convertToLlm: (messages: AgentMessage[]) => Message[] | Promise<Message[]>
  transformContext?: AgentLoopConfig['transformContext']
  getApiKey?: AgentLoopConfig['getApiKey']
  onPayload?: AgentLoopConfig['onPayload']
  onResponse?: AgentLoopConfig['onResponse']
  beforeToolCall?: AgentLoopConfig['beforeToolCall']
  afterToolCall?: AgentLoopConfig['afterToolCall']
  toolExecution: ToolExecutionMode
  sessionId: string | undefined
  thinkingBudgets: ThinkingBudgets | undefined
  transport: Transport
  maxRetryDelayMs: number | undefined
  #limits: Limits
  #state: AgentState
  #listeners = new Set<Listener>()
  #steering: MessageQueue
  #followUps: MessageQueue
  #active: Active | undefined

  constructor(options: AgentOptions = {}) {
    const { semantics = Agent.defaultSemantics, toolTimeoutMs } = options
    const { maxParallelTools, abortGraceMs } = options
    refuseLimits(options)
    this.semantics = semantics
    this.#state = stateOf(options.initialState, semantics)
    this.convertToLlm =
      options.convertToLlm ??
      ((messages) => messages.filter((message) => LLM_ROLES.has(message.role)) as Message[])
    this.transformContext = options.transformContext
    this.streamFn = options.streamFn ?? streamSimple
    this.getApiKey = options.getApiKey
    this.onPayload = options.onPayload
    this.onResponse = options.onResponse
    this.beforeToolCall = options.beforeToolCall
    this.afterToolCall = options.afterToolCall
    this.toolExecution = options.toolExecution ?? 'parallel'
    this.#steering = new MessageQueue(options.steeringMode ?? 'one-at-a-time')
    this.#followUps = new MessageQueue(options.followUpMode ?? 'one-at-a-time')
    this.sessionId = options.sessionId
    this.thinkingBudgets = options.thinkingBudgets
    this.transport = options.transport ?? (semantics === '0.73' ? 'auto' : 'sse')
    this.maxRetryDelayMs = options.maxRetryDelayMs
    this.#limits = {
      ...(toolTimeoutMs !== undefined && { toolTimeoutMs }),
      ...(maxParallelTools !== undefined && { maxParallelTools }),
      ...(abortGraceMs !== undefined && { abortGraceMs }),
    }
  }

  get state(): AgentState {
    return this.#state
  }

  get signal(): AbortSignal | undefined {
    return this.#active?.controller.signal
  }

  get steeringMode(): QueueMode {
    return this.#steering.mode
  }

  set steeringMode(mode: QueueMode) {
    this.#steering.mode = mode
  }

  get followUpMode(): QueueMode {
    return this.#followUps.mode
  }

  set followUpMode(mode: QueueMode) {
    this.#followUps.mode = mode
  }

  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  setSystemPrompt(prompt: string): void {
    this.#state.systemPrompt = prompt
  }

  setModel(model: Model): void {
    this.#state.model = model
  }

  setThinkingLevel(level: ThinkingLevel): void {
    this.#state.thinkingLevel = level
  }

  setTransport(transport: Transport): void {
    this.transport = transport
  }

  setSteeringMode(mode: QueueMode): void {
    this.steeringMode = mode
  }

  getSteeringMode(): QueueMode {
    return this.steeringMode
  }

  setFollowUpMode(mode: QueueMode): void {
    this.followUpMode = mode
  }

  getFollowUpMode(): QueueMode {
    return this.followUpMode
  }

  setTools(tools: AgentState['tools']): void {
    this.#state.tools = tools
  }

  replaceMessages(messages: AgentMessage[]): void {
    this.#state.messages = messages.slice()
  }

  /** In 0.54 the list is another one afterwards. */
  appendMessage(message: AgentMessage): void {
    if (this.semantics === '0.73') this.#state.messages.push(message)
    else this.#state.messages = [...this.#state.messages, message]
  }

  clearMessages(): void {
    this.#state.messages = []
  }

  steer(message: AgentMessage): void {
    this.#steering.push(message)
  }

  followUp(message: AgentMessage): void {
    this.#followUps.push(message)
  }

  clearSteeringQueue(): void {
    this.#steering.clear()
  }

  clearFollowUpQueue(): void {
    this.#followUps.clear()
  }

  clearAllQueues(): void {
    this.#steering.clear()
    this.#followUps.clear()
  }

  hasQueuedMessages(): boolean {
    return !this.#steering.isEmpty || !this.#followUps.isEmpty
  }

  abort(): void {
    this.#active?.controller.abort()
  }

  waitForIdle(): Promise<void> {
    return this.#active?.idle ?? Promise.resolve()
  }

  reset(): void {
    this.#state.messages = []
    this.#state.isStreaming = false
    this.#state.streamMessage = null
    this.#state.pendingToolCalls = new Set()
    this.#state.error = undefined
    this.clearAllQueues()
  }

  async prompt(
    input: string | AgentMessage | AgentMessage[],
    images: ImageContent[] = [],
  ): Promise<void> {
    if (this.#active !== undefined) throw new Error(BUSY)
    if (!this.#state.model) throw new Error('No model configured')
    await this.#run(messagesOf(input, images))
  }

  async continue(): Promise<void> {
    if (this.#active !== undefined) {
      throw new Error('Agent is already processing. Wait for completion before continuing.')
    }
    const last: AgentMessage | undefined = this.#state.messages.at(-1)
    if (last === undefined) throw new Error('No messages to continue from')
    if (last.role !== 'assistant') return this.#run(undefined)
    const steered = this.#steering.take()
    if (steered.length > 0) return this.#run(steered, true)
    const queued = this.#followUps.take()
    if (queued.length > 0) return this.#run(queued)
    throw new Error('Cannot continue from message role: assistant')
  }

  async #run(prompts: AgentMessage[] | undefined, skipsSteering = false): Promise<void> {
    const state = this.#state
    const controller = new AbortController()
    let settle = () => {}
    const idle = new Promise<void>((resolve) => {
      settle = resolve
    })
    this.#active = { controller, idle, settle }
    state.isStreaming = true
    state.streamMessage = null
    state.error = undefined
    const { systemPrompt, tools } = state
    const context = { systemPrompt, messages: state.messages.slice(), tools: tools.slice() }
    const config = this.#config(skipsSteering)
    const emit = (event: AgentEvent) => this.#event(event)
    const { signal } = controller
    try {
      await (prompts === undefined
        ? runAgentLoopContinue(context, config, emit, signal, this.streamFn)
        : runAgentLoop(prompts, context, config, emit, signal, this.streamFn))
    } catch (error) {
      await this.#failed(config.model, error, controller)
    } finally {
      state.isStreaming = false
      state.streamMessage = null
      state.pendingToolCalls = new Set()
      this.#active = undefined
      settle()
    }
  }

  /** A function of the host has thrown: the run is over, and so is what it had begun. */
  async #failed(model: Model, error: unknown, controller: AbortController): Promise<void> {
    const message = failure(model, controller.signal.aborted, messageOf(error))
    controller.abort()
    this.appendMessage(message)
    this.#state.error = message.errorMessage
    await this.#event({ type: 'agent_end', messages: [message] })
  }

  /** What each call of the model gets, as it is now. */
  #config(skipsSteering: boolean): AgentLoopConfig {
    const { model, thinkingLevel } = this.#state
    let skips = skipsSteering
    return {
      model,
      reasoning: thinkingLevel === 'off' ? undefined : thinkingLevel,
      sessionId: this.sessionId,
      onPayload: this.onPayload,
      onResponse: this.onResponse,
      transport: this.transport,
      thinkingBudgets: this.thinkingBudgets,
      maxRetryDelayMs: this.maxRetryDelayMs,
      toolExecution: this.toolExecution,
      beforeToolCall: this.beforeToolCall,
      afterToolCall: this.afterToolCall,
      convertToLlm: this.convertToLlm,
      transformContext: this.transformContext,
      getApiKey: this.getApiKey,
      semantics: this.semantics,
      ...this.#limits,
      getSteeringMessages: async () => {
        const isSkipped = skips
        skips = false
        return isSkipped ? [] : this.#steering.take()
      },
      getFollowUpMessages: async () => this.#followUps.take(),
    } as AgentLoopConfig
  }

  /** Brings the state up to an event, then tells the subscribers. 0.73 waits for them. */
  #event(event: AgentEvent): Promise<void> | void {
    const state = this.#state
    switch (event.type) {
      case 'message_start':
      case 'message_update':
        state.streamMessage = event.message
        break
      case 'message_end':
        state.streamMessage = null
        this.appendMessage(event.message)
        break
      case 'tool_execution_start':
        state.pendingToolCalls = new Set(state.pendingToolCalls).add(event.toolCallId)
        break
      case 'tool_execution_end': {
        const pending = new Set(state.pendingToolCalls)
        pending.delete(event.toolCallId)
        state.pendingToolCalls = pending
        break
      }
      case 'turn_end':
        if (event.message.role === 'assistant' && event.message.errorMessage) {
          state.error = event.message.errorMessage
        }
        break
      case 'agent_end':
        if (this.semantics === '0.54') state.isStreaming = false
        state.streamMessage = null
        break
    }
    const signal = this.#active?.controller.signal
    if (signal === undefined) return
    if (this.semantics === '0.73') return this.#awaited(event, signal)
    for (const listener of this.#listeners) listener(event, signal)
  }

  async #awaited(event: AgentEvent, signal: AbortSignal): Promise<void> {
    for (const listener of this.#listeners) await listener(event, signal)
  }
}

function messagesOf(
  input: string | AgentMessage | AgentMessage[],
  images: ImageContent[],
): AgentMessage[] {
  if (Array.isArray(input)) return input
  if (typeof input !== 'string') return [input]
  const content = [{ type: 'text' as const, text: input }, ...images]
  return [{ role: 'user', content, timestamp: Date.now() }]
}

export { Agent }
