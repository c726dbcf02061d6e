// Recall over a seeded corpus: facts in 2,000 turns of other talk, asked for in other words. It must never depend on a real model.

import { expect, test } from 'vitest'
import type { AgentEngine, AgentEngineOptions } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { hashed } from '../../support/values/hashing-embedder.js'

const TURNS = 2_000
const names = 'alice bruno carla dmitri elena farid greta hiro ines jonas kamal lena'.split(' ')
/** A fact of a person, and how it is asked for: with synonyms, and with the same words. */
const facts = [
  { says: 'enjoys jasmine', asks: 'favourite', same: 'enjoys jasmine' },
  { says: 'resides near the harbour', asks: 'town', same: 'resides harbour' },
  { says: 'is employed as a glazier', asks: 'profession', same: 'employed glazier' },
  { says: 'has an automobile from 1962', asks: 'vehicle', same: 'automobile 1962' },
]
const talk =
  'meeting budget weather report ticket release lunch train paper window river garden music letter bridge market'.split(
    ' ',
  )

/** A fact in a sentence that is longer than the talk: words alone prefer short texts. */
const sentence = (name: string, says: string) =>
  `By the way, ${name} ${says}, as everybody in the office knows by now.`

/** The texts of the turns: each fact once, the rest is talk about the same people. */
function corpus(): string[] {
  let state = 7
  const pick = (list: readonly string[]) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) >>> 0
    return list[(state >>> 16) % list.length]
  }
  const planted = names.flatMap((name) => facts.map(({ says }) => sentence(name, says)))
  const every = Math.floor(TURNS / planted.length)
  return Array.from({ length: TURNS }, (_, n) => {
    const fact = n % every === 3 ? planted[Math.floor(n / every)] : undefined
    if (fact !== undefined) return fact
    const one = pick(names)
    const other = pick(names.filter((name) => name !== one))
    return `${one} and ${other} spoke briefly of the ${pick(talk)} and the ${pick(talk)} yesterday ${n}.`
  })
}

const options = (path: string, memory: AgentEngineOptions['memory']) => ({
  ledger: { path, synchronous: 'normal' as const },
  memory,
  defaults: { model: 'test-model', provider: 'test' },
})

/** How many of the facts are among the first five hits of their questions. */
async function recall(engine: AgentEngine, how: 'asks' | 'same'): Promise<number> {
  let found = 0
  for (const name of names) {
    for (const fact of facts) {
      const { hits } = await engine.memory.search(`${name} ${fact[how]}`, {
        all: true,
        limit: 5,
      })
      if (hits.some(({ excerpt }) => excerpt === sentence(name, fact.says))) found++
    }
  }
  return found / (names.length * facts.length)
}

test('paraphrased questions are answered with vectors, and words are found as well as before', {
  timeout: 300_000,
}, async () => {
  const path = folder().file
  const texts = corpus()
  const replies = texts.map(() => ({ text: 'I see.' }))
  const words = scriptedEngine(replies, options(path, true)).engine
  for (const [n, text] of texts.entries()) {
    await words.run(text, { session: `talk ${n % 100}` }).result
  }
  while ((await words.memory.stats()).pendingTurns > 0)
    await words.memory.search('x', { all: true })
  const byWords = { asks: await recall(words, 'asks'), same: await recall(words, 'same') }
  await words.close()
  // So many dimensions that hardly two words share one.
  const embed = (texts: string[]) => texts.map((text) => hashed(text, 2_048))
  const embedder = { model: 'hashes', dimensions: 2_048, embed }
  const both = closing(scriptedEngine([], options(path, { embedder })).engine)
  await expect
    .poll(async () => (await both.memory.stats()).pendingVectors, { timeout: 120_000 })
    .toBe(0)
  const byBoth = { asks: await recall(both, 'asks'), same: await recall(both, 'same') }
  console.log('recall@5 by words', byWords, 'by words and vectors', byBoth)
  expect(byWords.same).toBe(1)
  expect(byBoth.same).toBe(1)
  expect(byBoth.asks).toBeGreaterThanOrEqual(byWords.asks + 0.5)
})
