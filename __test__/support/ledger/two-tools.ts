// A scripted run with two tools, one of which fails, and a context with every field. It must never assert anything.

import type { AssembledContext, ScriptedReply } from '../../../index.js'
import { addTool as add } from '../described-tools.js'
import { testModel } from '../engine.js'
import { price } from '../values/prices.js'
import { scriptedLedger } from './scripted-ledger.js'
import { fullUsage as usage } from './turn-input.js'

export const pricedLedger = (replies: ScriptedReply[] = []) =>
  scriptedLedger(replies, { models: [{ ...testModel, cost: price }] })

export const fails = {
  name: 'fails',
  run: () => {
    throw new Error('no such file')
  },
}

export const runFields: Partial<AssembledContext> = {
  runId: 'run-1',
  sessionLabel: 'agent:main:dm:+1',
  role: 'manager',
  toolsetName: 'everyday',
  tools: [add, fails],
  permissionsGranted: [{ resource: 'fs', write: false }],
  sourceEventId: 'event-9',
  workspacePath: '/work/space',
}

export const twoTools: ScriptedReply[] = [
  {
    thinking: 'both',
    signature: 'c2ln',
    text: 'adding',
    toolCalls: [
      { id: 'call_0', name: 'add', arguments: { a: '1', b: 2 } },
      { id: 'call_0', name: 'fails' },
    ],
    usage,
  },
  { text: 'it is 3', usage: { inputTokens: 10, outputTokens: 5 } },
]
