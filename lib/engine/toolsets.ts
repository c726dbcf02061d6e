// The engine's `toolsets`: tools by name, for contexts that pass none. It must never replace tools that a context passes.

import type { AgentTool, ToolsetScope } from '../../index.d.ts'
import { clip, messageOf, refusal } from '../values/errors.ts'
import { type Refuse, throwing } from '../values/problems.ts'
import { type Fields, readFields } from '../values/reader.ts'

/** The name of a context that names none. */
const DEFAULT = 'default'

type Toolset = readonly AgentTool[] | ((scope: ToolsetScope) => unknown)

class Toolsets {
  #byName = new Map<string, Toolset>()

  /** Reads the option; undefined where there is none. */
  static read(given: unknown, refuse: Refuse = throwing): Toolsets | undefined {
    if (given === undefined || given === null) return undefined
    const toolsets = new Toolsets()
    for (const [name, tools] of Object.entries(
      readFields(given, 'toolsets', 'invalid_options', 'toolsets.'),
    )) {
      if (typeof tools === 'function' || Array.isArray(tools)) {
        toolsets.#byName.set(name, tools as Toolset)
      } else {
        const path = `toolsets.${clip(name)}`
        refuse(refusal('invalid_options', path, 'is neither a list of tools nor a function'))
      }
    }
    return toolsets
  }

  /** The tools of a context that passes none; undefined where it names no toolset and there is no `default`. */
  of(context: Fields): unknown {
    const { toolsetName } = context
    const isNamed = toolsetName !== undefined && toolsetName !== null
    const tools = this.#byName.get(isNamed ? (toolsetName as string) : DEFAULT)
    if (tools === undefined) {
      if (!isNamed || toolsetName === DEFAULT) return undefined
      const names = [...this.#byName.keys()].map((name) => `\`${clip(name)}\``).join(', ')
      throw refusal(
        'invalid_context',
        'toolsetName',
        `is not one of the engine's \`toolsets\` (${names || 'none'}); name one of them, or pass \`tools\``,
      )
    }
    return typeof tools === 'function' ? called(tools, context) : tools
  }

  /** The tools of a turn that is resumed, as far as its toolset is still there. */
  ofResumed(context: Fields): unknown {
    return this.#byName.has(context.toolsetName as string) ? this.of(context) : undefined
  }
}

function called(tools: (scope: ToolsetScope) => unknown, context: Fields): unknown {
  const { sessionLabel, toolsetName, role, workspacePath, permissionsGranted, metadata } = context
  const scope = { sessionLabel, toolsetName, role, workspacePath, permissionsGranted, metadata }
  let given: unknown
  try {
    given = tools(scope as ToolsetScope)
  } catch (error) {
    throw refusal(
      'invalid_context',
      'toolsetName',
      `names a toolset that failed: ${messageOf(error, 'it')}`,
    )
  }
  if (Array.isArray(given)) return given
  throw refusal('invalid_context', 'toolsetName', 'names a toolset that returned no list of tools')
}

export { Toolsets }
