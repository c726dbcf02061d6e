// The layers of a context: those of the agent's prompt, of a memory and of the message's event; what a host's function makes of
// them; and the prompt and the message that they become. It must never change a text of the message's author.

import type { NativeEngine } from '../../binding.d.ts'
import type {
  AgentMemory,
  AgentTool,
  BrokerAgent,
  ContextLayer,
  LayerName,
  LayerScope,
  MemoryHit,
  Message,
  PromptParts,
  PromptTool,
  RecalledHit,
  TurnScope,
} from '../../index.d.ts'
import * as addon from '../native/addon.ts'
import { request } from '../native/hub.ts'
import { AgentEngineError, guarded, messageOf, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { listing, noted, type Refuse, throwing } from '../values/problems.ts'
import { type Fields, readList, readNamed } from '../values/reader.ts'
import type { SessionScope } from './decisions.ts'
import { partsOf, type Tagged, tagged } from './event.ts'
import type { ReadOptions } from './options.ts'
import { answerOf } from './silence.ts'

const CODE = 'context_failed'
const NAMES: readonly unknown[] = [
  'workspace',
  'persona',
  'session',
  'cortex',
  'event',
] satisfies LayerName[]

type Given = Pick<ContextLayer, 'name' | 'source' | 'text' | 'recalled'>

/** What a context is put together from. */
interface LayerInput {
  native: NativeEngine
  memory: AgentMemory | undefined
  options: ReadOptions
  agent: BrokerAgent
  session: SessionScope
  scope: TurnScope
  tools: readonly AgentTool[]
  message: Message
}

/** What the layers become. */
interface Assembled {
  /** Absent where no layer has a text for it. */
  systemPrompt?: string
  message: Message
  /** Absent where there is nothing to record. */
  layers?: ContextLayer[]
  /** How the system prompt is made again after a compaction, as JSON; absent where that never changes. */
  prompt?: string
}

/** The layers of a system prompt. */
interface PromptLayers {
  layers: ContextLayer[]
  /** What they are made of, where they have files of a workspace. */
  source?: Fields
  /** The prompt of the turn that is resumed, where a compaction has renewed it. */
  renewed?: string | undefined
}

/** The files of a session's prompt. */
interface ReadFiles {
  files: Fields[]
  /** The prompt of the turn that is resumed, where a compaction has renewed it. */
  prompt?: string
}

/** Between the texts of a system prompt. */
const GAP = '\n\n'

/** The prompt and the message of a turn. */
async function assemble(input: LayerInput): Promise<Assembled> {
  const { options, scope, message } = input
  const injected = partsOf(message).parts.filter(isInjected)
  const { layers: prompt, source } = await promptLayers(input)
  const remembered = await memoryLayers(input)
  const change = options.layers
  const own = injected.map(layerOf)
  const before = [...remembered, ...own]
  if (prompt.length === 0 && before.length === 0 && change === undefined)
    return { message, ...renewable(undefined, prompt, source) }
  const session = { ...empty(), source: scope.sessionLabel }
  const given = [...prompt, session, ...(before.length === 0 ? [] : measured(before))]
  const made = (layers: ContextLayer[]) => {
    const composition = composed(message, own, layers)
    return { ...composition, ...renewable(composition.systemPrompt, prompt, source) }
  }
  if (change === undefined) return made(given)
  // The host may change what it is given.
  const copies = given.map((layer) => ({ ...layer }))
  const changed = await changedBy(change, copies, { ...scope, message, text: textOf(message) })
  return made(measured(changed.map((layer) => asRecalled(layer, given))))
}

/** The system prompt of a turn that is resumed, and how it is made again after a compaction. */
async function resumedPrompt(
  input: Omit<LayerInput, 'message' | 'memory'>,
  given: string,
): Promise<Pick<Assembled, 'systemPrompt' | 'prompt'>> {
  const { layers, source, renewed } = await promptLayers(input, input.scope.turnId)
  const systemPrompt = renewed ?? given
  return { systemPrompt, ...renewable(systemPrompt, layers, source) }
}

/** The texts that are the system prompt. */
function promptTexts(layers: readonly ContextLayer[]): string[] {
  const texts = layers.filter(({ name }) => name !== 'cortex' && name !== 'event')
  return texts.map(({ text }) => text).filter((text) => text.trim() !== '')
}

/** How a prompt that has these layers is made again; nothing where the host's function has changed one of them. */
function renewable(
  systemPrompt: string | undefined,
  layers: readonly ContextLayer[],
  source: Fields | undefined,
): Pick<Assembled, 'prompt'> {
  if (source === undefined) return {}
  const [whole, own] = [systemPrompt ?? '', promptTexts(layers).join(GAP)]
  // Without a text they would come first.
  const at = own === '' ? 0 : `${GAP}${whole}${GAP}`.indexOf(`${GAP}${own}${GAP}`)
  if (at < 0) return {}
  const before = whole.slice(0, Math.max(at - GAP.length, 0))
  const after = own === '' ? whole : whole.slice(at + own.length + GAP.length)
  return { prompt: json({ ...source, before, after }) }
}

/** A layer of the memory that the host has left as it was is recorded with what was found. */
function asRecalled(layer: Given, given: readonly Given[]): Given {
  const { name, text } = layer
  const same = given.find((it) => it.recalled !== undefined && it.name === name && it.text === text)
  return same?.recalled === undefined ? layer : { ...layer, recalled: same.recalled }
}

/** What the memory has about the message: nothing that the context has anyway. A memory that fails must not cost the turn. */
async function memoryLayers({ memory, options, scope, message }: LayerInput): Promise<Given[]> {
  if (memory === undefined || options.memory === undefined) return []
  const query = textOf(message).trim()
  if (query === '') return []
  const { sessionLabel: session } = scope
  const layer = (text: string, hits: RecalledHit[], problem: string | null): Given[] =>
    text === '' && problem === null
      ? []
      : [{ name: 'cortex', source: 'memory', text, recalled: { hits, problem } }]
  try {
    const wanted = { session, excludeContextOf: session, ...options.memory }
    const { text, hits, problem } = await memory.context(query, wanted)
    return layer(text, hits.flatMap(recalledBy), problem)
  } catch (error) {
    // It is recorded with the turn.
    return layer('', [], error instanceof AgentEngineError ? error.code : messageOf(error, 'it'))
  }
}

/** What a hit has put into the context: itself, and the facts that conflict with it. */
function recalledBy({ kind, why, turnId, fact, conflicts }: MemoryHit): RecalledHit[] {
  const own = { kind, id: fact?.id ?? turnId ?? '', why }
  return [own, ...conflicts.map(({ id }) => ({ kind, id, why }))]
}

/** A message that enters a running turn: its system prompt is given already, and what a memory has for the message comes with it. */
async function compose(
  { layers: change }: ReadOptions,
  scope: TurnScope,
  message: Message,
): Promise<Assembled> {
  if (change === undefined) return { message }
  const given = measured(partsOf(message).parts.filter(isInjected).map(layerOf))
  const copies = given.map((layer) => ({ ...layer }))
  const changed = await changedBy(change, copies, { ...scope, message, text: textOf(message) })
  return composed(message, given, measured(changed))
}

/** The layers of the system prompt. `turn` is one that is resumed. */
async function promptLayers(
  input: Omit<LayerInput, 'message' | 'memory'>,
  turn?: string,
): Promise<PromptLayers> {
  const { agent, session, scope, tools, options, native } = input
  if (agent.systemPrompt !== undefined) return { layers: promptOf(agent, agent.systemPrompt) }
  const { identity, prompt, workspace } = agent
  const mode = prompt?.mode ?? (session.isWorker || agent.role === 'worker' ? 'minimal' : 'full')
  const isMainSession = prompt?.isMainSession ?? session.isMain
  const reads = workspace !== undefined && prompt?.files === undefined
  const names = session.files ?? agent.files
  const files = { workspace, names, caps: prompt?.caps, mode, isMainSession }
  const args = () => json({ session: scope.sessionLabel, turn, request: files })
  const read = reads
    ? await request<ReadFiles | null>((id) => native.promptFiles(id, args()))
    : null
  const parts: PromptParts = {
    // Where it works, and on what: an agent without a workspace does not care.
    ...(workspace !== undefined && { workspace, runtime: runtimeOf(options) }),
    ...prompt,
    ...(identity !== undefined && { identity }),
    tools: tools.map(described),
    mode,
    isMainSession,
  }
  const needsFiles = identity === undefined && prompt === undefined && tools.length === 0
  const isEmpty = needsFiles && !read?.files.length
  const made = () => addon.NativeEngine.promptLayers(json({ parts, files: read?.files }))
  const layers: ContextLayer[] = isEmpty ? [] : JSON.parse(guarded(made))
  if (read === null) return { layers }
  const source = { request: files, parts, files: read.files, needsFiles }
  return { layers, source, renewed: read.prompt }
}

/** The prompts that agents have whole, measured once. */
const prompts = new WeakMap<BrokerAgent, ContextLayer[]>()

function promptOf(agent: BrokerAgent, text: string): ContextLayer[] {
  let layers = prompts.get(agent)
  if (layers === undefined) {
    layers = measured([{ name: 'persona', source: 'systemPrompt', text }])
    prompts.set(agent, layers)
  }
  return layers
}

let emptyLayer: ContextLayer | undefined

/** The layer of a session: the native side reads its history. */
function empty(): ContextLayer {
  emptyLayer ??= measured([{ name: 'session', source: '', text: '' }])[0] as ContextLayer
  return emptyLayer
}

function described(tool: AgentTool): PromptTool {
  // pi has another name for them.
  const { name, description, promptGuidelines } = tool as AgentTool & {
    promptGuidelines?: readonly string[]
  }
  const guidelines = tool.guidelines ?? promptGuidelines
  return {
    name,
    ...(description !== undefined && { description }),
    ...(guidelines !== undefined && { guidelines: [...guidelines] }),
  }
}

function runtimeOf({ timeZone }: ReadOptions): PromptParts['runtime'] {
  const shell = process.env.SHELL
  return {
    os: `${process.platform} ${process.arch}`,
    timeZone,
    node: process.versions.node,
    ...(shell !== undefined && { shell }),
  }
}

/** The layers with their tokens and hashes. */
function measured(layers: readonly Given[]): ContextLayer[] {
  const args = json({ layers: layers.map(({ name, source, text }) => ({ name, source, text })) })
  const read: ContextLayer[] = JSON.parse(guarded(() => addon.NativeEngine.measureLayers(args)))
  return read.map((layer, at) => {
    const recalled = layers[at]?.recalled
    return recalled === undefined ? layer : { ...layer, recalled }
  })
}

function isInjected(part: Fields): part is Tagged {
  return part.type === 'text' && part.origin !== undefined && part.origin !== null
}

function layerOf({ origin, text }: Tagged): Given {
  return origin === 'event'
    ? { name: 'event', source: 'message', text }
    : { name: 'cortex', source: 'message', text }
}

/** What the host's function makes of the layers. */
async function changedBy(
  change: NonNullable<ReadOptions['layers']>,
  layers: ContextLayer[],
  scope: LayerScope,
): Promise<Given[]> {
  const changed = async () => {
    try {
      return await change(layers, scope)
    } catch (error) {
      throw failed(`threw: ${messageOf(error, 'it')}`)
    }
  }
  return readLayers(await answerOf(changed, failed))
}

/** What a host's function returned; a refusal lists all of its problems. */
function readLayers(given: unknown): Given[] {
  return listing(
    () => layersOf(given, throwing),
    (problems) => {
      layersOf(given, problems.note)
    },
  )
}

function layersOf(given: unknown, refuse: Refuse): Given[] {
  const list = readList(given, 'context.layers', CODE)
  if (list === undefined) throw failed('did not return a list of layers')
  return list.map((layer, at) => {
    const path = `context.layers[${at}]`
    const read = () => readNamed(layer, ['name', 'source', 'text'], path, CODE, `${path}.`)
    const wrong = { name: 'session', source: '', text: '' }
    const { name, source, text } = noted(refuse, read, wrong)
    if (!NAMES.includes(name)) {
      refuse(refusal(CODE, `${path}.name`, `is not one of ${NAMES.join(', ')}`))
    }
    for (const [field, value] of Object.entries({ source, text })) {
      if (typeof value !== 'string') {
        refuse(refusal(CODE, `${path}.${field}`, 'is not a string'))
      }
    }
    return { name, source, text } as Given
  })
}

function failed(why: string): AgentEngineError {
  return new AgentEngineError(CODE, `\`context.layers\` ${why}`)
}

/** The prompt and the message of the layers. `given` are those that the message came with. */
function composed(message: Message, given: readonly Given[], layers: ContextLayer[]): Assembled {
  const prompt = promptTexts(layers)
  const before = new Set(given.map(({ name, text }) => `${name} ${text}`))
  const block = ({ name, source, text }: ContextLayer): Tagged => {
    const origin = name === 'event' ? 'event' : 'memory'
    // What the message came with has its tag.
    if (before.has(`${name} ${text}`)) return { type: 'text', text, origin }
    return tagged(origin, [['source', source]], text)
  }
  const blocks = (['cortex', 'event'] as const).flatMap((name) =>
    layers.filter((layer) => layer.name === name && layer.text !== '').map(block),
  )
  return {
    ...(prompt.length > 0 && { systemPrompt: prompt.join('\n\n') }),
    message: withInjected(message, blocks),
    layers,
  }
}

/** The message with these blocks before its own, in place of those that it had. */
function withInjected(message: Message, blocks: Tagged[]): Message {
  const { name, parts } = partsOf(message)
  const own = parts.filter((part) => !isInjected(part))
  if (blocks.length === 0 && own.length === parts.length) return message
  return { ...message, [name]: [...blocks, ...own] } as Message
}

/** What its author wrote. */
function textOf(message: Message): string {
  const own = partsOf(message).parts.filter((part) => !isInjected(part))
  return own.flatMap(({ text }) => (typeof text === 'string' ? text : [])).join('\n\n')
}

function json(args: unknown): string {
  return toJson(
    args,
    'context',
    () => 'invalid_options',
    () => true,
  )
}

export { assemble, compose, resumedPrompt }
