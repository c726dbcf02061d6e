// The compaction of pi's sessions: its functions beside pi's own, and a run whose context is too long. It must never wait for a time.

import { join } from 'node:path'
import * as pi054 from '@mariozechner/pi-coding-agent'
import * as pi073 from 'pi-coding-agent-073'
import { describe, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { registerApiProvider, unregisterApiProviders } from '../../../pi-ai.js'
import * as ours from '../../../pi-session.js'
import { afterwards, closing, folder } from '../../support/cleanup.js'
import { type Answer, calls, model, playing, text, toolOf } from '../agent/script.js'
import { assistant, user, whole } from './whole.js'

const { runEmbeddedPiAgent, SessionManager } = ours
const image = { type: 'image', mimeType: 'image/png', data: 'AAAA' }
const called = {
  ...assistant('calls'),
  content: [
    { type: 'thinking', thinking: 'what now' },
    { type: 'text', text: 'I look.' },
    { type: 'toolCall', id: 'c', name: 'read', arguments: { path: 'a.ts', lines: [1, 2] } },
  ],
}
const messages: any[] = [
  user('a question'),
  { ...user(''), content: [{ type: 'text', text: 'parts' }] },
  called,
  {
    role: 'toolResult',
    toolCallId: 'c',
    toolName: 'read',
    content: [{ type: 'text', text: 'x'.repeat(3_000) }, image],
    isError: false,
    timestamp: 1,
  },
  { role: 'custom', customType: 'a', content: 'a custom one', display: true, timestamp: 1 },
  { role: 'bashExecution', command: 'ls', output: 'a\nb', timestamp: 1 },
  { role: 'branchSummary', summary: 'a branch', fromId: 'x', timestamp: 1 },
  { role: 'compactionSummary', summary: 'before', tokensBefore: 1, timestamp: 1 },
  { role: 'mine' },
]

describe.each([
  ['0.54', pi054],
  ['0.73', pi073],
])('as pi %s', (version, pi: any) => {
  test('sizes are estimated alike', () => {
    expect(messages.map(ours.estimateTokens)).toEqual(messages.map(pi.estimateTokens))
    const { usage } = assistant('a')
    expect(ours.calculateContextTokens(usage)).toBe(pi.calculateContextTokens(usage))
    expect(ours.DEFAULT_COMPACTION_SETTINGS).toEqual(pi.DEFAULT_COMPACTION_SETTINGS)
    const settings = ours.DEFAULT_COMPACTION_SETTINGS
    const full = (module: any) =>
      [1, 83_616, 83_617].map((tokens) => module.shouldCompact(tokens, 100_000, settings))
    expect(full(ours)).toEqual(full(pi))
  })

  test('a session is cut at the same entry, whatever is kept', () => {
    const manager = SessionManager.inMemory('/work')
    whole(manager)
    manager.appendMessage(called)
    for (const message of messages.slice(3, 8)) manager.appendMessage(message)
    manager.appendMessage(assistant('done'))
    const entries = manager.getEntries()
    expect(ours.getLastAssistantUsage(entries)).toEqual(pi.getLastAssistantUsage(entries))
    for (let keep = 0; keep < 900; keep += 7) {
      for (const start of [0, 3, 9]) {
        const cut = (module: any) => module.findCutPoint(entries, start, entries.length, keep)
        expect(cut(ours)).toEqual(cut(pi))
      }
    }
    const starts = (module: any) =>
      entries.map((_, at) => module.findTurnStartIndex(entries, at, 0))
    expect(starts(ours)).toEqual(starts(pi))
  })

  test('a conversation is the same text', () => {
    const known = messages.slice(0, 4)
    // 0.54 does not cut long results.
    if (version === '0.54') known.pop()
    expect(ours.serializeConversation(known)).toBe(pi.serializeConversation(known))
  })
})

/** What a model is called with by `generateSummary`. */
function registered(...answers: Answer[]) {
  const { streamFn, seen } = playing(...answers)
  const api = 'summaries'
  registerApiProvider({ api, stream: streamFn, streamSimple: streamFn }, 'a test')
  afterwards(() => unregisterApiProviders('a test'))
  return { seen, summarizer: { ...model, api } }
}

test('a summary takes the parameters of both versions, and continues the one before', async () => {
  const { seen, summarizer } = registered(text('one'), text('two'), text('three'))
  const { signal } = new AbortController()
  const summary = (...rest: any[]) =>
    (ours.generateSummary as any)([user('a question')], summarizer, 1_000, 'key', ...rest)
  expect(await summary(signal, 'files only', 'before')).toBe('one')
  expect(await summary({ 'x-a': 'b' }, signal, 'files only', 'before', 'high')).toBe('two')
  expect(await summary()).toBe('three')
  const [first, second, third] = seen.map(({ context, options }) => ({
    text: context.messages[0].content[0].text,
    options,
  }))
  expect(first?.options).toEqual({ apiKey: 'key', signal, maxTokens: 800 })
  expect(second?.options).toEqual({
    apiKey: 'key',
    signal,
    headers: { 'x-a': 'b' },
    reasoning: 'high',
    maxTokens: 800,
  })
  expect(first?.text).toBe(second?.text)
  expect(first?.text).toMatch(/^<conversation>\n\[User\]: a question\n<\/conversation>/)
  expect(first?.text).toContain('<previous-summary>\nbefore\n</previous-summary>')
  expect(first?.text).toContain('Additional focus: files only')
  expect(third?.text).not.toContain('previous')
})

test('a summary that fails or is empty is refused', async () => {
  const failed = { parts: [], stopReason: 'error', errorMessage: 'no model' }
  const { summarizer } = registered(failed, text(' '))
  const summary = () => ours.generateSummary([user('a')], summarizer, 1_000, 'key')
  await expect(summary()).rejects.toThrow('Summarization failed: no model')
  await expect(summary()).rejects.toThrow('the summary is empty')
})

const OVERFLOW: Answer = {
  parts: [],
  stopReason: 'error',
  errorMessage: 'prompt is too long: 200001 tokens > 200000 maximum',
}

/** A session of two answered questions, and the parameters of a third one. */
function third(changes: object) {
  const { path } = folder()
  const sessionFile = join(path, 'session.jsonl')
  const session = SessionManager.open(sessionFile)
  for (const name of ['one', 'two']) {
    session.appendMessage(user(name.repeat(100)))
    session.appendMessage(assistant(`answer ${name}`))
  }
  const events: any[] = []
  return {
    events,
    sessionFile,
    params: {
      sessionId: 's',
      sessionFile,
      workspaceDir: path,
      prompt: 'three',
      model,
      timeoutMs: 60_000,
      runId: 'r',
      onAgentEvent: ({ stream, data }: any) => {
        if (stream === 'compaction') events.push(data)
      },
      ...changes,
    },
  }
}

test('a run whose context is too long compacts its session and goes on', async () => {
  const { streamFn, seen } = playing(OVERFLOW, text('the summary'), text('the answer'))
  const { params, events, sessionFile } = third({ streamFn })
  const result = await runEmbeddedPiAgent(params)
  expect(result.payloads).toEqual([{ text: 'the answer' }])
  expect(result.meta).toMatchObject({ agentMeta: { compactionCount: 1 }, stopReason: 'stop' })
  expect(result.meta.error).toBeUndefined()
  expect(events).toEqual([
    { phase: 'start', reason: 'refused' },
    { phase: 'end', willRetry: true },
  ])
  expect(seen[1]?.context.messages[0].content[0].text).toContain('[User]: one')
  // The summary and what was kept of it, and never the answer that failed.
  expect(seen[2]?.context.messages[0].content[0].text).toContain('the summary')
  expect(seen[2]?.roles.at(-1)).toBe('user')
  expect(JSON.stringify(seen[2]?.context.messages)).not.toContain('oneone')
  const entries = SessionManager.open(sessionFile).getEntries()
  expect(entries.slice(-3).map((it: any) => it.message?.role ?? it.type)).toEqual([
    'assistant',
    'compaction',
    'assistant',
  ])
})

test('a context that grows too long between the calls of a tool is compacted there', async () => {
  const answers = [calls('look'), OVERFLOW, text('the summary'), text('the answer')]
  const { streamFn, seen } = playing(...answers)
  const { params } = third({ streamFn, tools: [toolOf('look')] })
  const result = await runEmbeddedPiAgent(params)
  expect(result.payloads).toEqual([{ text: 'the answer' }])
  expect(seen[3]?.roles.slice(-3)).toEqual(['user', 'assistant', 'toolResult'])
})

test('a summary that fails is the error of the run, and nothing is written', async () => {
  const failed = { parts: [], stopReason: 'error', errorMessage: 'no model' }
  const { streamFn } = playing(OVERFLOW, failed)
  const { params, events, sessionFile } = third({ streamFn })
  const { meta } = await runEmbeddedPiAgent(params)
  expect(meta.error).toEqual({
    kind: 'compaction_failure',
    message: 'Summarization failed: no model',
  })
  expect(events.at(-1)).toMatchObject({ phase: 'end', willRetry: false })
  const types = SessionManager.open(sessionFile)
    .getEntries()
    .map(({ type }) => type)
  expect(types).not.toContain('compaction')
})

test('a context that stays too long ends the run, after three compactions at most', async () => {
  const answers = Array.from({ length: 9 }, (_, at) => (at % 2 === 0 ? OVERFLOW : text('sum')))
  const { streamFn } = playing(...answers)
  const { params } = third({ streamFn })
  const { meta } = await runEmbeddedPiAgent(params)
  expect(meta.error).toMatchObject({ kind: 'context_overflow' })
  expect(meta.agentMeta.compactionCount).toBeLessThanOrEqual(3)
  const off = playing(OVERFLOW)
  const without = third({ streamFn: off.streamFn, compaction: false })
  const refused = await runEmbeddedPiAgent(without.params)
  expect(refused.meta).toMatchObject({
    error: { kind: 'context_overflow' },
    agentMeta: { compactionCount: 0 },
  })
  expect(off.seen).toHaveLength(1)
})

test('a session that nearly fills the window is compacted before the prompt', async () => {
  const { streamFn, seen } = playing(text('the summary'), text('the answer'))
  const small = { ...model, contextWindow: 200 }
  const { params, events } = third({ streamFn, model: small })
  const session = SessionManager.open(params.sessionFile)
  const large = assistant('large')
  large.usage = { ...large.usage, totalTokens: 190 }
  session.appendMessage(large)
  const { payloads, meta } = await runEmbeddedPiAgent(params)
  expect(payloads).toEqual([{ text: 'the answer' }])
  expect(meta.agentMeta.compactionCount).toBe(1)
  expect(events).toEqual([
    { phase: 'start', reason: 'full' },
    { phase: 'end', willRetry: false },
  ])
  expect(seen[1]?.context.messages[0].content[0].text).toContain('the summary')
})

test('a run in a session of a ledger is compacted there', async () => {
  const engine = closing(new AgentEngine({ ledger: { path: folder().file } }))
  const sessions = new ours.LedgerSessions(engine.ledger)
  const sessionManager = await sessions.create({ id: 'one' })
  for (const name of ['one', 'two']) {
    sessionManager.appendMessage(user(name.repeat(100)))
    sessionManager.appendMessage(assistant(`answer ${name}`))
  }
  const { streamFn } = playing(OVERFLOW, text('the summary'), text('the answer'))
  const { params } = third({ streamFn, sessionManager })
  await runEmbeddedPiAgent(params)
  const again = await sessions.open('one')
  expect(again.getEntries()).toEqual(sessionManager.getEntries())
  expect(again.getEntries().map(({ type }) => type)).toContain('compaction')
})
