// The static table of the Python package `wordllama` as an embedder: each token has a row, and a text is the mean of its rows. It reads the
// files of the unpacked wheel, and never calls Python.
//
//     pip download --no-deps wordllama && unzip wordllama-*.whl -d wordllama

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The embedder of the files below `folder`; undefined where they are missing. */
export function wordllama(folder) {
  const table = join(folder, 'wordllama/weights/l2_supercat_256.safetensors')
  const config = join(folder, 'wordllama/tokenizers/l2_supercat_tokenizer_config.json')
  if (!existsSync(table) || !existsSync(config)) return undefined
  const { vocab, merges } = JSON.parse(readFileSync(config, 'utf8')).model
  const ranks = new Map(merges.map((pair, rank) => [pair, rank]))
  const bytes = readFileSync(table)
  const header = Number(bytes.readBigUInt64LE(0))
  const [, width] = JSON.parse(bytes.toString('utf8', 8, 8 + header))['embedding.weight'].shape
  const words = new Map()
  /** The tokens of a word: its symbols, the pair of the lowest rank joined first. */
  const tokens = (word) => {
    const known = words.get(word)
    if (known !== undefined) return known
    const symbols = [...word]
    for (;;) {
      let best = -1
      let lowest = Infinity
      for (let at = 0; at + 1 < symbols.length; at++) {
        const rank = ranks.get(`${symbols[at]} ${symbols[at + 1]}`)
        if (rank !== undefined && rank < lowest) [best, lowest] = [at, rank]
      }
      if (best < 0) break
      symbols.splice(best, 2, symbols[best] + symbols[best + 1])
    }
    const found = symbols.map((symbol) => vocab[symbol]).filter((token) => token !== undefined)
    words.set(word, found)
    return found
  }
  const embed = (text) => {
    const vector = new Float32Array(width)
    for (const word of text.match(/\S+/g) ?? []) {
      for (const token of tokens(`▁${word}`)) {
        const row = 8 + header + token * width * 2
        for (let at = 0; at < width; at++) vector[at] += half(bytes.readUInt16LE(row + at * 2))
      }
    }
    if (vector.every((number) => number === 0)) vector[0] = 1
    return vector
  }
  return { dimensions: width, embed: async (texts) => texts.map(embed) }
}

/** A number of 16 bits. */
function half(bits) {
  const exponent = (bits >> 10) & 31
  const fraction = bits & 1023
  const size = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15)
  return bits & 0x8000 ? -size : size
}
