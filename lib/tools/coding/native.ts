// Which functions are those of coding tools: a run calls such a tool without JavaScript. It must never know a tool by its name: a host
// may have one of its own.

import type { NativeWorkspace } from '../../../binding.d.ts'

/** A coding tool of a workspace, by its own name. */
interface CodingRef {
  workspace: NativeWorkspace
  name: string
}

const refs = new WeakMap<object, CodingRef>()

/** Marks the `execute` of a coding tool. */
function mark(execute: object, ref: CodingRef): void {
  refs.set(execute, ref)
}

/** The coding tool whose `execute` this is, wherever it is. */
function codingRef(execute: unknown): CodingRef | undefined {
  return typeof execute === 'function' ? refs.get(execute) : undefined
}

/** Coding tools by the names that they have in a run, for each workspace. */
type Offers = Map<NativeWorkspace, Record<string, string>>

/** The coding tools among the tools of a run; undefined where there is none. */
function offers(tools: ReadonlyMap<string, { execute: unknown }>): Offers | undefined {
  let found: Offers | undefined
  for (const [name, tool] of tools) {
    const ref = codingRef(tool.execute)
    if (ref === undefined) continue
    found ??= new Map()
    const names = found.get(ref.workspace)
    if (names === undefined) found.set(ref.workspace, { [name]: ref.name })
    else names[name] = ref.name
  }
  return found
}

export { mark, offers }
