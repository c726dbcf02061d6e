// Processes that are killed while their memory indexes and embeds: every turn that has ended is indexed once, and every chunk has one
// vector. It must never ask a process that is killed for anything.

import { expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'
import { killable } from '../../support/processes/killable.js'

/** The kills; `npm run proof:memory` sets more. */
const kills = Number(process.env.MEMORY_KILLS ?? 6)

test('each turn is indexed exactly once, whichever process is killed at any step', {
  timeout: 900_000,
}, async () => {
  const { file } = folder()
  const turns = new Set<string>()
  for (let round = 0; round * 2 < kills; round++) {
    const children = ['a', 'b'].map((name) =>
      killable('memory/indexer.mjs', [file, `${name}${round}`, '4']),
    )
    await Promise.all(
      children.map(async (child, number) => {
        const step = child.count(1 + ((round * 7 + number * 3) % 16))
        await Promise.race([step, child.line('sent')])
        child.kill()
        await child.ended
        for (const line of child.lines) {
          const [, id] = /^turn (\S+)$/.exec(line) ?? []
          if (id !== undefined) turns.add(id)
        }
      }),
    )
  }
  const embed = (texts: string[]) => texts.map((text) => Float32Array.of(text.length, 1, 2, 3))
  const embedder = { model: 'lengths', dimensions: 4, embed }
  const engine = new AgentEngine({ ledger: { path: file }, memory: { embedder } })
  try {
    for (const { turnId } of await engine.recover()) await engine.discard(turnId)
    await expect
      .poll(
        async () => {
          await engine.memory.search('x', { all: true })
          const { pendingTurns, pendingVectors } = await engine.memory.stats()
          return { pendingTurns, pendingVectors }
        },
        { timeout: 60_000, interval: 20 },
      )
      .toEqual({ pendingTurns: 0, pendingVectors: 0 })
    const rows = async (sql: string) => (await engine.ledger.query(sql)).rows
    const ended = await rows(
      "SELECT id FROM turns WHERE status NOT IN ('pending', 'streaming') ORDER BY id",
    )
    const indexed = await rows('SELECT turn_id AS id FROM memory_turns ORDER BY turn_id')
    expect(indexed).toEqual(ended)
    const ids = new Set(ended.map(({ id }) => id))
    expect([...turns].filter((id) => !ids.has(id))).toEqual([])
    expect(
      await rows(
        'SELECT turn_id, part, count(*) AS n FROM memory_chunks GROUP BY turn_id, part HAVING count(*) > 1',
      ),
    ).toEqual([])
    expect(
      await rows(`SELECT c.n FROM memory_chunks c LEFT JOIN memory_vectors v ON v.chunk = c.n
        GROUP BY c.n HAVING count(v.n) <> 1`),
    ).toEqual([])
    expect((await engine.ledger.verify()).ok).toBe(true)
  } finally {
    await engine.close()
  }
  if (sqlite3) expectSound(file)
})
