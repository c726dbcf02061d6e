// A server with the key can write it anywhere in its answer. Every text of an answer that is not the model's own is replaced by
// the key, in all its forms, one by one and for every wire API: none must ever reach the disk, an export, an event, a result or a
// warning.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Api } from '../../index.js'
import { context, engineAt, readAll, tempDir, testModel } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { bedrock, frame } from '../support/servers/bedrock.js'
import { chat } from '../support/servers/chat.js'
import { google } from '../support/servers/google.js'
import { responses } from '../support/servers/responses.js'
import { type Handler, testServer } from '../support/servers/server.js'

const KEY = 'canary-7Hq2"&Zx/9+kLw=vB4'
const spelled = [...KEY].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
const hex = Buffer.from(KEY).toString('hex')
const FORMS = [
  KEY,
  JSON.stringify(KEY).slice(1, -1),
  JSON.stringify(JSON.stringify(KEY).slice(1, -1)).slice(1, -1),
  encodeURIComponent(KEY),
  Buffer.from(KEY).toString('base64').replace(/=+$/, ''),
  hex,
  hex.toUpperCase(),
  spelled,
  spelled.replaceAll('\\', '\\\\'),
]
/** The replacements of a text: the key in each form that it can have there. */
const ECHO = `x ${KEY} ${encodeURIComponent(KEY)} ${Buffer.from(KEY).toString('base64')} ${hex} ${hex.toUpperCase()}`

/** Texts of the model itself, which are stored unchanged. */
const CONTENT = new Set([
  'text',
  'thinking',
  'partial_json',
  'content',
  'reasoning_content',
  'arguments',
  'delta',
  'input',
  'refusal',
])

type Path = (string | number)[]

/** The paths of the texts in a value that are not content. */
function leaves(value: unknown, path: Path = []): Path[] {
  if (typeof value === 'string') return CONTENT.has(String(path.at(-1))) ? [] : [path]
  if (value === null || typeof value !== 'object') return []
  // Arguments of a tool are content too.
  return Object.entries(value).flatMap(([name, inner]) =>
    name === 'args' || (name === 'input' && typeof inner === 'object')
      ? []
      : leaves(inner, [...path, Array.isArray(value) ? Number(name) : name]),
  )
}

function replaced(value: any, [first, ...rest]: Path, by: string): any {
  if (first === undefined) return by
  const copy = Array.isArray(value) ? [...value] : { ...value }
  copy[first] = replaced(value[first], rest, by)
  return copy
}

interface Part {
  /** The prefix of the part on the wire: an SSE event's name. */
  before: string
  value: unknown
}

const partsOf = (stream: string): Part[] =>
  stream
    .split('\n\n')
    .filter((part) => part.includes('data: {'))
    .map((part) => {
      const at = part.indexOf('data: ')
      return { before: part.slice(0, at), value: JSON.parse(part.slice(at + 6)) }
    })

const written = (parts: Part[], end = '') =>
  parts.map(({ before, value }) => `${before}data: ${JSON.stringify(value)}\n\n`).join('') + end

const sources: Record<Exclude<Api, 'scripted'>, { stream: string; end?: string }> = {
  'anthropic-messages': {
    stream:
      anthropic.start() +
      anthropic.thinking(0, 'hm', 'c2ln') +
      anthropic.blockStart(1, { type: 'redacted_thinking', data: 'ZW5j' }) +
      anthropic.blockStop(1) +
      anthropic.blockStart(2, {
        type: 'server_tool_use',
        id: 'srv_1',
        name: 'web_search',
        input: {},
      }) +
      anthropic.blockStop(2) +
      anthropic.blockStart(3, {
        type: 'web_search_tool_result',
        tool_use_id: 'srv_1',
        content: [
          {
            type: 'web_search_result',
            url: 'https://a.test',
            title: 'A',
            encrypted_content: 'eA==',
          },
        ],
      }) +
      anthropic.blockStop(3) +
      anthropic.text(4, 'said') +
      anthropic.toolUse(5, 'toolu_1', 'note', { a: 1 }) +
      anthropic.end('tool_use'),
  },
  'openai-chat': {
    stream:
      chat.delta({ role: 'assistant', reasoning_content: 'hm' }) +
      chat.text('said') +
      chat.toolCall(0, 'call_1', 'note', '{"a":1}') +
      chat.finish('tool_calls') +
      chat.usage(12, 3),
    end: chat.done(),
  },
  'openai-responses': {
    stream: responses.of(
      responses.reasoning('rs_1', 'ZW5j', 'hm'),
      {
        type: 'web_search_call',
        id: 'ws_1',
        status: 'completed',
        action: { type: 'search', query: 'q' },
      },
      responses.message('msg_1', 'said'),
      responses.call('fc_1', 'call_1', 'note', { a: 1 }),
    ),
  },
  'google-generative-ai': {
    stream:
      google.thought('hm') +
      google.parts({ text: 'said', thoughtSignature: 'c2ln' }) +
      google.parts({ executableCode: { language: 'PYTHON', code: 'print(1)' } }) +
      google.parts(google.call('note', { a: 1 }, { thoughtSignature: 'c2ln' })) +
      google.finish('STOP'),
  },
  'bedrock-converse': { stream: '' },
}

const ended =
  (code: number, body: string): Handler =>
  (response) =>
    void response.writeHead(code, { 'content-type': 'application/json' }).end(body)

/** The mutated answers of one API: each a handler. */
function mutations(api: Exclude<Api, 'scripted'>): [string, Handler][] {
  const headers = { 'request-id': KEY, 'x-request-id': KEY, 'x-ratelimit-reset-requests': KEY }
  const stream =
    (body: Buffer | string, type: string): Handler =>
    (response) =>
      void response.writeHead(200, { 'content-type': type, ...headers }).end(body)
  const error = {
    type: 'error',
    error: { type: 'e', code: 'c', message: 'm', status: 's', param: 'p' },
    __type: 't',
    message: 'm',
  }
  const refusals = leaves(error).flatMap((path): [string, Handler][] =>
    [400, 401, 404].map((code) => [
      `${code} ${path.join('.')}`,
      ended(code, JSON.stringify(replaced(error, path, ECHO))),
    ]),
  )
  if (api === 'bedrock-converse') {
    const type = 'application/vnd.amazon.eventstream'
    const whole = (id: string, name: string, stop: string, signature: string) =>
      Buffer.concat([
        bedrock.start(),
        bedrock.reasoning(0, 'hm', signature),
        bedrock.text(1, 'said'),
        bedrock.toolUse(2, id, name, '{"a":1}'),
        bedrock.stop(stop),
        bedrock.usage(12, 3),
      ])
    return [
      ['tool id', stream(whole(ECHO, 'note', 'tool_use', 'c2ln'), type)],
      ['tool name', stream(whole('t_1', ECHO, 'tool_use', 'c2ln'), type)],
      ['stop reason', stream(whole('t_1', 'note', ECHO, 'c2ln'), type)],
      ['signature', stream(whole('t_1', 'note', 'tool_use', ECHO), type)],
      [
        'exception',
        stream(
          Buffer.concat([
            bedrock.start(),
            bedrock.exception('validationException', { message: ECHO }),
          ]),
          type,
        ),
      ],
      [
        'exception type',
        stream(Buffer.concat([bedrock.start(), bedrock.exception(KEY, { message: ECHO })]), type),
      ],
      [
        'event type',
        stream(frame({ ':event-type': KEY, ':message-type': 'event' }, { a: ECHO }), type),
      ],
      ...refusals,
    ]
  }
  const { stream: source, end = '' } = sources[api]
  const parts = partsOf(source)
  const changed = parts.flatMap((part, index) =>
    leaves(part.value).map((path): [string, Handler] => {
      const value = replaced(part.value, path, ECHO)
      const mutated = parts.map((other, at) => (at === index ? { ...part, value } : other))
      return [`${index} ${path.join('.')}`, stream(written(mutated, end), 'text/event-stream')]
    }),
  )
  // The key in JSON escapes, in all texts together.
  const all = parts.map(({ before, value }) => {
    const opaque = leaves(value).filter((path) => !['type', 'role'].includes(String(path.at(-1))))
    const marked = opaque.reduce((changed, path) => replaced(changed, path, 'ESCAPED'), value)
    return `${before}data: ${JSON.stringify(marked).replaceAll('ESCAPED', spelled)}\n\n`
  })
  return [
    ...changed,
    ['escapes everywhere', stream(all.join('') + end, 'text/event-stream')],
    ...refusals,
  ]
}

function expectClean(what: string, bytes: Buffer | string) {
  const text = typeof bytes === 'string' ? Buffer.from(bytes) : bytes
  for (const form of FORMS) {
    const at = text.indexOf(form)
    const around = at < 0 ? '' : text.subarray(Math.max(0, at - 120), at + 40).toString('latin1')
    expect(around, `${what}: ${form}`).toBe('')
  }
}

describe.each(Object.keys(sources) as Exclude<Api, 'scripted'>[])('%s', (api) => {
  test('a key that the server writes into any field appears nowhere', async () => {
    const server = await testServer()
    const dir = tempDir()
    const warnings: string[] = []
    const onWarning = (warning: Error) => warnings.push(`${warning.stack}`)
    process.on('warning', onWarning)
    const answers = mutations(api)
    const requested = new Set<number>()
    server.use((response, seen) => {
      const [, number] = /place (\d+) end/.exec(seen.raw) ?? []
      const index = Number(number)
      const [, handler] = answers[index] ?? []
      const first = !requested.has(index)
      requested.add(index)
      return first && handler
        ? handler(response, seen)
        : ended(400, JSON.stringify({ error: { message: 'no more' } }))(response, seen)
    })
    const engine = engineAt(
      server.url,
      {
        ledger: { path: dir.file },
        // One engine each: a refusal of one run must not make another wait.
        authProfiles: answers.map((_, index) =>
          api === 'bedrock-converse'
            ? { id: `p${index}`, provider: 'test', type: 'token' as const, key: KEY }
            : { id: `p${index}`, provider: 'test', key: KEY },
        ),
        models: [testModel],
      },
      { api, ...(api === 'bedrock-converse' ? { region: 'us-east-1' } : {}) },
    )
    const shown: unknown[] = []
    await Promise.all(
      answers.map(async ([position], index) => {
        const run = engine.run(
          context({
            sessionLabel: `agent:main:worker:${index}`,
            currentMessage: { role: 'user', content: `place ${index} end` },
            tools: [{ name: 'note', run: () => 'noted' }],
            authProfileId: `p${index}`,
          }),
          {
            onAgentEvent: (event) => shown.push(event),
            onToolResult: (payload) => shown.push(payload),
          },
        )
        const events = await readAll(run)
        const result = await run.result
        expectClean(`${position}: result`, JSON.stringify(result))
        expectClean(`${position}: events`, JSON.stringify(events))
      }),
    )
    const backup = join(dir.path, 'copy.db')
    await engine.ledger.backup(backup)
    const lines: unknown[] = []
    for (const table of [
      'turns',
      'strings',
      'messages',
      'tool_calls',
      'journal',
      'event_archive',
    ]) {
      lines.push(await engine.ledger.query(`SELECT * FROM ${table}`))
    }
    await engine.ledger.export(join(dir.path, 'out.jsonl'))
    const files = () =>
      readdirSync(dir.path).map((file): [string, Buffer] => [
        file,
        readFileSync(join(dir.path, file)),
      ])
    const open = files()
    await engine.close()
    await server.close()
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', onWarning)
    expect(open.map(([file]) => file)).toContain('copy.db')
    expect(requested.size).toBe(answers.length)
    for (const [file, bytes] of [...open, ...files()]) expectClean(file, bytes)
    expectClean('rows', JSON.stringify(lines))
    expectClean('callbacks', JSON.stringify(shown))
    expectClean('warnings', warnings.join('\n'))
    dir.remove()
  })
})
