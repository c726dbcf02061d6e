// An embedder without a model: each word and its synonyms are hashed to some dimensions. The same text has the same vector everywhere.
// It must never be random.

/** Words that mean the same, for paraphrased questions. */
const SYNONYMS: readonly (readonly string[])[] = [
  ['likes', 'like', 'loves', 'enjoys', 'favourite', 'prefers', 'preferred'],
  ['drink', 'drinks', 'beverage', 'tea', 'coffee'],
  ['home', 'lives', 'live', 'town', 'city', 'resides', 'residence'],
  ['job', 'works', 'work', 'profession', 'occupation', 'employed'],
  ['pet', 'dog', 'cat', 'animal'],
  ['car', 'drives', 'vehicle', 'automobile'],
  ['born', 'birthday', 'birth'],
  ['sister', 'brother', 'sibling'],
]
const MEANING = new Map(SYNONYMS.flatMap((words) => words.map((word) => [word, words[0]])))
const EMPTY = new Set([
  'the',
  'a',
  'an',
  'is',
  'of',
  'to',
  'in',
  'what',
  'which',
  'does',
  'do',
  'and',
  'i',
])

function hash(text: string): number {
  let value = 0x811c9dc5
  for (const c of text) value = Math.imul(value ^ (c.codePointAt(0) ?? 0), 0x01000193) >>> 0
  return value
}

/** The vector of a text. */
export function hashed(text: string, dimensions = 256): Float32Array {
  const vector = new Float32Array(dimensions)
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    if (EMPTY.has(word)) continue
    let state = hash(MEANING.get(word) ?? word)
    for (let i = 0; i < 4; i++) {
      vector[state % dimensions] += state & 0x10000 ? 1 : -1
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    }
  }
  if (vector.every((number) => number === 0)) vector[0] = 1
  return vector
}

/** An embedder function for an engine. */
export const hashingEmbedder = async (texts: string[]): Promise<Float32Array[]> =>
  texts.map((text) => hashed(text))
