// Tools with a description and a schema. They must never have a side effect.

import type { AgentTool, PlainTool } from '../../index.js'

/** A tool around a function, with a schema that accepts any object. */
export const describedTool = (
  name: string,
  run: (params: Record<string, unknown>) => unknown,
): AgentTool => ({ name, description: `${name} it`, parameters: { type: 'object' }, run })

/** Returns its arguments. */
export const echoTool = describedTool('echo', (params) => `echo ${JSON.stringify(params)}`)

/** Adds two numbers. */
export const addTool = {
  name: 'add',
  parameters: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
  },
  run: ({ a, b }: { a: number; b: number }) => ({ sum: a + b }),
} satisfies PlainTool
