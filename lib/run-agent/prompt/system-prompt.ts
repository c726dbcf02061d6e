// The system prompt of an agent: identity, files of its workspace, tools, runtime. It must never contain a clock: the same agent has the
// same bytes in each call, so that the provider's prompt cache has them. The date goes with the message.

import type { CodingTool, CodingToolName, MessageInput } from '../../../index.d.ts'
import { buildSystemPrompt, parseSessionKey } from '../../../index.js'
import { bootstrapFiles } from './bootstrap.ts'

const IDENTITY =
  'You are a helpful AI assistant. You work in a directory of your own, with tools that read and change its files and run commands.'
/** Characters of one file, and of all. */
const CAPS = { perFile: 50_000, total: 200_000 }
/** When to use a tool, and how. */
const GUIDELINES: Readonly<Partial<Record<CodingToolName, readonly string[]>>> = {
  read: ['Use it instead of `cat`; `offset` (from 1) and `limit` select lines.'],
  write: ['For new files and complete rewrites only.'],
  edit: ['For small changes: `oldText` must occur exactly once.'],
  bash: ['For searches, tests and programs; a command starts in the workspace.'],
  apply_patch: ['For changes of several files at once: all of them happen, or none.'],
}
/** A session of several people: it does not get what the agent remembers of one. */
const SHARED = /:peer:(?:group|channel):/

interface PromptInput {
  identity: string | undefined
  workspace: string
  tools: readonly CodingTool[]
  sessionKey: string
}

function systemPrompt({ identity, workspace, tools, sessionKey }: PromptInput): string {
  const isShared = SHARED.test(sessionKey) || parseSessionKey(sessionKey).kind === 'group'
  const sections = [
    buildSystemPrompt({ identity: identity ?? IDENTITY }),
    buildSystemPrompt({
      files: bootstrapFiles(workspace),
      caps: CAPS,
      isMainSession: !isShared,
    }),
    buildSystemPrompt({ tools: tools.map(described) }),
    runtime(workspace),
  ]
  return sections.filter((section) => section !== '').join('\n\n')
}

function described({ name, description }: CodingTool) {
  return {
    name,
    ...(description !== undefined && { description }),
    guidelines: [...(GUIDELINES[name] ?? [])],
  }
}

/** The machine. The working directory is the workspace. */
function runtime(workspace: string): string {
  const { SHELL } = process.env
  const lines = [
    `OS: ${process.platform} ${process.arch}`,
    `CWD: ${workspace}`,
    `Time zone: ${timeZone()}`,
    `Node.js: ${process.version}`,
    ...(SHELL ? [`Shell: ${SHELL}`] : []),
  ]
  // Each in one line: none begins a section of its own.
  return `## Runtime\n\n${lines.map((line) => `- ${line.replace(/\s+/g, ' ')}`).join('\n')}`
}

/** The message of a user, with the date and time beside it. */
function userMessage(text: string, now: Date): MessageInput {
  const date = new Intl.DateTimeFormat('en-CA', {
    dateStyle: 'full',
    timeStyle: 'short',
    hourCycle: 'h23',
    timeZone: timeZone(),
  }).format(now)
  return {
    role: 'user',
    createdAt: now.getTime(),
    content: [
      { type: 'text', text: `Date: ${date} (${timeZone()})`, origin: 'event' },
      { type: 'text', text },
    ],
  }
}

function timeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone
}

export { systemPrompt, userMessage }
