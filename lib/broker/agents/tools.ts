// The tools with which agents start and write to each other, as their role allows. It must never offer what a role or an agent's
// options do not allow.

import type { AgentBudget, AgentRole, AgentTool, Dispatch, ToolCallInfo } from '../../../index.d.ts'
import { SPAWNED } from '../../tools/result.ts'
import type { ReadSubagents } from './options.ts'
import type { AgentStore, NewAgentMessage } from './store.ts'
import type { From, Targets } from './targets.ts'

/** No time limit of the engine's for a call that waits: the child's counts. */
const UNLIMITED = 2_147_483_647
const TEXT = { type: 'string', minLength: 1 } as const

/** The turn that the tools are for. */
interface Scope {
  agentId: string
  role: AgentRole
  subagents: ReadSubagents
  /** What the turn may spend, and what each agent may. */
  budget: ({ account: string } & AgentBudget) | undefined
  budgetOf: (agentId: string) => AgentBudget | undefined
  /** The models of an agent: those that a task may name where no list is set. */
  modelsOf: (agentId: string) => readonly string[]
  /** The session that has given the turn its task. */
  parentOf: (sessionLabel: string, turnId: string) => Promise<string | undefined>
  store: AgentStore
  targets: Targets
}

type Params = Record<string, never> & {
  agent?: string
  task: string
  model?: string
  context?: 'none' | 'fork'
  timeoutMs?: number
  op: 'dispatch' | 'message'
  target: string
  to: string
  content: string
  deliveryMode?: 'queue' | 'interrupt'
  detached?: boolean
  dispatchId?: string
}

/** The tools of a turn. */
function agentTools(scope: Scope): AgentTool[] {
  const { role } = scope
  const tools: AgentTool[] = []
  if (role !== 'manager') tools.push(spawnAgent(scope))
  tools.push(agentSend(scope), sendMessage(scope), status(scope), cancel(scope))
  return tools
}

function spawnAgent(scope: Scope): AgentTool {
  const { agentId, subagents, store } = scope
  const wait = async (call: ToolCallInfo) => {
    const { idempotencyKey: id, sessionLabel, turnId, signal } = call
    const stop = () => void store.cancel(id).catch(() => {})
    signal.addEventListener('abort', stop, { once: true })
    try {
      return answerOf(await store.wait(id, sessionLabel, turnId))
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }
  return {
    name: 'spawn_agent',
    description:
      'Starts another agent on a task and waits for its answer. It knows nothing of this conversation, unless `context` is `fork`. ' +
      `Agents: ${subagents.allowAgents.join(', ')}.`,
    parameters: {
      type: 'object',
      properties: {
        agent: { ...TEXT, description: `Default: ${agentId}.` },
        task: { ...TEXT, description: 'What it is to do, with all that it has to know.' },
        model: { ...TEXT, description: 'Another model than the usual one of the agent.' },
        context: {
          enum: ['none', 'fork'],
          description: '`fork`: it knows this conversation. Default: `none`.',
        },
        timeoutMs: { type: 'integer', minimum: 1, description: 'Its time in milliseconds.' },
      },
      required: ['task'],
      additionalProperties: false,
    },
    timeoutMs: UNLIMITED,
    replay: 'reconcilable',
    run: async (given: unknown, call: ToolCallInfo) => {
      const { agent = agentId, task, model, context = 'none', timeoutMs } = given as Params
      if (!subagents.allowAgents.includes(agent)) {
        const allowed = subagents.allowAgents.join(', ')
        throw new Error(
          `Not started: \`subagents.allowAgents\` allows ${allowed}, and not ${agent}.`,
        )
      }
      checkModel(scope, agent, model)
      await sent(store, {
        ...about(scope, call),
        toSession: `worker:${call.idempotencyKey}`,
        toAgent: agent,
        mode: 'queue',
        message: task,
        task: {
          kind: 'spawn',
          limits: subagents.limits,
          isNew: true,
          isFork: context === 'fork',
          model,
          timeoutMs: least(timeoutMs, subagents.timeoutMs),
          isDetached: false,
          ...budgets(scope, agent),
        },
      })
      return await wait(call)
    },
    reconcile: async (key: string, _params: unknown, call: ToolCallInfo) => {
      if ((await store.dispatch(key)) === null) return { outcome: 'not_done' }
      return { outcome: 'done', result: await wait(call) }
    },
  } as AgentTool
}

function agentSend(scope: Scope): AgentTool {
  const { role, subagents, store, targets } = scope
  const isWorker = role === 'worker'
  const ops = isWorker ? ['message'] : ['dispatch', 'message']
  return {
    name: 'agent_send',
    description: isWorker
      ? 'Sends a message to the agent that gave you your task: `target` is `parent`.'
      : '`dispatch` gives another agent a task; its result comes later, as a message. `message` only sends a text. `target`: an agent ' +
        `(${subagents.allowAgents.join(', ')}), a session, or \`parent\`.`,
    parameters: {
      type: 'object',
      properties: {
        op: { enum: ops },
        target: TEXT,
        content: TEXT,
        deliveryMode: {
          enum: ['queue', 'interrupt'],
          description: '`interrupt` ends what the agent is doing. Default: `queue`.',
        },
        ...(!isWorker && {
          timeoutMs: { type: 'integer', minimum: 1, description: 'The time of a task.' },
          detached: {
            type: 'boolean',
            description: 'Whether a task goes on when you are aborted. Default: false.',
          },
        }),
      },
      required: ['op', 'target', 'content'],
      additionalProperties: false,
    },
    replay: 'idempotent',
    run: async (given: unknown, call: ToolCallInfo) => {
      const { op, target, content, deliveryMode = 'queue', timeoutMs, detached } = given as Params
      const isTask = op === 'dispatch'
      const from = await fromOf(scope, call)
      const { sessionLabel, agentId } = isWorker
        ? await targets.parent(from)
        : await targets.find(target, from, isTask)
      const label = sessionLabel ?? `worker:${call.idempotencyKey}`
      const to = await sent(store, {
        ...about(scope, call),
        toSession: label,
        toAgent: agentId,
        mode: deliveryMode,
        message: content,
        ...(isTask && {
          task: {
            kind: 'dispatch' as const,
            limits: subagents.limits,
            isNew: sessionLabel === undefined,
            isFork: false,
            timeoutMs: least(timeoutMs, subagents.timeoutMs),
            isDetached: detached ?? false,
            ...budgets(scope, agentId),
          },
        }),
      })
      if (!isTask) return { sessionLabel: to, status: 'sent' }
      const text = `Dispatched to ${agentId} as ${call.idempotencyKey}. Its result comes as a message.`
      const details = { dispatchId: call.idempotencyKey, sessionLabel: to, status: 'active' }
      return { content: [{ type: 'text', text }], details, [SPAWNED]: to }
    },
  } as AgentTool
}

function sendMessage(scope: Scope): AgentTool {
  const send = agentSend(scope)
  const { run } = send as { run: (params: unknown, call: ToolCallInfo) => Promise<unknown> }
  return {
    name: 'send_message_to_agent',
    description: 'Sends a text to another agent, a session, or `parent`.',
    parameters: {
      type: 'object',
      properties: { to: TEXT, content: TEXT },
      required: ['to', 'content'],
      additionalProperties: false,
    },
    replay: 'idempotent',
    run: (given: unknown, call: ToolCallInfo) => {
      const { to, content } = given as Params
      return run({ op: 'message', target: to, content }, call)
    },
  } as AgentTool
}

function status({ store }: Scope): AgentTool {
  return {
    name: 'get_agent_status',
    description:
      'What became of a task that this session has given; of all of them without `dispatchId`.',
    parameters: {
      type: 'object',
      properties: { dispatchId: TEXT },
      additionalProperties: false,
    },
    replay: 'pure',
    run: async (given: unknown, call: ToolCallInfo) => {
      const { dispatchId } = given as Params
      if (dispatchId !== undefined) return shown(await own(store, dispatchId, call))
      return (await store.madeBy(call.sessionLabel)).map(shown)
    },
  } as AgentTool
}

function cancel({ store }: Scope): AgentTool {
  return {
    name: 'cancel_agent',
    description: 'Cancels a task that this session has given.',
    parameters: {
      type: 'object',
      properties: { dispatchId: TEXT },
      required: ['dispatchId'],
      additionalProperties: false,
    },
    replay: 'idempotent',
    run: async (given: unknown, call: ToolCallInfo) => {
      const { id } = await own(store, (given as Params).dispatchId ?? '', call)
      const dispatch = await store.cancel(id)
      return dispatch === null ? 'It does not exist any more.' : shown(dispatch)
    },
  } as AgentTool
}

/** A dispatch of the call's session. */
async function own(store: AgentStore, id: string, call: ToolCallInfo): Promise<Dispatch> {
  const dispatch = await store.dispatch(id)
  if (dispatch === null || dispatch.parentSession !== call.sessionLabel) {
    throw new Error(`This session has given no task ${id}.`)
  }
  return dispatch
}

/** What a model reads of a dispatch. */
function shown({ id, agentId, sessionLabel, status: now, cancelled, text, usage }: Dispatch) {
  const state = now === 'active' && cancelled !== null ? 'cancelling' : now
  return { dispatchId: id, agent: agentId, session: sessionLabel, status: state, text, usage }
}

/** The result of a call that has waited for an agent. */
function answerOf(dispatch: Dispatch | null): unknown {
  if (dispatch === null) throw new Error('aborted: the session of the agent was deleted.')
  const { id: dispatchId, sessionLabel, status: how, text, usage, cost, turnId } = dispatch
  const details = { dispatchId, sessionLabel, status: how, usage, cost, turnId }
  const said = text ?? ''
  const isError = how !== 'ok'
  const shownText = isError ? `The agent has not finished: ${how}. ${said}`.trimEnd() : said
  return {
    content: [{ type: 'text', text: shownText }],
    details,
    isError,
    [SPAWNED]: sessionLabel,
  }
}

/** Stores a message. Returns its session; a refusal is the error of the call. */
async function sent(store: AgentStore, message: NewAgentMessage): Promise<string> {
  const { sessionLabel, refused } = await store.send(message)
  if (refused !== undefined) throw new Error(refused)
  return sessionLabel ?? message.toSession
}

function about({ agentId }: Scope, call: ToolCallInfo) {
  const { idempotencyKey: id, sessionLabel: fromSession, turnId: fromTurn } = call
  return { id, fromSession, fromTurn, fromAgent: agentId }
}

/** The budget of the agent that gets a task, and that of the turn that gives it. */
function budgets({ budget, budgetOf }: Scope, agentId: string) {
  return { budget: budgetOf(agentId), parentBudget: budget }
}

async function fromOf({ subagents, parentOf }: Scope, call: ToolCallInfo): Promise<From> {
  const { sessionLabel, turnId } = call
  return { sessionLabel, parent: await parentOf(sessionLabel, turnId), subagents }
}

function checkModel(
  { subagents, modelsOf }: Scope,
  agent: string,
  model: string | undefined,
): void {
  if (model === undefined) return
  const allowed = subagents.allowModels ?? modelsOf(agent)
  if (allowed.includes(model)) return
  const list = allowed.join(', ')
  throw new Error(`Not started: \`subagents.allowModels\` allows ${list}, and not ${model}.`)
}

function least(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined ? other : other === undefined ? one : Math.min(one, other)
}

export { agentTools }
