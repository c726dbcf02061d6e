// The ids of calls on the wire: the server that sent an id gets it back byte for byte, and another one gets an id of its own
// alphabet, which must never change.

import { describe, expect, test } from 'vitest'
import { closing, folder, serving } from '../../support/cleanup.js'
import { context, engineAt, readAll, testModel } from '../../support/engine.js'
import { type WireApi, wireApis } from '../../support/servers/wire-apis.js'

/** A gateway's id with a signature in it, as LiteLLM does with Gemini's. */
const packed = `call_7a21__thought__${'Eq+/'.repeat(130)}==`
const odd = 'functions.read:0|fc_é 1'
const ids = [packed, odd]

const other = { ...testModel, id: 'other-model' }
const models = [testModel, other]

const read = { name: 'read', parameters: { type: 'object' }, run: () => 'content' }

async function session(wire: WireApi) {
  const server = await serving(
    wire.calls(ids.map((id) => [id, 'read'])),
    wire.answer('one'),
    wire.answer('more'),
  )
  const ledger = { path: folder().file }
  const engineOf = () =>
    closing(engineAt(server.url, { ledger, models }, { api: wire.api, ...wire.provider }))
  const engine = engineOf()
  const run = engine.run(context({ tools: [read] }))
  const events = await readAll(run)
  const result = await run.result
  const runNext = async (changes = {}, by = engine) => {
    await by.run(
      context({ tools: [read], currentMessage: { role: 'user', content: 'next' }, ...changes }),
    ).result
    const seen = server.seen.at(-1)
    if (seen === undefined) throw new Error('nothing was requested')
    return seen
  }
  return { server, engine, engineOf, events, result, runNext }
}

describe.each(wireApis)('ids of $api', (wire) => {
  const sent = (seen: Parameters<WireApi['sentCalls']>[0]) => ({
    calls: wire.sentCalls(seen).map(wire.idOf),
    results: wire.sentResults(seen),
  })
  const own = { calls: ids, results: ids }

  test('are sent back byte for byte within the run, in the next one, in a fork and after a restart', async () => {
    const { server, engine, engineOf, events, result, runNext } = await session(wire)
    expect(result.stopReason).toBe('end_turn')
    expect(server.seen).toHaveLength(2)
    expect(sent(server.seen[1] as never)).toEqual(own)
    expect(sent(await runNext())).toEqual(own)
    const fork = await engine.ledger.fork(result.turnId)
    expect(sent(await runNext({ sessionLabel: fork.label }))).toEqual(own)
    await engine.close()
    expect(sent(await runNext({}, engineOf()))).toEqual(own)
    const statuses = events.filter((event) => event.type === 'tool_status')
    expect(new Set(statuses.map((event) => event.toolCallId))).toEqual(new Set(ids))
  })

  test('are whole in the result and in the ledger', async () => {
    const { engine, result } = await session(wire)
    expect(result.toolCalls.map((call) => call.id)).toEqual(ids)
    const { rows } = await engine.ledger.query(
      'SELECT provider_call_id FROM tool_calls ORDER BY sequence',
    )
    expect(rows.map((row) => Object.values(row)[0])).toEqual(ids)
  })

  test('are rewritten for another model, identically each time, and are unchanged for the first one', async () => {
    const { runNext } = await session(wire)
    const first = sent(await runNext({ model: 'other-model' }))
    expect(first.calls).toHaveLength(2)
    expect(first.results).toEqual(first.calls)
    for (const id of first.calls) {
      expect(ids).not.toContain(id)
      expect(id.length).toBeLessThanOrEqual(64)
    }
    const again = sent(await runNext({ model: 'other-model' }))
    expect(again).toEqual(first)
    expect(sent(await runNext())).toEqual(own)
  })
})

test('an id that its provider used twice is made unique, and nothing of it is cut', async () => {
  const [wire] = wireApis.filter(({ api }) => api === 'openai-chat')
  if (wire === undefined) throw new Error('no such API')
  const server = await serving(
    wire.calls([[packed, 'read']]),
    wire.calls([[packed, 'read']]),
    wire.answer('done'),
  )
  const engine = closing(engineAt(server.url, {}, { api: wire.api }))
  await engine.run(context({ tools: [read] })).result
  const last = server.seen.at(-1)
  const calls = wire.sentCalls(last as never).map(wire.idOf)
  expect(calls).toEqual([packed, `${packed}_2`])
  expect(wire.sentResults(last as never)).toEqual(calls)
})

test('the messages after a summary have their ids byte for byte', async () => {
  const [wire] = wireApis.filter(({ api }) => api === 'openai-chat')
  if (wire === undefined) throw new Error('no such API')
  const summary =
    '## Goal\nG\n\n## Constraints & preferences\nC\n\n## Progress\nP\n\n## Key decisions\nK\n\n## Next steps\nN\n\n## Critical context\n(none)'
  const server = await serving(wire.answer('word '.repeat(400)))
  const engine = closing(
    engineAt(server.url, { ledger: { path: folder().file } }, { api: wire.api }),
  )
  const runTurn = (content: string) =>
    engine.run(context({ tools: [read], currentMessage: { role: 'user', content } })).result
  for (let turn = 0; turn < 6; turn++) await runTurn(`turn ${turn} ${'text '.repeat(300)}`)
  server.use(wire.calls([[packed, 'read']]), wire.answer('answer'))
  await runTurn('with a call')
  server.use(wire.answer(summary))
  expect(await engine.compact('agent:main:main')).not.toBeNull()
  server.use(wire.answer('after'))
  await runTurn('and now?')
  const last = server.seen.at(-1)
  expect(JSON.stringify(last?.body)).toContain('[Previous conversation summary]')
  expect(wire.sentCalls(last as never).map(wire.idOf)).toEqual([packed])
})
