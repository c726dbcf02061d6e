// Results that are too long for a model: cut by the limit of the tool, the policy or the window, and stored where the run's `read` reads the
// whole. It must never reach a provider.

import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentTool,
  createCodingTools,
  type ScriptedReply,
  scriptedProvider,
} from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, testModel } from '../../support/engine.js'
import { thrown } from '../../support/refusals.js'

const LONG = Array.from({ length: 3_000 }, (_, line) => `line ${line}`).join('\n')

const lookup = (fields: Partial<AgentTool> = {}): AgentTool => ({
  name: 'lookup',
  run: () => LONG,
  ...fields,
})

function engineWith(replies: ScriptedReply[]) {
  const provider = scriptedProvider(replies)
  const engine = new AgentEngine({ providers: { test: provider }, models: [testModel] })
  closing(engine)
  return engine
}

const call = (name: string, args: object = {}) => ({ toolCalls: [{ name, arguments: args }] })

test('a long result names a file with the whole, which `read` reads', async () => {
  const { path } = folder()
  const tools = [...createCodingTools(path, { tools: ['read'] }), lookup({ maxResultChars: 1_000 })]
  const engine = engineWith([call('lookup'), 'seen'])
  const { messages, toolCalls } = await engine.run(context({ tools })).result
  const text = messages[2]?.content ?? ''
  expect(text.length).toBeLessThanOrEqual(1_000)
  const [, cut, total, file = ''] =
    /\[… (\d+) of (\d+) characters were cut here; `read` reads all of it in (\S+) …\]/.exec(text) ??
    []
  expect([Number(total), Number(cut) > 27_000]).toEqual([LONG.length, true])
  expect(readFileSync(file, 'utf8')).toBe(LONG)
  expect(toolCalls[0]?.result).toBe(LONG)

  const again = engineWith([call('read', { path: file, offset: 2_990, limit: 2 }), 'read'])
  const { toolCalls: reads } = await again.run(context({ tools })).result
  expect(JSON.stringify(reads[0]?.result)).toContain('line 2989\\nline 2990')
  expect(existsSync(file)).toBe(true)
})

test('without `read`, and for `read` itself, the cut says that the result is stored', async () => {
  const engine = engineWith([call('lookup'), 'seen'])
  const tools = [lookup({ maxResultChars: 1_000 })]
  const { messages } = await engine.run(context({ tools })).result
  expect(messages[2]?.content).toContain('characters were cut here; the full result is stored …]')

  const { path } = folder()
  const own = createCodingTools(path, { tools: ['read', 'write'] })
  const reading = engineWith([
    call('write', { path: 'a', content: LONG }),
    call('read', { path: 'a' }),
    'ok',
  ])
  const policy = { maxResultChars: 1_000 }
  const result = await reading.run(context({ tools: own, policy })).result
  expect(result.messages[4]?.content).toContain('the full result is stored …]')
})

test('the smaller of the limits of a tool and a policy holds, and a limit that leaves nothing is refused', async () => {
  const lengths = async (maxResultChars: number, ofPolicy: number) => {
    const engine = engineWith([call('lookup'), 'seen'])
    const tools = [lookup({ maxResultChars })]
    const run = engine.run(context({ tools, policy: { maxResultChars: ofPolicy } }))
    return (await run.result).messages[2]?.content.length ?? 0
  }
  for (const length of [await lengths(500, 900), await lengths(900, 500)]) {
    expect(length).toBeGreaterThan(400)
    expect(length).toBeLessThanOrEqual(500)
  }
  const engine = engineWith([])
  const refused = thrown(() => engine.run(context({ tools: [lookup({ maxResultChars: 10 })] })))
  expect([refused.code, refused.field]).toEqual(['invalid_tool', 'tools[0].maxResultChars'])
})
