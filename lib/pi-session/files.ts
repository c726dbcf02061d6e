// Where pi's session files are, and what is in them. It must never write one.

import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
} from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { FileEntry, SessionInfo, SessionListProgress } from '../../pi-session.d.ts'
import { parseSessionEntries } from './entries.ts'

const HEADER_BYTES = 512

/** pi's own directory. */
function agentDir(): string {
  const given = process.env.PI_CODING_AGENT_DIR
  if (!given) return join(homedir(), '.pi', 'agent')
  return given === '~' || given.startsWith('~/') ? homedir() + given.slice(1) : given
}

/** The directory of the sessions of a working directory; it exists afterwards. */
function sessionDirOf(cwd: string): string {
  const name = `--${cwd.replace(/^[/\\]/, '').replace(/[/\\:]/g, '-')}--`
  const dir = join(agentDir(), 'sessions', name)
  mkdirSync(dir, { recursive: true })
  return dir
}

/** The entries of a file; none where it does not exist, or has no header. */
function loadEntriesFromFile(path: string): FileEntry[] {
  if (!existsSync(path)) return []
  const entries = parseSessionEntries(readFileSync(path, 'utf8'))
  const [header] = entries
  return header?.type === 'session' && typeof header.id === 'string' ? entries : []
}

function hasHeader(path: string): boolean {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(HEADER_BYTES)
    const length = readSync(file, bytes, 0, HEADER_BYTES, 0)
    const [line = ''] = bytes.toString('utf8', 0, length).split('\n')
    return /^\s*\{.*"type"\s*:\s*"session"/.test(line)
  } finally {
    closeSync(file)
  }
}

/** Whether the last line of a file has its end. A crash, or an editor, may leave one without. */
function endsLine(path: string): boolean {
  const file = openSync(path, 'r')
  try {
    const last = Buffer.alloc(1)
    return readSync(file, last, 0, 1, Math.max(fstatSync(file).size - 1, 0)) === 0 || last[0] === 10
  } finally {
    closeSync(file)
  }
}

function findMostRecentSession(sessionDir: string): string | null {
  if (!existsSync(sessionDir)) return null
  const files = readdirSync(sessionDir)
    .filter((name) => name.endsWith('.jsonl'))
    .map((name) => join(sessionDir, name))
    .filter(hasHeader)
    .map((path) => ({ path, time: statSync(path).mtimeMs }))
  return files.sort((one, other) => other.time - one.time)[0]?.path ?? null
}

/** What a list shows of a file; undefined where it is no session. */
async function infoOf(path: string): Promise<SessionInfo | undefined> {
  const entries = parseSessionEntries(await readFile(path, 'utf8'))
  return infoOfEntries(path, entries, (await stat(path)).mtime)
}

/** What a list shows of a session, which was last written at `mtime`. */
function infoOfEntries(
  path: string,
  entries: readonly FileEntry[],
  mtime: Date,
): SessionInfo | undefined {
  const [header] = entries
  if (header?.type !== 'session') return undefined
  let name: string | undefined
  let messageCount = 0
  let firstMessage = ''
  let active = 0
  const texts: string[] = []
  for (const entry of entries) {
    if (entry.type === 'session_info') name = entry.name?.trim() || undefined
    if (entry.type !== 'message') continue
    messageCount++
    const { role, content, timestamp } = entry.message
    if (role !== 'user' && role !== 'assistant') continue
    const time = typeof timestamp === 'number' ? timestamp : Date.parse(entry.timestamp)
    if (time > active) active = time
    const text = textOf(content)
    if (text === '') continue
    texts.push(text)
    if (firstMessage === '' && role === 'user') firstMessage = text
  }
  const created = new Date(header.timestamp)
  const begun = Number.isNaN(created.getTime()) ? mtime : created
  return {
    path,
    id: header.id,
    cwd: typeof header.cwd === 'string' ? header.cwd : '',
    ...(name !== undefined && { name }),
    ...(header.parentSession !== undefined && { parentSessionPath: header.parentSession }),
    created,
    modified: active > 0 ? new Date(active) : begun,
    messageCount,
    firstMessage: firstMessage || '(no messages)',
    allMessagesText: texts.join(' '),
  }
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  const texts = content.filter((part) => part?.type === 'text').map((part) => part.text)
  return texts.join(' ')
}

/** The sessions of some directories, the last used first. */
async function listed(
  dirs: readonly string[],
  onProgress: SessionListProgress | undefined,
): Promise<SessionInfo[]> {
  const files: string[] = []
  for (const dir of dirs) {
    if (!existsSync(dir)) continue
    const names = await readdir(dir)
    files.push(...names.filter((name) => name.endsWith('.jsonl')).map((name) => join(dir, name)))
  }
  const found: SessionInfo[] = []
  for (const [index, file] of files.entries()) {
    const info = await infoOf(file)
    if (info !== undefined) found.push(info)
    onProgress?.(index + 1, files.length)
  }
  return lastUsedFirst(found)
}

function lastUsedFirst(sessions: SessionInfo[]): SessionInfo[] {
  return sessions.sort((one, other) => other.modified.getTime() - one.modified.getTime())
}

/** The directories of all working directories. */
async function allDirs(): Promise<string[]> {
  const root = join(agentDir(), 'sessions')
  if (!existsSync(root)) return []
  const found = await readdir(root, { withFileTypes: true })
  return found.filter((each) => each.isDirectory()).map(({ name }) => join(root, name))
}

export {
  agentDir,
  allDirs,
  endsLine,
  findMostRecentSession,
  infoOfEntries,
  lastUsedFirst,
  listed,
  loadEntriesFromFile,
  sessionDirOf,
}
