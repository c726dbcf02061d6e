// The host of examples/broker over HTTP: three agents, a memory, an approval, events as they happen. It must never use the host's
// inner parts.

import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { brokerHost } from '../../examples/broker/host.mjs'
import { userTexts } from '../support/broker.js'
import { afterwards, folder, serving } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'

/** Reads the events of a stream, up to the next one of a type. */
function reader(response: Response): (last: string) => Promise<any[]> {
  const pieces = (response.body as never as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
  const decoder = new TextDecoder()
  let text = ''
  return async (last) => {
    const events: any[] = []
    for (;;) {
      const { value, done } = await pieces.next()
      if (done) throw new Error(`the stream has ended before \`${last}\``)
      text += decoder.decode(value, { stream: true })
      const parts = text.split('\n\n')
      text = parts.pop() ?? ''
      for (const part of parts) events.push(JSON.parse(part.slice(part.indexOf('data: ') + 6)))
      if (events.some(({ type, final }) => type === last && final !== false)) return events
    }
  }
}

test('a message comes in, an approval is given, the answer goes out, and what the agent knew is a query', async () => {
  const model = await serving((response, seen) => {
    const texts = userTexts(seen)
    const isPaid = JSON.stringify(seen.body.messages).includes('paid back')
    const body = isPaid
      ? anthropic.answer('You have your money.')
      : texts.at(-1)?.includes('refund')
        ? anthropic.calls(['call_1', 'refund', { order: '7', euros: 12 }])
        : anthropic.answer('Hello!')
    return sse(body)(response, seen)
  })
  const { path, file } = folder()
  const workspace = join(path, 'house')
  mkdirSync(workspace)
  writeFileSync(join(workspace, 'AGENTS.md'), 'Be brief.')
  const engine = engineAt(model.url, { ledger: { path: file } })
  const host = brokerHost(engine, {
    model: { provider: 'test', model: 'test-model' },
    workspace,
    memory: (text: string) => (text.includes('refund') ? 'Ann has bought order 7.' : undefined),
  })
  host.server.listen(0, '127.0.0.1')
  await once(host.server, 'listening')
  afterwards(async () => {
    await host.close()
    await engine.close()
  })
  const base = `http://127.0.0.1:${(host.server.address() as AddressInfo).port}`
  const post = async (to: string, body: object) => {
    const response = await fetch(base + to, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return [response.status, (await response.json()) as any] as const
  }

  const session = 'agent:support:shop:group:ann'
  const until = reader(await fetch(`${base}/events?session=${session}`))
  const message = { id: 'm1', channel: 'shop', from: 'ann', text: 'A refund, please.' }
  const [status, receipt] = await post('/messages', message)
  expect([status, receipt.disposition, receipt.sessionLabel]).toEqual([202, 'started', session])
  expect(await post('/messages', message)).toMatchObject([200, { disposition: 'duplicate' }])

  const before = await until('approval')
  expect(before.some(({ type }) => type === 'stream_end')).toBe(true)
  const [call] = (await (await fetch(`${base}/approvals`)).json()) as any[]
  expect(call).toMatchObject({ toolName: 'refund', params: { order: '7', euros: 12 } })
  expect(await post('/approvals', { id: call.id, decision: 'approve' })).toEqual([200, {}])
  expect(await post('/approvals', { id: call.id, decision: 'deny' })).toMatchObject([
    409,
    { code: 'already_decided' },
  ])
  const after = await until('stream_end')
  expect(
    after
      .filter(({ type }) => type === 'token')
      .map(({ text }) => text)
      .join(''),
  ).toContain('You have your money.')

  const { system } = model.seen[0]?.body as { system: { text: string }[] }
  expect(system[0]?.text).toContain(
    '- refund: Pays an order back.\n  - Ask for the number of the order first.',
  )
  const knowledge = (await (await fetch(`${base}/knowledge?session=${session}`)).json()) as any[]
  const files = process.platform === 'linux' ? ['workspace AGENTS.md'] : []
  expect(knowledge.map(({ layer, source }) => `${layer} ${source}`)).toEqual([
    'persona identity',
    'persona tools',
    'workspace workspace',
    ...files,
    'workspace runtime',
    `session ${session}`,
    'event message',
    'cortex memory',
  ])
  const [, other] = await post('/messages', { ...message, id: 'm2', channel: 'github', text: 'Hi' })
  expect(other.sessionLabel).toBe('agent:coder:github:group:ann')
  expect(await post('/messages', { id: 'm3' })).toMatchObject([400, {}])
})
