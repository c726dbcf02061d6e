// A tool that is a generator: its yields are progress, what it returns is the result. It must never leave one open: after an
// abort or a time limit it is closed, so that its `finally` runs.

import type { ToolCallInfo } from '../../index.d.ts'

/** Taken once: a test that replaces timers must not stop a tool. */
const { setImmediate } = globalThis

/** What is used of a generator, synchronous or not. A compiler may have made it. */
interface ToolGenerator {
  next(): unknown
  return(value?: unknown): unknown
  throw(error: unknown): unknown
}

type Call = Pick<ToolCallInfo, 'signal' | 'onUpdate'>

/** The value itself, or what it returns in the end where it is a generator. */
async function conclude(value: unknown, call: Call): Promise<unknown> {
  return isGenerator(value) ? drive(value, call) : value
}

function isGenerator(value: unknown): value is ToolGenerator {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const { next, return: close, throw: fail } = value as Partial<ToolGenerator>
  if (![next, close, fail].every((each) => typeof each === 'function')) return false
  const iterable = value as { [Symbol.asyncIterator]?: unknown; [Symbol.iterator]?: unknown }
  return (
    typeof iterable[Symbol.asyncIterator] === 'function' ||
    typeof iterable[Symbol.iterator] === 'function'
  )
}

async function drive(generator: ToolGenerator, { signal, onUpdate }: Call): Promise<unknown> {
  let closed: Promise<unknown> | undefined
  // While one of its steps is under way, an asynchronous generator is closed as soon as that step has ended.
  const close = () => {
    closed ??= (async () => generator.return())()
    // What it throws then is read below, or nobody waits for it any more.
    closed.catch(() => {})
  }
  signal.addEventListener('abort', close, { once: true })
  try {
    if (signal.aborted) close()
    while (closed === undefined) {
      const { done, value } = (await generator.next()) as IteratorResult<unknown>
      if (done === true) return value
      const update: unknown = await value
      if (closed === undefined) onUpdate(update)
      // Between two steps the process does what else is to be done, an abort among it.
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
    await closed
    return undefined
  } catch (error) {
    // After a throw of its own it is closed already, and this has no effect.
    close()
    throw error
  } finally {
    signal.removeEventListener('abort', close)
  }
}

export { conclude }
