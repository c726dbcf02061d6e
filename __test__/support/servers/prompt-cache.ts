// Providers with a prompt cache: loopback servers that store the received prefixes, by block and with their own time, and report
// what they read and wrote. Written from the providers' documentation. It must never share code with the engine.

import { createHash } from 'node:crypto'
import { anthropic } from './anthropic.js'
import { chat } from './chat.js'
import { type Handler, type Seen, sse } from './server.js'

/** A prompt shorter than this is not cached. */
const LEAST = 1_024
/** The number of blocks that are checked before a breakpoint. */
const LOOK_BACK = 20
const MOST_BREAKPOINTS = 4

export interface CacheCall {
  input: number
  read: number
  written: number
  seen: Seen
}

export interface PromptCache {
  /** The usage of each answered request. */
  calls: CacheCall[]
  /** The provider's own time, in milliseconds. */
  now: number
  handler: Handler
}

/** The model's answer to a body: text, a text with a pause, or tool calls. */
export type Answer = (
  body: any,
) =>
  | string
  | { pauses: string }
  | { calls: [id: string, name: string, input: unknown][]; thinks?: string }

const tokensOf = (json: string) => Math.ceil(json.length / 4)

function without(block: any): string {
  const { cache_control: _, ...rest } = block
  return JSON.stringify(rest)
}

/** The hashed parts, in the order of the provider: tools, system, messages. */
function blocks(body: any): { text: string; marked: boolean }[] {
  const marked = (block: any) => block.cache_control !== undefined
  const list = (content: any) =>
    typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
  const all = [
    ...(body.tools ?? []).map((it: any) => ({ text: `tool ${without(it)}`, marked: marked(it) })),
    ...list(body.system).map((it: any) => ({
      text: `system ${without(it)}`,
      marked: marked(it),
    })),
    ...body.messages.flatMap(({ role, content }: any) =>
      list(content).map((it: any) => ({
        // Settings that change how a model reads its messages are part of them.
        text: `${role} ${JSON.stringify([body.thinking, body.tool_choice])} ${without(it)}`,
        marked: marked(it),
      })),
    ),
  ]
  const last = all.at(-1)
  if (body.cache_control !== undefined && last) last.marked = true
  return all
}

/** Anthropic's cache: stored at breakpoints, found at them and up to 20 blocks before, for five minutes after the last use. */
export function anthropicCache(answer: Answer, ttl = 300_000): PromptCache {
  const cached = new Map<string, number>()
  const cache: PromptCache = { calls: [], now: 0, handler }
  function handler(response: Parameters<Handler>[0], seen: Seen) {
    const all = blocks(seen.body)
    const breakpoints = all.flatMap(({ marked }, at) => (marked ? [at] : []))
    if (breakpoints.length > MOST_BREAKPOINTS) {
      const message = `A maximum of 4 blocks with cache_control may be provided. Found ${breakpoints.length}.`
      response.writeHead(400, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { type: 'invalid_request_error', message } }))
      return
    }
    let chain = ''
    let sum = 0
    const prefixes = all.map(({ text }) => {
      chain = createHash('sha256').update(chain).update('\0').update(text).digest('hex')
      sum += tokensOf(text)
      return { key: chain, tokens: sum }
    })
    let read = 0
    for (const breakpoint of breakpoints) {
      for (let at = breakpoint; at >= 0 && at > breakpoint - LOOK_BACK; at--) {
        const { key, tokens } = prefixes[at] as (typeof prefixes)[number]
        const until = cached.get(key)
        if (until === undefined || until <= cache.now) continue
        cached.set(key, cache.now + ttl)
        read = Math.max(read, tokens)
        break
      }
    }
    let covered = 0
    for (const at of breakpoints) {
      const { key, tokens } = prefixes[at] as (typeof prefixes)[number]
      if (tokens < LEAST) continue
      cached.set(key, cache.now + ttl)
      covered = Math.max(covered, tokens)
    }
    const call = {
      read,
      written: Math.max(0, covered - read),
      input: sum - Math.max(covered, read),
      seen,
    }
    cache.calls.push(call)
    const usage = { input: call.input, cached: read, cacheWrite: call.written }
    const reply = answer(seen.body)
    if (typeof reply === 'string') return sse(anthropic.answer(reply, usage))(response, seen)
    if ('pauses' in reply) {
      const whole = anthropic.start(usage) + anthropic.text(0, reply.pauses)
      return sse(whole + anthropic.end('pause_turn'))(response, seen)
    }
    const thought =
      reply.thinks === undefined ? '' : anthropic.thinking(0, reply.thinks, `sig-${reply.thinks}`)
    const first = reply.thinks === undefined ? 0 : 1
    return sse(
      anthropic.start(usage) +
        thought +
        reply.calls.map((it, at) => anthropic.toolUse(first + at, ...it)).join('') +
        anthropic.end('tool_use'),
    )(response, seen)
  }
  return cache
}

/** OpenAI's cache: equal prefixes, from 1,024 tokens on, in steps of 128; writes are not reported. */
export function openaiCache(answer: (body: any) => string): PromptCache {
  let known: string[] = []
  const cache: PromptCache = { calls: [], now: 0, handler }
  function handler(response: Parameters<Handler>[0], seen: Seen) {
    const whole = JSON.stringify(seen.body.tools ?? []) + JSON.stringify(seen.body.messages)
    const common = (other: string) => {
      let at = 0
      while (at < other.length && other[at] === whole[at]) at++
      return Math.floor(at / 4)
    }
    const longest = Math.max(0, ...known.map(common))
    const read = longest >= LEAST ? longest - (longest % 128) : 0
    const prompt = tokensOf(whole)
    known = [...known.slice(-20), whole]
    cache.calls.push({ read, written: 0, input: prompt - read, seen })
    return sse(
      chat.text(answer(seen.body)) +
        chat.finish('stop') +
        chat.usage(prompt, 5, read) +
        chat.done(),
    )(response, seen)
  }
  return cache
}
