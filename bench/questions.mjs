// Questions about recorded conversations: how often the memory finds the answer's turn among its first five hits, by words alone, by vectors
// alone (an exact scan), and by both. It prints shares and asserts none: of the questions at even positions, by which the joining of the lists
// was chosen, and of those at odd positions, by which it was not.
//
//     node bench/questions.mjs [folder of the unpacked wordllama]    # the recordings: NEXUS_FIXTURES, see CONTRIBUTING.md
//
// The answers alone are remembered, so that a question is not found by itself. Each is asked for by half of the question's words, and by the
// other half.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { wordllama } from './lib/wordllama.mjs'

const require = createRequire(import.meta.url)
const { AgentEngine } = require(process.env.NEXUS_ENGINE ?? '../index.js')
const root = process.env.NEXUS_FIXTURES
const FIRST = 5

const json = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined)

/** The text of a message's content in any of the APIs. */
function textOf(content) {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map(({ text }) => (typeof text === 'string' ? text : '')).join(' ')
}

/** The last text of the user in a recorded request. */
function questionOf({ body } = {}) {
  if (body === undefined || body === null) return ''
  const { messages = body.input ?? body.contents ?? [] } = body
  if (typeof messages === 'string') return messages
  const asked = messages
    .filter(({ role }) => role === 'user')
    .map((it) => textOf(it.content ?? it.parts))
  return asked.filter((text) => text.trim() !== '').at(-1) ?? ''
}

/** The recorded exchanges that have a question and an answer of some words, each answer once. */
function exchanges() {
  const found = new Map()
  for (const api of readdirSync(join(root, 'cases'))) {
    for (const id of readdirSync(join(root, 'cases', api))) {
      const folder = join(root, 'cases', api, id)
      const question = questionOf(json(join(folder, 'request.json')))
      const answer = json(join(folder, 'expected.json'))?.text ?? ''
      const words = question.match(/\p{L}{3,}/gu) ?? []
      if (words.length >= 4 && answer.length >= 40) {
        const half = (rest) => words.filter((_, at) => at % 2 === rest).join(' ')
        found.set(answer, { questions: [half(0), half(1)], answer: answer.slice(0, 1_500) })
      }
    }
  }
  return [...found.values()]
}

/** Feature hashing of words, as the tests have it. */
function hashed(text, dimensions = 1_024) {
  const vector = new Float32Array(dimensions)
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    let state = 0x811c9dc5
    for (const c of word) state = Math.imul(state ^ c.codePointAt(0), 0x01000193) >>> 0
    vector[state % dimensions] += state & 0x10000 ? 1 : -1
  }
  if (vector.every((number) => number === 0)) vector[0] = 1
  return vector
}

const cosine = (one, other) => {
  let [product, a, b] = [0, 0, 0]
  for (let at = 0; at < one.length; at++) {
    product += one[at] * other[at]
    a += one[at] ** 2
    b += other[at] ** 2
  }
  return product / Math.sqrt(a * b)
}

/** The shares of the questions that are answered, at even and at odd positions. */
const shares = (answered) =>
  [0, 1].map((rest) => {
    const half = answered.filter((_, at) => at % 2 === rest).flat()
    return half.filter(Boolean).length / half.length
  })

/** Whether the answer of each question is among the first hits: with the embedder, or by words alone. */
async function bySearch(list, embedder) {
  const folder = mkdtempSync(join(tmpdir(), 'memory-questions-'))
  const ledger = { path: join(folder, 'agent.db'), synchronous: 'normal' }
  const memory = embedder === undefined ? true : { embedder: { model: 'bench', ...embedder } }
  const engine = new AgentEngine({ ledger, memory })
  const scope = { kind: 'global' }
  for (const [at, { answer }] of list.entries()) {
    await engine.memory.storeFact({ entity: `n${at}`, type: 'is', content: answer, scope })
  }
  while ((await engine.memory.stats()).pendingVectors > 0)
    await new Promise((r) => setTimeout(r, 20))
  const answered = []
  for (const [at, { questions }] of list.entries()) {
    const found = questions.map(async (question) => {
      const { hits } = await engine.memory.search(question, { all: true, limit: FIRST })
      return hits.some(({ fact }) => fact.entity === `n${at}`)
    })
    answered.push(await Promise.all(found))
  }
  await engine.close()
  rmSync(folder, { recursive: true })
  return shares(answered)
}

/** The same by an exact scan of the vectors alone. */
async function byVectors(list, { embed }) {
  const answers = await embed(list.map(({ answer }) => answer))
  const isFound = (question, at) => {
    const own = cosine(question, answers[at])
    return answers.filter((answer) => cosine(question, answer) > own).length < FIRST
  }
  const answered = []
  for (const [at, { questions }] of list.entries()) {
    answered.push((await embed(questions)).map((question) => isFound(question, at)))
  }
  return shares(answered)
}

const percent = (halves) => halves.map((value) => `${(value * 100).toFixed(1)} %`).join(' and ')

if (root === undefined || !existsSync(join(root, 'cases'))) {
  console.log('questions: skipped, NEXUS_FIXTURES names no folder of recordings')
} else {
  const list = exchanges()
  const words = await bySearch(list)
  console.log(
    `${list.length * 2} questions about recorded answers, found among the first ${FIRST}: ${percent(words)} by words`,
  )
  const embedders = {
    'hashed words': {
      dimensions: 1_024,
      embed: async (texts) => texts.map((text) => hashed(text)),
    },
    wordllama: wordllama(process.argv[2] ?? 'wordllama'),
  }
  for (const [name, embedder] of Object.entries(embedders)) {
    if (embedder === undefined) {
      console.log(`${name}: skipped, its files are not there; see bench/lib/wordllama.mjs`)
      continue
    }
    const [vectors, both] = [await byVectors(list, embedder), await bySearch(list, embedder)]
    console.log(`${name}: ${percent(vectors)} by vectors, ${percent(both)} by both`)
  }
}
