// Services by configuration: a name, a flavour or a host, and the differences of their requests and answers. It asserts on the
// raw requests of a loopback server. Which hosts get a usual key is tested in Rust, where hosts are data. It must never call a
// real service.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentTool, type AssembledContext } from '../../index.js'
import { context, engineAt, tempDir, testModel, textOf } from '../support/engine.js'
import { chat } from '../support/servers/chat.js'
import { type Handler, sse, status } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'

const KEY = 'sk-test-canary-0123456789'

const server = serverPerTest(() => sse(chat.answer('ok')))

/** One run against the server with an engine of its own. */
const runOnce = (
  provider: Record<string, unknown>,
  changes: Partial<AssembledContext> = {},
  path = '/v1',
) => singleRun(engineAt(`${server.url}${path}`, {}, { api: undefined, ...provider }), changes)

const event = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`
const answers = (...handlers: Handler[]) => server.use(...handlers)

const echo: AgentTool = {
  name: 'echo',
  description: 'Echoes.',
  parameters: { type: 'object' },
  run: (params) => `echo ${JSON.stringify(params)}`,
}

/** A tool with an image in its result, which is sent in a user message right after the tool's. */
const look: AgentTool = {
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object' },
  execute: () => ({ content: [{ type: 'image', mimeType: 'image/png', data: 'aGk=' }] }),
}

describe('a flavour', () => {
  test('sets the API, and the fields of the service', async () => {
    await runOnce({ flavor: 'vllm' })
    await runOnce({ flavor: 'mistral' })
    const [vllm, mistral] = server.seen
    expect([vllm?.path, mistral?.path]).toEqual(['/v1/chat/completions', '/v1/chat/completions'])
    expect(vllm?.body.stream_options).toEqual({ include_usage: true })
    expect(mistral?.body.stream_options).toBeUndefined()
    expect([vllm?.body.max_tokens, mistral?.body.max_tokens]).toEqual([8192, 8192])
    expect(vllm?.headers.authorization).toBe(`Bearer ${KEY}`)
  })

  test('is the provider’s name if the host does not decide it', async () => {
    const engine = new AgentEngine({
      providers: { openrouter: { baseUrl: `${server.url}/api/v1` } },
      models: [{ ...testModel, provider: 'openrouter', reasoning: true }],
    })
    const thinkingConfig = { type: 'enabled' as const, budgetTokens: 2000 }
    await engine.run(context({ provider: 'openrouter', thinkingConfig })).result
    await engine.close()
    expect(server.seen[0]?.path).toBe('/api/v1/chat/completions')
    expect(server.seen[0]?.body.reasoning).toEqual({ max_tokens: 2000 })
    expect(server.seen[0]?.headers.authorization).toBeUndefined()
  })

  test('that is unknown, or an unsupported option, is refused with its field', () => {
    const refused = (provider: Record<string, unknown>) => {
      try {
        new AgentEngine({ providers: { x: { baseUrl: `${server.url}/v1`, ...provider } } })
      } catch (error) {
        return error as { code: string; message: string }
      }
      throw new Error('accepted')
    }
    const cases: [Record<string, unknown>, RegExp][] = [
      [{ flavor: 'vlmm' }, /`providers\.x\.flavor`: `vlmm` is not known; pass one of .*vllm/],
      [{ flavor: 7 }, /`providers\.x\.flavor`/],
      [{ flavor: 'groq', apiVersion: '2024-10-21' }, /`providers\.x\.apiVersion`: is for `flavor/],
      [{ flavor: 'azure', apiVersion: '2024 x' }, /`providers\.x\.apiVersion`: is not a version/],
      [{ flavor: 'azure', deployment: 'd' }, /`providers\.x\.deployment`: is for a dated/],
      [{}, /`providers\.x\.api`: is missing/],
    ]
    for (const [provider, message] of cases) {
      const error = refused(provider)
      expect([error.code, error.message]).toEqual([
        'invalid_options',
        expect.stringMatching(message),
      ])
    }
  })

  test('with a known name needs no other option', async () => {
    const engine = new AgentEngine({
      providers: { groq: {}, openrouter: {}, ollama: {}, mistral: {}, xai: {}, lmstudio: {} },
    })
    await engine.close()
  })
})

describe('Azure', () => {
  const azure = { flavor: 'azure' }

  test('has the deployment in the path, the version in the query, the key in `api-key`', async () => {
    await runOnce({ ...azure, apiVersion: '2024-10-21' }, {}, '')
    await runOnce({ ...azure, apiVersion: '2024-10-21', deployment: 'my gpt' }, {}, '/team')
    await runOnce(azure, {}, '')
    await runOnce(azure, {}, '/openai/v1')
    expect(server.seen.map(({ path }) => path)).toEqual([
      '/openai/deployments/test-model/chat/completions?api-version=2024-10-21',
      '/team/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21',
      '/openai/v1/chat/completions',
      '/openai/v1/chat/completions',
    ])
    for (const { headers } of server.seen) {
      expect([headers['api-key'], headers.authorization]).toEqual([KEY, undefined])
    }
  })

  test('gets an Entra token as bearer', async () => {
    const engine = new AgentEngine({
      providers: { test: { ...azure, baseUrl: server.url } },
      authProfiles: [{ id: 'entra', provider: 'test', type: 'token', key: KEY }],
      models: [testModel],
    })
    await engine.run(context()).result
    await engine.close()
    const { headers } = server.seen[0] ?? { headers: {} }
    expect([headers['api-key'], headers.authorization]).toEqual([undefined, `Bearer ${KEY}`])
  })

  test('may refuse a prompt by its filter, and the error never has the key', async () => {
    const error = {
      message: `The prompt with ${KEY} triggered Azure OpenAI's content management policy.`,
      code: 'content_filter',
      status: 400,
      innererror: { code: 'ResponsibleAIPolicyViolation' },
    }
    answers(status(400, { error }))
    const { result } = await runOnce(azure, {}, '')
    expect([result.error?.kind, result.error?.detail?.kind]).toEqual(['model_error', 'refusal'])
    expect(JSON.stringify(result)).not.toContain(KEY)
  })
})

describe('Mistral', () => {
  test('gets an assistant message between a tool’s and the user’s message', async () => {
    answers(sse(chat.calls(['a1B2c3D4e', 'look', {}])), sse(chat.answer('done')))
    await runOnce({ flavor: 'mistral' }, { tools: [look] })
    const messages: { role: string; tool_call_id?: string }[] = server.seen[1]?.body.messages
    expect(messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
    ])
    expect(messages[3]?.tool_call_id).toBe('a1B2c3D4e')
  })

  test('gets ids of nine letters or digits for another model’s calls, the same for the call and its result', async () => {
    answers(sse(chat.answer('done')))
    const call = { type: 'tool_call' as const, id: 'call_1', name: 'echo', argumentsJson: '{}' }
    const result = {
      type: 'tool_result' as const,
      toolCallId: 'call_1',
      toolName: 'echo',
      content: [{ type: 'text' as const, text: 'said' }],
      isError: false,
    }
    await runOnce(
      { flavor: 'mistral' },
      {
        tools: [echo],
        history: [
          { role: 'user', content: 'earlier' },
          { role: 'assistant', content: '', blocks: [call] },
          { role: 'tool', content: 'said', toolCallId: 'call_1', blocks: [result] },
          { role: 'assistant', content: 'So it is.' },
        ],
      },
    )
    const messages: { tool_calls?: { id: string }[]; tool_call_id?: string }[] =
      server.seen[0]?.body.messages
    const id = messages.find((message) => message.tool_calls)?.tool_calls?.[0]?.id
    expect(id).toMatch(/^[A-Za-z0-9]{9}$/)
    expect(messages.find((message) => message.tool_call_id)?.tool_call_id).toBe(id)
  })

  test('has thinking in parts of the content', async () => {
    answers(
      sse(
        chat.delta({
          content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] }],
        }),
        chat.delta({ content: [{ type: 'text', text: 'Yes.' }] }),
        chat.finish('stop'),
        chat.done(),
      ),
    )
    const { events, result } = await runOnce({ flavor: 'mistral' })
    expect([textOf(events), result.stopReason]).toEqual(['Yes.', 'end_turn'])
  })

  test('reports an error with 200, which is no answer', async () => {
    const error = {
      object: 'error',
      message: 'Unexpected role',
      type: 'invalid_request_message_order',
    }
    answers(sse(event(error)))
    const { result } = await runOnce({ flavor: 'mistral' })
    expect([result.stopReason, result.error?.detail?.kind]).toEqual(['error', 'format'])
  })
})

describe('reasoning is sent back unchanged', () => {
  test('to DeepSeek beside every call, even if there was none', async () => {
    const call = (id: string) => [
      chat.toolCall(0, id, 'echo', '{}'),
      chat.finish('tool_calls'),
      chat.done(),
    ]
    answers(
      sse(chat.delta({ reasoning_content: 'Hm' }), ...call('call_1')),
      sse(...call('call_2')),
      sse(chat.answer('done')),
    )
    await runOnce({ flavor: 'deepseek' }, { tools: [echo] })
    const messages: { role: string; reasoning_content?: string }[] = server.seen[2]?.body.messages
    const requested = messages.filter(({ role }) => role === 'assistant')
    expect(requested.map(({ reasoning_content }) => reasoning_content)).toEqual(['Hm', ''])
  })

  test('to OpenRouter with every signature and encrypted part', async () => {
    const detail = { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0 }
    const encrypted = { type: 'reasoning.encrypted', data: 'ZW5j/+==', id: 'rs_1', index: 1 }
    const piece = (...reasoning_details: object[]) => chat.delta({ reasoning_details })
    answers(
      sse(
        ': OPENROUTER PROCESSING\n\n',
        piece({ ...detail, text: 'Th' }),
        piece({ ...detail, text: 'ink' }),
        piece({ ...detail, signature: 'c2ln/+==' }),
        piece(encrypted),
        chat.toolCall(0, 'call_1', 'echo', '{}'),
        chat.finish('tool_calls'),
        chat.finish('tool_calls'),
        chat.done(),
      ),
      sse(chat.answer('done')),
    )
    const { result } = await runOnce({ flavor: 'openrouter' }, { tools: [echo] })
    expect(result.toolCalls).toHaveLength(1)
    const messages: { role: string; reasoning_details?: unknown }[] = server.seen[1]?.body.messages
    expect(messages.find(({ role }) => role === 'assistant')?.reasoning_details).toEqual([
      { ...detail, text: 'Think', signature: 'c2ln/+==' },
      encrypted,
    ])
  })

  test('in the next run of a session, from the ledger', async () => {
    const folder = tempDir()
    answers(
      sse(
        chat.delta({ reasoning_content: 'Hm' }),
        chat.toolCall(0, 'call_1', 'echo', '{}'),
        chat.finish('tool_calls'),
        chat.done(),
      ),
      sse(chat.answer('done')),
    )
    const engine = engineAt(
      `${server.url}/v1`,
      { ledger: { path: folder.file } },
      { api: undefined, flavor: 'moonshot' },
    )
    await engine.run(context({ tools: [echo] })).result
    await engine.run(context({ tools: [echo] })).result
    await engine.close()
    folder.remove()
    const messages: { tool_calls?: unknown; reasoning_content?: string }[] =
      server.seen[2]?.body.messages
    const call = messages.find(({ tool_calls }) => tool_calls !== undefined)
    expect(call?.reasoning_content).toBe('Hm')
  })
})

describe('Groq', () => {
  test('has its usage in `x_groq`', async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 }
    answers(
      sse(
        chat.text('Yes'),
        event({
          choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
          x_groq: { id: 'req_1', usage },
        }),
        chat.done(),
      ),
    )
    const { result } = await runOnce({ flavor: 'groq' })
    expect([result.usage.inputTokens, result.usage.outputTokens, result.usageEstimated]).toEqual([
      7,
      2,
      false,
    ])
  })

  test('is called again when it could not parse the call of its model', async () => {
    const error = {
      message: "Failed to call a function. See 'failed_generation' for more details.",
      type: 'invalid_request_error',
      code: 'tool_use_failed',
      failed_generation: '<function=echo{>',
    }
    answers(status(400, { error }), sse(chat.answer('ok')))
    const { events, result } = await runOnce({ flavor: 'groq' }, { tools: [echo] })
    expect([textOf(events), result.attempts.map(({ status }) => status)]).toEqual([
      'ok',
      [400, 200],
    ])
  })

  test('that stops early with `x_groq.error` has not answered', async () => {
    const choices = [{ index: 0, delta: {}, finish_reason: 'stop' }]
    answers(sse(chat.text('Ye'), event({ choices, x_groq: { error: 'over capacity' } })))
    const { result } = await runOnce({ flavor: 'groq' })
    expect([result.stopReason, result.error?.detail?.kind]).toEqual(['error', 'overloaded'])
  })
})
