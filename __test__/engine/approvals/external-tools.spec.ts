// Tools without `run`: their calls wait for `provideToolResult`, like for an approval. The model must never be called before each of
// them has its result.

import { expect, test } from 'vitest'
import { answering, decider, engineOn, onlyPending, pending } from '../../support/approvals.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'

const ask = {
  name: 'ask_user',
  description: 'Asks the user.',
  parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
}
const CALL: [string, string, unknown][] = [['toolu_1', 'ask_user', { text: 'Which port?' }]]

test('the result of a tool without `run` comes from outside, from any process', async () => {
  const { file } = folder()
  const server = await answering(CALL)
  const engine = engineOn(server, file)
  const run = engine.run(context({ tools: [ask] }))
  const approval = await onlyPending(engine)
  expect(approval).toMatchObject({ kind: 'result', params: { text: 'Which port?' } })
  const other = decider(file)
  await expect(other.approve(approval.id)).rejects.toMatchObject({
    code: 'unknown_approval',
    message: expect.stringContaining('provideToolResult'),
  })
  const provided = await other.provideToolResult(approval.callId, { port: 8080 }, { by: 'ann' })
  expect(provided).toMatchObject({ id: approval.id, status: 'provided', decidedBy: 'ann' })
  const result = await run.result
  expect(result.toolCalls).toMatchObject([{ status: 'completed', result: { port: 8080 } }])
  expect(JSON.stringify(server.seen[1]?.body)).toContain('8080')
  await expect(engine.provideToolResult(approval.callId, 'again')).rejects.toMatchObject({
    code: 'already_decided',
  })
})

test.each<[string, unknown, object]>([
  ['an error', new Error('no answer'), { status: 'failed', error: 'no answer' }],
  ['text', 'port 8080', { status: 'completed', result: 'port 8080' }],
  [
    'blocks',
    { content: [{ type: 'text', text: 'port 8080' }], isError: true },
    { status: 'failed', error: 'port 8080' },
  ],
])('a result from outside is read as that of a tool: %s', async (_, value, call) => {
  const { file } = folder()
  const engine = engineOn(await answering(CALL), file)
  const run = engine.run(context({ tools: [ask] }))
  const { callId } = await onlyPending(engine)
  await engine.provideToolResult(callId, value)
  expect((await run.result).toolCalls).toMatchObject([call])
})

test('a result is provided after a restart too, and a call can be denied instead', async () => {
  const { file } = folder()
  const calls: [string, string, unknown][] = [...CALL, ['toolu_2', 'ask_user', { text: 'Host?' }]]
  const server = await answering(calls)
  const engine = engineOn(server, file)
  const run = engine.run(context({ tools: [ask] }))
  run.result.catch(() => {})
  const [first, second] = await pending(engine, 2)
  await engine.close()
  const other = decider(file)
  await other.provideToolResult(first?.callId as string, 8080)
  await other.deny(second?.id as string, { reason: 'Nobody knows.' })
  const again = engineOn(server, file)
  const resumed = await again.resume(first?.turnId as string, { tools: [ask] })
  expect((await resumed.result).toolCalls).toMatchObject([
    { status: 'completed', result: 8080 },
    { status: 'failed', error: 'Nobody knows.' },
  ])
})

test('wrong arguments of the model are refused before anybody is asked', async () => {
  const { file } = folder()
  const engine = engineOn(await answering([['toolu_1', 'ask_user', {}]]), file)
  const result = await engine.run(context({ tools: [ask] })).result
  expect(result.toolCalls).toMatchObject([{ status: 'failed' }])
  expect((await engine.approvals()).items).toEqual([])
})

test('a tool without `run` is refused where its calls could not wait', async () => {
  const server = await answering()
  const engine = closing(engineAt(server.url))
  expect(() => engine.run(context({ tools: [ask] }))).toThrow(
    expect.objectContaining({ code: 'invalid_tool', path: 'tools[0].run' }),
  )
  expect(server.seen).toEqual([])
  await expect(engine.provideToolResult('c', 1)).rejects.toMatchObject({ code: 'no_ledger' })
})
