// The memory of an engine: `engine.memory`. It reads the arguments, and the native side does the rest.
// It must never show what the scopes of a call do not have.

import type { NativeEngine } from '../../binding.d.ts'
import type {
  AgentMemory,
  CallOptions,
  MemoryContext,
  MemoryFact,
  MemoryForgotten,
  MemoryHits,
  MemoryReindex,
  MemoryStats,
  Page,
} from '../../index.d.ts'
import { abortableRequest } from '../native/abortable.ts'
import { refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { type Fields, readFields, readName } from '../values/reader.ts'

const CODE = 'invalid_options'
/** The facts of one crossing of an import. */
const BATCH = 200

/** The memory of `native`. */
function memoryOf(native: NativeEngine): AgentMemory {
  const call = <Value>(method: string, args: Fields, signal?: unknown): Promise<Value> => {
    const json = toJson(args, 'options', () => CODE)
    return abortableRequest<Value>(signal, (id) => native.memory(id, method, json))
  }
  /** The options of a call, without its signal. */
  const options = (given: unknown, root = 'options'): { fields: Fields; signal: unknown } => {
    const { signal, ...fields } = readFields(given ?? {}, root, CODE)
    return { fields, signal }
  }
  const facts = async (filter: unknown): Promise<Page<MemoryFact, number>> => {
    const { fields, signal } = options(filter, 'filter')
    return call('facts', { filter: fields }, signal)
  }
  return Object.freeze<AgentMemory>({
    search: async (query, given) => {
      readName(query, 'query', CODE)
      const { fields, signal } = options(given)
      return call<MemoryHits>('search', { query, options: fields }, signal)
    },
    context: async (query, given) => {
      readName(query, 'query', CODE)
      const { fields, signal } = options(given)
      const { tokens, ...rest } = fields
      if (tokens !== undefined && !(Number.isSafeInteger(tokens) && (tokens as number) > 0)) {
        throw refusal(CODE, 'tokens', 'is not a number of tokens; pass at least 1')
      }
      return call<MemoryContext>('context', { query, options: rest, tokens }, signal)
    },
    storeFact: async (fact, given) => {
      const { fields, signal } = options(given)
      refuseOthers(fields)
      return call<MemoryFact>('storeFact', { fact: readFields(fact, 'fact', CODE) }, signal)
    },
    supersede: async (id, fact, given) => {
      readName(id, 'id', CODE)
      const { fields, signal } = options(given)
      const { within, ...others } = fields
      refuseOthers(others)
      if (within !== undefined) readName(within, 'within', CODE)
      const args = { fact: readFields(fact, 'fact', CODE), supersedes: { id, within } }
      return call<MemoryFact>('storeFact', args, signal)
    },
    facts,
    forget: async (given) => {
      const { fields, signal } = options(given)
      return call<MemoryForgotten>('forget', { options: fields }, signal)
    },
    summary: async (session, given) => {
      readName(session, 'session', CODE)
      const { fields, signal } = options(given)
      refuseOthers(fields)
      return call<string | null>('summary', { session }, signal)
    },
    stats: async (given) => {
      const { fields, signal } = options(given)
      refuseOthers(fields)
      return call<MemoryStats>('stats', {}, signal)
    },
    reindex: async (given) => {
      const { fields, signal } = options(given)
      return call<MemoryReindex>('reindex', { options: fields }, signal)
    },
    async *export(given?: CallOptions) {
      const { fields, signal } = options(given)
      refuseOthers(fields)
      for (let after: number | undefined; ; ) {
        const page = await facts({ all: true, superseded: true, after, limit: 1_000, signal })
        yield* page.items
        if (page.next === null) return
        after = page.next
      }
    },
    import: async (given, second) => {
      const { fields, signal } = options(second)
      refuseOthers(fields)
      const done = { facts: 0, skipped: 0 }
      const send = async (batch: MemoryFact[]) => {
        if (batch.length === 0) return
        const { facts, skipped } = await call<typeof done>('import', { facts: batch }, signal)
        done.facts += facts
        done.skipped += skipped
      }
      let batch: MemoryFact[] = []
      for await (const fact of given) {
        batch.push(fact)
        if (batch.length === BATCH) {
          await send(batch)
          batch = []
        }
      }
      await send(batch)
      return done
    },
  })
}

/** Refuses options that are none. */
function refuseOthers(fields: Fields): void {
  const [other] = Object.keys(fields)
  if (other !== undefined) throw refusal(CODE, other, 'is no option; pass `signal`')
}

export { memoryOf }
