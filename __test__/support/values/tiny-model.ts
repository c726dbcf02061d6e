// A model for a real llama.cpp: a GGUF file of two megabytes, created here and never downloaded. Its weights are not trained:
// attention and feed-forward are zero, so that each token decides the next one, and every answer is one fixed sentence. Only the
// server around it is real: its tokens, its context limit, its refusals.

import { writeFileSync } from 'node:fs'

/** Its answer to every prompt. */
export const SENTENCE = ['It', ' stops', ' by', ' itself', '.'].map((word) =>
  word.replace(' ', '▁'),
)
export const answer = SENTENCE.join('').replaceAll('▁', ' ')

const FLOAT32 = 0
const ALIGNMENT = 32
/** Kinds of values in a GGUF header. */
const U32 = 4
const I32 = 5
const F32 = 6
const BOOL = 7
const STRING = 8
const ARRAY = 9
/** Kinds of tokens. */
const NORMAL = 1
const UNKNOWN = 2
const CONTROL = 3
const BYTE = 6

const u32 = (value: number) => Buffer.from(new Uint32Array([value]).buffer)
const u64 = (value: number) => Buffer.from(new BigUint64Array([BigInt(value)]).buffer)
const f32 = (value: number) => Buffer.from(new Float32Array([value]).buffer)
const text = (value: string) => {
  const bytes = Buffer.from(value)
  return Buffer.concat([u64(bytes.length), bytes])
}
const writers: Record<number, (value: never) => Buffer> = {
  [U32]: u32,
  [I32]: (value: number) => Buffer.from(new Int32Array([value]).buffer),
  [F32]: f32,
  [BOOL]: (value: boolean) => Buffer.from([value ? 1 : 0]),
  [STRING]: text,
}
const value = (kind: number, of: unknown) => writers[kind]?.(of as never) ?? Buffer.alloc(0)
const entry = (key: string, kind: number, of: unknown) =>
  Buffer.concat([text(key), u32(kind), value(kind, of)])
const list = (key: string, kind: number, of: unknown[]) =>
  Buffer.concat([
    ...[text(key), u32(ARRAY), u32(kind), u64(of.length)],
    ...of.map((item) => value(kind, item)),
  ])

/** Writes the model, always with the same bytes. */
export function writeTinyModel(path: string, contextLength: number): void {
  const tokens: [text: string, kind: number][] = [
    ['<unk>', UNKNOWN],
    ['<s>', CONTROL],
    ['</s>', CONTROL],
    ['<|answer|>', CONTROL],
  ]
  const [begin, end, question] = [1, 2, 3]
  for (let byte = 0; byte < 256; byte++)
    tokens.push([`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, BYTE])
  const first = tokens.length
  for (const word of SENTENCE) tokens.push([word, NORMAL])
  const size = tokens.length
  // One dimension per token: the embedding is the token itself.
  const width = Math.ceil(size / 64) * 64
  const head = 64

  const matrix = (rows: number, columns = 1) => new Float32Array(rows * columns)
  const embedded = matrix(size, width)
  const output = matrix(size, width)
  for (let token = 0; token < size; token++) {
    embedded[token * width + token] = 1
    const inSentence = token >= first && token < size - 1
    const next = token === question ? first : inSentence ? token + 1 : end
    // Far above all others, at any usual temperature.
    output[next * width + token] = 2
  }
  const ones = matrix(width).fill(1)
  const layer = 'blk.0.'
  const tensors: [name: string, dimensions: number[], data: Float32Array][] = [
    ['token_embd.weight', [width, size], embedded],
    ['output_norm.weight', [width], ones],
    ['output.weight', [width, size], output],
    [`${layer}attn_norm.weight`, [width], ones],
    [`${layer}ffn_norm.weight`, [width], ones],
    [`${layer}attn_q.weight`, [width, head], matrix(width, head)],
    [`${layer}attn_k.weight`, [width, head], matrix(width, head)],
    [`${layer}attn_v.weight`, [width, head], matrix(width, head)],
    [`${layer}attn_output.weight`, [head, width], matrix(head, width)],
    [`${layer}ffn_gate.weight`, [width, head], matrix(width, head)],
    [`${layer}ffn_up.weight`, [width, head], matrix(width, head)],
    [`${layer}ffn_down.weight`, [head, width], matrix(head, width)],
  ]

  const template =
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}{{ '<|answer|>' }}"
  const header = [
    entry('general.architecture', STRING, 'llama'),
    entry('general.name', STRING, 'tiny'),
    entry('llama.context_length', U32, contextLength),
    entry('llama.embedding_length', U32, width),
    entry('llama.block_count', U32, 1),
    entry('llama.feed_forward_length', U32, head),
    entry('llama.attention.head_count', U32, 1),
    entry('llama.attention.head_count_kv', U32, 1),
    entry('llama.attention.key_length', U32, head),
    entry('llama.attention.value_length', U32, head),
    entry('llama.attention.layer_norm_rms_epsilon', F32, 1e-5),
    entry('llama.rope.dimension_count', U32, head),
    entry('llama.vocab_size', U32, size),
    entry('tokenizer.ggml.model', STRING, 'llama'),
    list(
      'tokenizer.ggml.tokens',
      STRING,
      tokens.map(([token]) => token),
    ),
    list(
      'tokenizer.ggml.scores',
      F32,
      tokens.map((_, n) => (n < first ? 0 : -n)),
    ),
    list(
      'tokenizer.ggml.token_type',
      I32,
      tokens.map(([, kind]) => kind),
    ),
    entry('tokenizer.ggml.bos_token_id', U32, begin),
    entry('tokenizer.ggml.eos_token_id', U32, end),
    entry('tokenizer.ggml.unknown_token_id', U32, 0),
    entry('tokenizer.ggml.add_bos_token', BOOL, false),
    entry('tokenizer.ggml.add_space_prefix', BOOL, false),
    entry('tokenizer.chat_template', STRING, template),
  ]

  const padded = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
  let offset = 0
  const entries = tensors.map(([name, dimensions, data]) => {
    const place = Buffer.concat([
      ...[text(name), u32(dimensions.length), ...dimensions.map(u64)],
      ...[u32(FLOAT32), u64(offset)],
    ])
    offset += padded(data.byteLength)
    return place
  })
  const begun = Buffer.concat([
    ...[Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(header.length)],
    ...[...header, ...entries],
  ])
  const parts = [Buffer.concat([begun], padded(begun.length))]
  for (const [, , data] of tensors) {
    const bytes = Buffer.from(data.buffer)
    parts.push(Buffer.concat([bytes], padded(bytes.length)))
  }
  writeFileSync(path, Buffer.concat(parts))
}
