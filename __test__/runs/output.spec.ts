// The output of a run: parsed, validated, repaired by the model, and what its result and its ledger have. It must never accept an answer
// that does not fit.

import { Type } from '@sinclair/typebox'
import { toJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { AgentResult, AssembledContext } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine } from '../support/engine.js'
import { leasesEnd } from '../support/ledger/named.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse, status } from '../support/servers/server.js'
import { callTools, deferred, tool } from '../support/tools.js'

const city = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
}
const closed = { ...city, additionalProperties: false }
const good = '{"city":"Bonn"}'
const bonn = { city: 'Bonn' }
const invalid = { kind: 'output_invalid', code: 'output_invalid' }

/** An engine at a server that gives these answers. */
async function answering(...texts: string[]) {
  const { file } = folder()
  const server = await serving(...texts.map((text) => sse(anthropic.answer(text))))
  return { server, engine: closing(engineAt(server.url, { ledger: { path: file } })) }
}

/** The result of a scripted run, and the calls of the model. */
async function scriptedRun(replies: Parameters<typeof scriptedEngine>[0], changes: object) {
  const { engine, provider } = scriptedEngine(replies)
  const result = await closing(engine).run(context(changes)).result
  return { result, calls: provider.requests.length }
}

const outcome = ({ stopReason, error, output }: AgentResult) => [stopReason, error?.detail, output]

describe('the answer', () => {
  test('that fits is the output, and the request has the schema with its objects closed', async () => {
    const { server, engine } = await answering(good)
    const { output, text, stopReason } = await engine.run(context({ output: city })).result
    expect([output, text, stopReason]).toEqual([bonn, good, 'end_turn'])
    expect(server.seen.map(({ body }) => body.output_config)).toEqual([
      { format: { type: 'json_schema', schema: closed } },
    ])
  })

  test('of a `responseFormat` with a schema is validated too, and that schema is sent as it is', async () => {
    const { server, engine } = await answering(good)
    const responseFormat = { type: 'json_schema' as const, schema: city }
    const { output } = await engine.run(context({ responseFormat })).result
    expect(output).toEqual(bonn)
    expect(server.seen.map(({ body }) => body.output_config)).toEqual([{ format: responseFormat }])
  })

  test('may stand in a code fence, and may be any JSON', async () => {
    for (const [text, value] of [
      ['```json\n{"city":"Bonn"}\n```', bonn],
      ['```\n[1, 2]\n```\n', [1, 2]],
      [' null ', null],
      ['"```"', '```'],
    ] as const) {
      const { result } = await scriptedRun([text], { output: {}, outputRetries: 0 })
      expect([result.output, result.text]).toEqual([value, text])
    }
  })

  test('after tools is the output, and answers with calls are not', async () => {
    const look = tool('look', () => 'Bonn')
    const { result, calls } = await scriptedRun([callTools(['look']), good], {
      tools: [look],
      output: city,
    })
    expect(outcome(result)).toEqual(['end_turn', undefined, bonn])
    expect(calls).toBe(2)
  })

  test('is not validated where the run has no output, or ends otherwise', async () => {
    const look = tool('look', () => 'Bonn')
    const plain = await scriptedRun(['no JSON'], {})
    expect(outcome(plain.result)).toEqual(['end_turn', undefined, undefined])
    expect('output' in plain.result).toBe(false)
    const stopped = await scriptedRun([callTools(['look'])], {
      tools: [look],
      output: city,
      stopWhen: () => true,
    })
    expect(outcome(stopped.result)).toEqual(['tool_use', undefined, undefined])
    const failed = await scriptedRun([{ error: { status: 401, message: 'no' } }], { output: city })
    expect(failed.result.stopReason).toBe('error')
    expect('output' in failed.result).toBe(false)
  })
})

describe('a repair', () => {
  test('is a message and an answer of the same turn, in the result, the events and the ledger', async () => {
    const { server, engine } = await answering('{"town":"Bonn"}', good)
    const run = engine.run(context({ runId: 'r', output: city }))
    const events = await readAll(run)
    const result = await run.result
    expect(outcome(result)).toEqual(['end_turn', undefined, bonn])
    expect(result.messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'hi'],
      ['assistant', '{"town":"Bonn"}'],
      [
        'user',
        'Your answer does not fit the JSON Schema of the output:\n' +
          "  - root: must NOT have additional properties ('town')\n" +
          "  - city: must have required property 'city'\n" +
          'Answer again with the whole JSON alone.',
      ],
      ['assistant', good],
    ])
    expect(result.attempts.map(({ ok }) => ok)).toEqual([true, true])
    expect([result.usage.inputTokens, result.usage.outputTokens]).toEqual([20, 10])
    const request = result.messages[2]?.content
    expect(events.filter((event) => event.type === 'user_message')).toMatchObject([
      { text: request },
    ])
    expect(events.flatMap((event) => (event.type === 'stream_end' ? [event.final] : []))).toEqual([
      false,
      true,
    ])
    const turn = await engine.ledger.turn(result.turnId)
    expect(turn?.status).toBe('completed')
    expect(turn?.messages.map(({ content }) => content)).toEqual(
      result.messages.map(({ content }) => content),
    )
    expect(server.seen.map(({ body }) => body.messages.length)).toEqual([1, 3])
  })

  test('fails the run after the last of them, with the last answer as its text', async () => {
    for (const [outputRetries, calls] of [
      [0, 1],
      [undefined, 2],
      [2, 3],
    ] as const) {
      const { server, engine } = await answering('no JSON')
      const run = engine.run(context({ output: city, outputRetries }))
      const events = await readAll(run)
      const result = await run.result
      expect(outcome(result)).toEqual(['error', invalid, undefined])
      expect([result.error?.kind, result.error?.retryable, result.text]).toEqual([
        'model_error',
        false,
        'no JSON',
      ])
      expect(events.at(-1)).toMatchObject({
        type: 'stream_error',
        kind: 'model_error',
        partial: true,
      })
      expect((await engine.ledger.turn(result.turnId))?.status).toBe('failed')
      expect(server.seen).toHaveLength(calls)
    }
  })

  test('is not requested of an answer that was cut off', async () => {
    const { file } = folder()
    const cut = anthropic.start() + anthropic.text(0, '{"city":"Bo') + anthropic.end('max_tokens')
    const server = await serving(sse(cut))
    const engine = closing(engineAt(server.url, { ledger: { path: file } }))
    const result = await engine.run(context({ output: city })).result
    expect(outcome(result)).toEqual(['error', invalid, undefined])
    expect(result.error?.message).toContain('was cut off; raise `maxResponseTokens`')
    expect(server.seen).toHaveLength(1)
  })

  test('counts as an iteration', async () => {
    const { result, calls } = await scriptedRun(['no', good], { output: city, maxIterations: 1 })
    expect(outcome(result)).toEqual(['error', invalid, undefined])
    expect([result.messages.length, calls]).toEqual([2, 1])
  })

  test('counts for a budget', async () => {
    const { file } = folder()
    const server = await serving(sse(anthropic.answer('no', { input: 900 })))
    const budgets = [{ maxTokens: 1_000, per: 'day' as const }]
    const engine = closing(engineAt(server.url, { ledger: { path: file }, budgets }))
    const result = await engine.run(context({ output: city, maxResponseTokens: 50 })).result
    expect(result.error?.detail.kind).toBe('budget_exceeded')
    expect(server.seen).toHaveLength(1)
  })

  test('continues with another key where one fails', async () => {
    const { file } = folder()
    const server = await serving(
      sse(anthropic.answer('{}')),
      status(429, { error: { type: 'rate_limit_error', message: 'slow down' } }),
      sse(anthropic.answer(good)),
    )
    const authProfiles = ['one', 'two'].map((id) => ({
      id,
      provider: 'test',
      type: 'api_key' as const,
      key: `sk-${id}`,
    }))
    const engine = closing(engineAt(server.url, { ledger: { path: file }, authProfiles }))
    const result = await engine.run(context({ output: city })).result
    expect(result.output).toEqual(bonn)
    expect(result.attempts.map(({ ok }) => ok)).toEqual([true, false, true])
  })

  test('gives way to a message that was sent to the run: then the answer to that is the output', async () => {
    const steps = [{ text: 'no JSON' }, { gate: 'g' }]
    const { engine, provider } = scriptedEngine([{ steps }, good])
    const run = closing(engine).run(context({ output: city, outputRetries: 0 }))
    for await (const { type } of run.events()) if (type === 'token') break
    expect(run.steer('As JSON, please.')).toBe(true)
    provider.open('g')
    const result = await run.result
    expect(outcome(result)).toEqual(['end_turn', undefined, bonn])
    expect(result.messages.map(({ content }) => content)).toEqual([
      'hi',
      'no JSON',
      'As JSON, please.',
      good,
    ])
  })

  test('is not spared by a message that comes too late to be answered', async () => {
    const steps = [{ text: 'no JSON' }, { gate: 'g' }]
    const { engine, provider } = scriptedEngine([{ steps }, good])
    const run = closing(engine).run(context({ output: city, maxIterations: 1 }))
    for await (const { type } of run.events()) if (type === 'token') break
    expect(run.steer('As JSON, please.')).toBe(true)
    provider.open('g')
    const result = await run.result
    expect(outcome(result)).toEqual(['error', invalid, undefined])
    expect(result.undeliveredSteering).toEqual(['As JSON, please.'])
  })

  test('of before a kill counts after it', async () => {
    const { file } = folder()
    const child = killable('runs/output.mjs', [file])
    await child.line('repairing')
    child.kill()
    await child.ended
    for (const [answer, expected] of [
      ['no JSON again', ['error', invalid, undefined]],
      [good, ['end_turn', undefined, bonn]],
    ] as const) {
      const copy = folder().file
      const { engine, provider } = scriptedEngine([answer], { ledger: { path: file } })
      await engine.ledger.backup(copy)
      await engine.close()
      const other = scriptedEngine([answer], { ledger: { path: copy } })
      const [turn] = await closing(other.engine).recover()
      expect(turn?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
      const run = await other.engine.resume(turn?.turnId ?? '')
      const result = await run.result
      expect(outcome(result)).toEqual(expected)
      expect(result.messages.map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'user',
        'assistant',
      ])
      expect([provider.requests.length, other.provider.requests.length]).toEqual([0, 1])
    }
  })
})

describe('a library', () => {
  const schema = z.object({
    city: z.string().transform((name) => name.toUpperCase()),
    code: z.string().refine((code) => code === '53111', 'is not the code of Bonn'),
  })

  test('validates after the JSON Schema, and its value is the output', async () => {
    const { server, engine } = await answering(
      '{"city":"Bonn","code":"1"}',
      '{"city":"Bonn","code":"53111"}',
    )
    const { output, messages } = await engine.run(context({ output: schema })).result
    expect(output).toEqual({ city: 'BONN', code: '53111' })
    expect(messages[2]?.content).toContain('\n  - code: is not the code of Bonn\n')
    expect(server.seen).toHaveLength(2)
  })

  test('may be any with Standard Schema, and its schema is strict where a service can be', async () => {
    const sent = async (output: unknown) => {
      const { result, calls } = await scriptedRun([good], { output, outputRetries: 0 })
      expect([result.output, calls]).toEqual([bonn, 1])
      const server = await serving(sse(chat.answer(good)))
      const engine = engineAt(server.url, {}, { api: 'openai-chat' })
      await closing(engine).run(context({ output } as Partial<AssembledContext>)).result
      return server.seen[0]?.body.response_format.json_schema
    }
    const strict = { name: 'answer', strict: true, schema: closed }
    expect(await sent(z.object({ city: z.string() }))).toEqual(strict)
    expect(await sent(type({ city: 'string' }))).toEqual(strict)
    expect(await sent(Type.Object({ city: Type.String() }))).toEqual(strict)
    const optional = z.object({ city: z.string(), code: z.string().optional() })
    expect(await sent(optional)).toMatchObject({
      strict: false,
      schema: { additionalProperties: false, required: ['city'] },
    })
    const both = Type.Intersect([Type.Object({ city: Type.String() }), Type.Object({})])
    const { schema, strict: isStrict } = await sent(both)
    expect([isStrict, JSON.stringify(schema).includes('"additionalProperties":false')]).toEqual([
      false,
      false,
    ])
  })

  test('without JSON Schema of its own goes beside that of the `responseFormat`', async () => {
    const output = v.pipe(
      v.object({ city: v.string() }),
      v.transform(({ city }) => city.length),
    )
    const refused = () => context({ output } as Partial<AssembledContext>)
    const { server, engine } = await answering(good)
    expect(await refusal((async () => engine.run(refused()))())).toEqual({
      code: 'invalid_context',
      field: 'output',
    })
    const schema = toJsonSchema(v.object({ city: v.string() }))
    const responseFormat = { type: 'json_schema' as const, schema, strict: false }
    const result = await engine.run(context({ output, responseFormat })).result
    expect(result.output).toBe(4)
    expect(server.seen).toHaveLength(1)
  })

  test('that throws is a reason for a repair, and its message is in the request', async () => {
    const throwing = z.object({ city: z.string() }).transform(() => {
      throw new Error('the library failed')
    })
    const { result } = await scriptedRun([good], { output: throwing, outputRetries: 0 })
    expect(outcome(result)).toEqual(['error', invalid, undefined])
    expect(result.error?.message).toContain('\n  - root: the library failed')
  })

  test('that is still busy when the run is aborted leaves it without an output', async () => {
    const begun = deferred<void>()
    const never = z.object({ city: z.string() }).refine(() => {
      begun.resolve()
      return new Promise<boolean>(() => {})
    })
    const { engine } = scriptedEngine([good])
    const run = closing(engine).run(context({ output: never }))
    await begun.promise
    run.abort()
    const result = await run.result
    expect([result.stopReason, 'output' in result, result.text]).toEqual(['aborted', false, good])
  })

  test('validates for a resumed turn where it is passed again', async () => {
    const { file } = folder()
    const child = killable('runs/output.mjs', [file])
    await child.line('repairing')
    child.kill()
    await child.ended
    leasesEnd(file)
    const { engine } = scriptedEngine([good], { ledger: { path: file } })
    const [turn] = await closing(engine).recover()
    const output = z.object({ city: z.string().transform((name) => name.length) })
    const run = await engine.resume(turn?.turnId ?? '', { output })
    expect((await run.result).output).toEqual({ city: 4 })
  })
})

test('the same submit again has the output of the first run, and no other schema', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine([good], { ledger: { path: file } })
  closing(engine)
  const submit = (output: object) =>
    engine.run(context({ runId: 'r', onDuplicateRun: 'attach', output } as object)).result
  const schema = z.object({ city: z.string().transform((name) => name.length) })
  expect((await submit(schema)).output).toEqual({ city: 4 })
  expect((await submit(schema)).output).toEqual({ city: 4 })
  const other = z.object({ city: z.string().max(3) })
  expect(await refusal(submit(other))).toEqual({ code: 'invalid_context', field: 'output' })
  expect(provider.requests).toHaveLength(1)
  expect('output' in (await engine.resultOf('r'))).toBe(false)
})

test('a schema that cannot be used is refused before anything is sent', async () => {
  const { server, engine } = await answering(good)
  const refused = (changes: object) => refusal((async () => engine.run(context(changes)))())
  const at = (field: string) => ({ code: 'invalid_context', field })
  const json = (schema: unknown) => ({ type: 'json_schema', schema })
  expect(await refused({ output: { type: 'objekt' } })).toEqual(at('output'))
  expect(await refused({ output: 5 })).toEqual(at('output'))
  expect(await refused({ output: { city: z.string() } })).toEqual(at('output'))
  expect(await refused({ output: z.object({ at: z.date() }) })).toEqual(at('output'))
  expect(await refused({ responseFormat: json({ type: 'objekt' }) })).toEqual(
    at('responseFormat.schema'),
  )
  expect(await refused({ output: city, outputRetries: 11 })).toEqual(at('outputRetries'))
  expect(await refused({ output: city, outputRetries: -1 })).toEqual(at('outputRetries'))
  expect(await refused({ output: city, responseFormat: json(city) })).toEqual(at('output'))
  expect(await refused({ output: z.object({}), responseFormat: { type: 'json_object' } })).toEqual(
    at('output'),
  )
  expect(server.seen).toHaveLength(0)
})
