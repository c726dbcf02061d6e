// The embedder of a host: calls its function with texts, and brings what it returns into the form of the native side.
// It must never judge a vector: the native side does.

import { messageOf } from '../values/errors.ts'
import { readList } from '../values/reader.ts'

const CODE = 'invalid_options'

/** A function of the host; its result is not checked yet. */
type EmbedFunction = (texts: string[], options: { isQuery: boolean }) => unknown

/** The answer to a request for vectors: their numbers one after the other and the length of each, or why there are none. */
interface EmbedAnswer {
  bytes?: Uint8Array
  lengths: number[]
  error?: string
}

/** Calls the function. Never rejects. A text whose vector is null was refused. */
async function embedTexts(
  embed: EmbedFunction,
  texts: string[],
  isQuery: boolean,
): Promise<EmbedAnswer> {
  try {
    const given = await embed(texts, { isQuery })
    const list = readList(given, 'vectors', CODE)
    if (list === undefined)
      return { lengths: [], error: 'the embedder returned no list of vectors' }
    const vectors = list.map((vector, at) => numbersOf(vector, at))
    const lengths = vectors.map(({ length }) => length)
    const all = new Float32Array(lengths.reduce((sum, length) => sum + length, 0))
    let start = 0
    for (const vector of vectors) {
      all.set(vector, start)
      start += vector.length
    }
    return { bytes: new Uint8Array(all.buffer), lengths }
  } catch (error) {
    return { lengths: [], error: `the embedder failed: ${messageOf(error, 'it')}` }
  }
}

/** The numbers of one vector. */
function numbersOf(vector: unknown, at: number): Float32Array {
  if (vector instanceof Float32Array) return vector
  if (vector === null) return new Float32Array()
  if (ArrayBuffer.isView(vector) && !(vector instanceof DataView)) {
    return Float32Array.from(vector as unknown as ArrayLike<number>)
  }
  const numbers = readList(vector, `vectors[${at}]`, CODE)
  if (numbers?.every((number) => typeof number === 'number')) return Float32Array.from(numbers)
  throw new TypeError(`its vector ${at} is no list of numbers`)
}

export type { EmbedFunction }
export { embedTexts }
