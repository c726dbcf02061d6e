// A search finds committed messages although no commit indexes them: immediately, from another process, after a kill, with
// thousands of waiting messages, and without space for an index. Which words match is in ledger/lists.spec.ts. It must never
// wait for the index.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type SearchHit } from '../../index.js'
import { afterwards, closing, folder } from '../support/cleanup.js'
import { context } from '../support/engine.js'
import { killable } from '../support/processes/killable.js'

function opened() {
  const { file } = folder()
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  return { file, ledger: engine.ledger, engine }
}

const usage = {
  inputTokens: 1,
  outputTokens: 1,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  totalTokens: 2,
}

/** A broker's turn with these messages. */
const turnOf = (contents: string[]) => ({
  messages: contents.map((content, sequence) => ({
    role: 'user' as const,
    content,
    id: `m${sequence}`,
    sequence,
    createdAt: sequence,
  })),
  toolCalls: [],
  usage,
  stopReason: 'end_turn' as const,
  durationMs: 1,
})

async function found(ledger: AgentEngine['ledger'], text: string): Promise<SearchHit[]> {
  const hits: SearchHit[] = []
  let after: number | undefined
  for (;;) {
    const page = await ledger.search(text, {
      limit: 900,
      ...(after === undefined ? {} : { after }),
    })
    hits.push(...page.items)
    if (page.next === null) return hits
    after = page.next
  }
}

/** The number of messages in the search index. */
async function indexed(ledger: AgentEngine['ledger']): Promise<number> {
  const { rows } = await ledger.query('SELECT indexed_through AS n FROM search_progress')
  return Number(rows[0]?.n)
}

describe('a commit indexes nothing, and a search finds everything', () => {
  test('a message is found immediately, and in the index when there are enough', async () => {
    const { ledger } = opened()
    await ledger.writeTurn(context({ sessionLabel: 'a' }), turnOf(['Alpha beta', 'gamma beta']))
    expect((await found(ledger, 'beta')).map((hit) => hit.excerpt)).toEqual([
      'gamma beta',
      'Alpha beta',
    ])
    expect(await indexed(ledger)).toBe(0)
    const many = Array.from({ length: 2_000 }, (_, n) => `number ${n % 10} of beta`)
    await ledger.writeTurn(context({ sessionLabel: 'b' }), turnOf(many))
    expect((await found(ledger, 'number 7')).length).toBe(200)
    expect(await indexed(ledger)).toBeGreaterThan(1_500)
    const hits = await found(ledger, 'beta')
    expect(hits.map((hit) => hit.excerpt)).toEqual([
      ...many.toReversed(),
      'gamma beta',
      'Alpha beta',
    ])
    expect((await found(ledger, 'alpha'))[0]?.sessionLabel).toBe('a')
    expect((await ledger.verify()).problems).toEqual([])
  })

  test('many turns are indexed after their commits without a search', async () => {
    const { ledger, engine, file } = opened()
    const turns = Array.from({ length: 70 }, (_, n) => `s${n}`)
    const texts = Array.from({ length: 8 }, (_, n) => `text ${n} of many`)
    await Promise.all(
      turns.map((label) => ledger.writeTurn(context({ sessionLabel: label }), turnOf(texts))),
    )
    await expect.poll(() => indexed(ledger), { timeout: 20_000 }).toBeGreaterThan(255)
    await engine.close()
    const again = new AgentEngine({ ledger: { path: file } })
    afterwards(() => again.close())
    expect((await found(again.ledger, 'text many')).length).toBe(560)
  })

  test('another process finds messages committed here, and those of a killed process', async () => {
    const { file, ledger } = opened()
    const child = killable('recovery/events.mjs', [file, 'crash', JSON.stringify({ runId: 'r' })])
    afterwards(() => child.kill())
    const ends = () => child.lines.filter((line) => line.includes('"final":true')).length
    while (ends() < 100) {
      await child.count(child.lines.length + 1)
      const finished = ends()
      const hits = (await found(ledger, 'ok')).length
      expect(hits).toBeGreaterThanOrEqual(finished)
    }
    child.kill()
    await child.ended
    const { rows } = await ledger.query(
      "SELECT m.id FROM messages m JOIN turns t ON t.id = m.turn_id WHERE t.status = 'completed' AND m.content = 'ok' ORDER BY t.n DESC",
    )
    expect(rows.length).toBeGreaterThanOrEqual(100)
    const hits = await found(ledger, 'ok')
    expect(hits.map((hit) => hit.messageId)).toEqual(rows.map(({ id }) => id))
  })
})
