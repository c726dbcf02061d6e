// Wrong messages and tools of a context: a synchronous AgentEngineError with the path of the wrong member. It must never accept a
// refusal with an effect: after every test the server has received no request and the ledger has no turn.

import { describe, expect, test } from 'vitest'
import { refusals } from '../support/refusals.js'
import { tool } from '../support/tools.js'

const { refusal } = refusals()

describe('history and message', () => {
  const user = { role: 'user', content: 'hi' }
  test.each<[string, unknown, string]>([
    ['a message that is no object', 'hi', 'history[1]'],
    ['null', null, 'history[1]'],
    ['no role', { content: 'x' }, 'history[1].role'],
    ['an unknown role', { role: 'robot', content: 'x' }, 'history[1].role'],
    ['no content', { role: 'user' }, 'history[1].content'],
    ['content of a number', { role: 'user', content: 5 }, 'history[1].content'],
    ['content of an object', { role: 'user', content: {} }, 'history[1].content'],
    [
      'a block without a type',
      { role: 'user', content: [{ text: 'x' }] },
      'history[1].content[0].type',
    ],
    [
      'an unknown block',
      { role: 'user', content: [{ type: 'video' }] },
      'history[1].content[0].type',
    ],
    ['a block of text', { role: 'user', content: ['x'] }, 'history[1].content[0].type'],
    [
      'a text block without text',
      { role: 'user', content: [{ type: 'text' }] },
      'history[1].content[0].text',
    ],
    [
      'the second of two blocks',
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x' },
          { type: 'image', data: 5, mimeType: 'a' },
        ],
      },
      'history[1].content[1].data',
    ],
    ['a result without its call', { role: 'tool', content: 'x' }, 'history[1].toolCallId'],
    ["pi's result without its call", { role: 'toolResult', content: [] }, 'history[1].toolCallId'],
    [
      'a call without a name',
      { role: 'assistant', content: [{ type: 'toolCall', id: 'c', arguments: {} }] },
      'history[1].content[0].name',
    ],
    [
      'a call without an id',
      { role: 'assistant', content: [{ type: 'tool_call', name: 't', argumentsJson: '{}' }] },
      'history[1].content[0].id',
    ],
    [
      'a call whose arguments are text',
      {
        role: 'assistant',
        content: [{ type: 'toolCall', id: 'c', name: 't', arguments: '{"a":1}' }],
      },
      'history[1].content[0].arguments',
    ],
    [
      'a call in a message of the user',
      { role: 'user', content: [{ type: 'toolCall', id: 'c', name: 't', arguments: {} }] },
      'history[1].content[0].type',
    ],
    [
      'a result in a message of the assistant',
      { role: 'assistant', content: [{ type: 'tool_result', toolCallId: 'c', content: 'x' }] },
      'history[1].content[0].type',
    ],
    [
      'a result inside a result',
      {
        role: 'tool',
        content: [
          {
            type: 'tool_result',
            toolCallId: 'c',
            content: [{ type: 'tool_result', toolCallId: 'd', content: 'x' }],
          },
        ],
      },
      'history[1].content[0].content[0].type',
    ],
    [
      'an opaque block that is no JSON',
      { role: 'assistant', content: [{ type: 'opaque', rawJson: '}, {' }] },
      'history[1].content[0].rawJson',
    ],
    ['an id of a number', { id: 5, role: 'user', content: 'x' }, 'history[1].id'],
    ['a time of text', { role: 'user', content: 'x', createdAt: 'now' }, 'history[1].createdAt'],
    [
      'thinking of a number',
      { role: 'assistant', content: 'x', thinking: 5 },
      'history[1].thinking',
    ],
    [
      'isError of text',
      { role: 'tool', toolCallId: 'c', toolName: 't', content: 'x', isError: 'false' },
      'history[1].isError',
    ],
  ])('%s is refused at its path', async (_, message, field) => {
    const refused = await refusal({ history: [user, message] })
    expect(refused.code).toBe('invalid_context')
    expect(refused.field).toBe(field)
  })

  test.each<[string, unknown, string]>([
    ['a text', 'hi', 'currentMessage'],
    ['of the assistant', { role: 'assistant', content: 'x' }, 'currentMessage.role'],
    ['of the system', { role: 'system', content: 'x' }, 'currentMessage.role'],
    ['of a tool', { role: 'tool', toolCallId: 'c', content: 'x' }, 'currentMessage.role'],
    ['without content', { role: 'user' }, 'currentMessage.content'],
  ])('a current message that is %s is refused', async (_, currentMessage, field) => {
    expect(await refusal({ currentMessage })).toMatchObject({ code: 'invalid_context', field })
  })
})

describe('tools', () => {
  const run = () => 'x'
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  test.each<[string, unknown, string]>([
    ['null', null, 'tools[1]'],
    ['a function', run, 'tools[1]'],
    ['no name', { run }, 'tools[1].name'],
    ['a name of a number', { name: 5, run }, 'tools[1].name'],
    ['an empty name', { name: '', run }, 'tools[1].name'],
    ['a name with a space', { name: 'my tool', run }, 'tools[1].name'],
    ['a name with a dot', { name: 'my.tool', run }, 'tools[1].name'],
    ['a name beyond ASCII', { name: 'werkzeugä', run }, 'tools[1].name'],
    ['a name of 65 characters', { name: 'x'.repeat(65), run }, 'tools[1].name'],
    ['a name that is there twice', { name: 'first', run }, 'tools[1].name'],
    ['a function of text', { name: 't', run: 'x' }, 'tools[1].execute'],
    ['a description of a number', { name: 't', run, description: 5 }, 'tools[1].description'],
    ['a schema of text', { name: 't', run, parameters: 'object' }, 'tools[1].parameters'],
    ['a schema of a list', { name: 't', run, parameters: [] }, 'tools[1].parameters'],
    ['a schema of a function', { name: 't', run, parameters: () => ({}) }, 'tools[1].parameters'],
    [
      'a schema with a BigInt',
      { name: 't', run, parameters: { const: 5n } },
      'tools[1].parameters.const',
    ],
    ['an unknown type', { name: 't', run, parameters: { type: 'strnig' } }, 'tools[1].parameters'],
    [
      'properties of a list',
      { name: 't', run, parameters: { properties: [] } },
      'tools[1].parameters',
    ],
    [
      'a pattern that does not compile',
      { name: 't', run, parameters: { properties: { a: { type: 'string', pattern: '(' } } } },
      'tools[1].parameters',
    ],
    [
      'a remote $ref',
      { name: 't', run, parameters: { $ref: 'https://example.com/schema.json' } },
      'tools[1].parameters',
    ],
    [
      'a $ref to a file',
      { name: 't', run, parameters: { $ref: 'file:///etc/passwd' } },
      'tools[1].parameters',
    ],
    [
      'a $ref to nothing',
      { name: 't', run, parameters: { $ref: '#/$defs/none' } },
      'tools[1].parameters',
    ],
    [
      'a schema of 300 KB',
      { name: 't', run, parameters: { description: 'x'.repeat(300_000) } },
      'tools[1].parameters',
    ],
    [
      'an unknown execution mode',
      { name: 't', run, executionMode: 'Parallel' },
      'tools[1].executionMode',
    ],
    ['a limit of 0', { name: 't', run, timeoutMs: 0 }, 'tools[1].timeoutMs'],
    ['a limit of text', { name: 't', run, timeoutMs: '5' }, 'tools[1].timeoutMs'],
    [
      'an endless limit',
      { name: 't', run, timeoutMs: Number.POSITIVE_INFINITY },
      'tools[1].timeoutMs',
    ],
    ['an unknown replay', { name: 't', run, replay: 'maybe' }, 'tools[1].replay'],
    ['retries without replay', { name: 't', run, retries: 1 }, 'tools[1].retries'],
    [
      'retries of an unsafe tool',
      { name: 't', run, retries: 1, replay: 'unsafe' },
      'tools[1].retries',
    ],
    ['negative retries', { name: 't', run, retries: -1, replay: 'pure' }, 'tools[1].retries'],
    [
      'a name that cannot be read',
      {
        run,
        get name() {
          throw new Error('no')
        },
      },
      'tools[1].name',
    ],
    ['a revoked Proxy', revoked.proxy, 'tools[1].name'],
  ])('%s is refused at its path', async (_, wrong, field) => {
    expect(await refusal({ tools: [tool('first', run), wrong] })).toMatchObject({
      code: 'invalid_tool',
      field,
    })
  })

  test('a schema that is too deep is refused', async () => {
    let parameters: unknown = { type: 'string' }
    for (let i = 0; i < 130; i++) parameters = { type: 'object', properties: { a: parameters } }
    expect(await refusal({ tools: [tool('t', run, { parameters })] })).toMatchObject({
      code: 'invalid_tool',
      field: 'tools[0].parameters',
    })
  })
})
