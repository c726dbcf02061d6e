// The functions that pi 0.73 has beside those of 0.54, and the calls under the names of its providers. It must never call a real model.

import * as pi from 'pi-ai-073'
import { afterEach, expect, test, vi } from 'vitest'
import * as ours from '../../../pi-ai.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, wires } from './wires.js'

const server = serverPerTest(() => sse(wires.anthropic.text('Hello.')))
afterEach(() => void vi.unstubAllEnvs())

test.each([
  '{"a":"one"}',
  '{"a":"line\nbreak\tand\u0001more"}',
  '{"a":"C:\\dir\\new"}',
  '{"a":"\\d+ \\" \\u00e9"}',
  '{"a\n":[1,"\r"',
  '"open \\',
  '',
  'no json',
])('broken JSON is mended as by pi: %j', (json) => {
  expect(ours.repairJson(json)).toBe(pi.repairJson(json))
})

test('JSON that can be mended is read, and other JSON is refused', () => {
  expect(ours.parseJsonWithRepair('{"a":"C:\\users\n"}')).toEqual({ a: 'C:\\users\n' })
  expect(() => ours.parseJsonWithRepair('{"a":')).toThrow(SyntaxError)
  expect(() => ours.parseJsonWithRepair('{"a":"\n"')).toThrow(SyntaxError)
})

const levels = ['off', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const

test.each([
  { reasoning: false },
  { reasoning: true },
  { reasoning: true, thinkingLevelMap: { xhigh: 'max', minimal: null } },
  { reasoning: true, thinkingLevelMap: { off: null, low: null, xhigh: null } },
])('levels of thinking are those of pi: %j', (changes) => {
  const model: any = { ...modelAt(wires.anthropic, ''), id: 'some-model', ...changes }
  expect(ours.getSupportedThinkingLevels(model)).toEqual(pi.getSupportedThinkingLevels(model))
  for (const level of levels) {
    expect(ours.clampThinkingLevel(model, level)).toBe(pi.clampThinkingLevel(model, level))
  }
})

test('variables with keys are found as by pi', () => {
  vi.stubEnv('ANTHROPIC_API_KEY', 'one')
  vi.stubEnv('GITHUB_TOKEN', 'two')
  vi.stubEnv('GH_TOKEN', 'three')
  vi.stubEnv('XIAOMI_API_KEY', 'four')
  vi.stubEnv('CLOUDFLARE_API_KEY', 'five')
  const names = ['anthropic', 'github-copilot', 'xiaomi', 'cloudflare-ai-gateway', 'openai', 'none']
  for (const name of names) expect(ours.findEnvKeys(name)).toEqual(pi.findEnvKeys(name))
  expect(ours.findEnvKeys('github-copilot')).toEqual(['GH_TOKEN', 'GITHUB_TOKEN'])
})

test('a call under the name of a provider is the engine’s, whatever is registered', async () => {
  const messages = [{ role: 'user' as const, content: 'hi', timestamp: 1 }]
  const model = modelAt(wires.anthropic, server.url)
  const refuse = () => {
    throw new Error('not this one')
  }
  const api = 'anthropic-messages'
  ours.registerApiProvider({ api, stream: refuse, streamSimple: refuse })
  try {
    const stream = ours.streamAnthropic(
      model,
      { messages },
      {
        apiKey: 'sk-x',
        thinkingEnabled: true,
        thinkingBudgetTokens: 2_048,
      },
    )
    const simple = ours.streamSimpleAnthropic(model, { messages }, { apiKey: 'sk-x' })
    for (const one of [stream, simple]) {
      expect(await one.result()).toMatchObject({
        content: [{ text: 'Hello.' }],
        stopReason: 'stop',
      })
    }
  } finally {
    ours.resetApiProviders()
  }
  const thinking = server.seen.map(({ body }: any) => body.thinking?.budget_tokens)
  expect(thinking.sort()).toEqual([2_048, undefined])
})
