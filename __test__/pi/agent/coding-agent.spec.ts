// pi's own coding agent, of 0.54 and of 0.73, on this package's agent and calls: a conversation of thirty turns has the events, the messages and the file that
// it has on pi's own. It must never call a model.

import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'
import { child } from '../../support/processes/child.js'
import { type Conversation, shapeOf } from './conversation.js'

async function conversation(
  module: string,
  semantics?: string,
  compaction = 'asked',
): Promise<Conversation> {
  const alias = new URL('../../children/pi/alias.mjs', import.meta.url).href
  if (semantics !== undefined) process.env.PI_SEMANTICS = semantics
  const flags = semantics === undefined ? [] : ['--import', alias]
  const ended = await child('pi/coding-agent.mjs', [module, folder().path, compaction], flags)
  expect({ code: ended.code, err: ended.err }).toEqual({ code: 0, err: '' })
  return shapeOf(ended.out)
}

test.each([
  ['0.54', '@mariozechner/pi-coding-agent'],
  ['0.73', 'pi-coding-agent-073'],
])(
  'thirty turns with tools, steering, compactions, a branch and a restart (%s)',
  async (version, module) => {
    const theirs = await conversation(module)
    const ours = await conversation(module, version)
    expect(ours.file).toEqual(theirs.file)
    expect(ours.messages).toEqual(theirs.messages)
    expect(ours.context).toEqual(theirs.context)
    expect(ours.requests).toEqual(theirs.requests)
    expect(ours.events).toEqual(theirs.events)
    expect(theirs.file.length).toBeGreaterThan(90)
    const types = new Set(theirs.file.map(({ type }) => type))
    expect(types).toEqual(
      new Set([
        'session',
        'model_change',
        'thinking_level_change',
        'message',
        'compaction',
        'branch_summary',
      ]),
    )
  },
)

test.each([
  ['0.54', '@mariozechner/pi-coding-agent'],
  ['0.73', 'pi-coding-agent-073'],
])(
  'thirty turns that are compacted because the context is nearly full, and because the model refuses it (%s)',
  async (version, module) => {
    const theirs = await conversation(module, undefined, 'automatic')
    const ours = await conversation(module, version, 'automatic')
    expect(ours.file).toEqual(theirs.file)
    expect(ours.messages).toEqual(theirs.messages)
    expect(ours.context).toEqual(theirs.context)
    expect(ours.requests).toEqual(theirs.requests)
    expect(ours.events).toEqual(theirs.events)
    const reasons = theirs.events.flatMap(({ type, reason }) =>
      /compaction_start$/.test(type) ? [reason] : [],
    )
    expect(new Set(reasons)).toEqual(new Set(['threshold', 'overflow']))
    // 0.54 also begins one that has nothing to do.
    expect(theirs.file.filter(({ type }) => type === 'compaction').length).toBeGreaterThanOrEqual(2)
  },
)
