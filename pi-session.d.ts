// The types of `@nexus/agent-engine/pi-session`: the `SessionManager` of `@mariozechner/pi-coding-agent` (0.54 to 0.73), its files, and
// `runEmbeddedPiAgent` for callers of OpenClaw's. Written by hand; `lib/pi-session` is checked against them. They import nothing of pi.

import type { Ledger } from './index.js'
import type { AgentEvent, AgentMessage, AgentTool, StreamFn } from './pi-agent.js'
import type { ImageContent, Message, Model, TextContent, Usage } from './pi-ai.js'

/** The version of the files that are written. Older ones are read, and rewritten in this one. */
export declare const CURRENT_SESSION_VERSION = 3

export interface SessionHeader {
  type: 'session'
  version?: number
  id: string
  /** ISO 8601. */
  timestamp: string
  cwd: string
  parentSession?: string
}

export interface NewSessionOptions {
  id?: string
  parentSession?: string
}

export interface SessionEntryBase {
  type: string
  id: string
  parentId: string | null
  /** ISO 8601. */
  timestamp: string
}

export interface SessionMessageEntry extends SessionEntryBase {
  type: 'message'
  message: any
}
export interface ThinkingLevelChangeEntry extends SessionEntryBase {
  type: 'thinking_level_change'
  thinkingLevel: string
}
export interface ModelChangeEntry extends SessionEntryBase {
  type: 'model_change'
  provider: string
  modelId: string
}
export interface CompactionEntry<Details = unknown> extends SessionEntryBase {
  type: 'compaction'
  summary: string
  firstKeptEntryId: string
  tokensBefore: number
  details?: Details
  fromHook?: boolean
}
export interface BranchSummaryEntry<Details = unknown> extends SessionEntryBase {
  type: 'branch_summary'
  fromId: string
  summary: string
  details?: Details
  fromHook?: boolean
}
export interface CustomEntry<Data = unknown> extends SessionEntryBase {
  type: 'custom'
  customType: string
  data?: Data
}
export interface LabelEntry extends SessionEntryBase {
  type: 'label'
  targetId: string
  label: string | undefined
}
export interface SessionInfoEntry extends SessionEntryBase {
  type: 'session_info'
  name?: string
}
export interface CustomMessageEntry<Details = unknown> extends SessionEntryBase {
  type: 'custom_message'
  customType: string
  content: string | (TextContent | ImageContent)[]
  details?: Details
  display: boolean
}

export type SessionEntry =
  | SessionMessageEntry
  | ThinkingLevelChangeEntry
  | ModelChangeEntry
  | CompactionEntry
  | BranchSummaryEntry
  | CustomEntry
  | CustomMessageEntry
  | LabelEntry
  | SessionInfoEntry
export type FileEntry = SessionHeader | SessionEntry

export interface SessionTreeNode {
  entry: SessionEntry
  children: SessionTreeNode[]
  label?: string
  labelTimestamp?: string
}

/** What a model reads at a position of a session. */
export interface SessionContext {
  messages: any[]
  thinkingLevel: string
  model: { provider: string; modelId: string } | null
}

export interface SessionInfo {
  path: string
  id: string
  cwd: string
  name?: string
  parentSessionPath?: string
  created: Date
  modified: Date
  messageCount: number
  firstMessage: string
  allMessagesText: string
}

export type SessionListProgress = (loaded: number, total: number) => void

/** The entries of a file's text; lines that are no JSON are left out. */
export declare function parseSessionEntries(content: string): FileEntry[]
/** Brings entries to the current version, in place. */
export declare function migrateSessionEntries(entries: FileEntry[]): void
export declare function getLatestCompactionEntry(entries: SessionEntry[]): CompactionEntry | null
/** The messages from the root to a leaf: after a compaction its summary, what it kept, and what follows. */
export declare function buildSessionContext(
  entries: SessionEntry[],
  leafId?: string | null,
  byId?: Map<string, SessionEntry>,
): SessionContext
/** The messages as a model reads them: summaries, commands of the user and custom messages are messages of the user. */
export declare function convertToLlm(messages: any[]): Message[]
export declare function loadEntriesFromFile(path: string): FileEntry[]
export declare function findMostRecentSession(sessionDir: string): string | null

export interface CompactionSettings {
  enabled: boolean
  reserveTokens: number
  keepRecentTokens: number
}
export interface CutPointResult {
  firstKeptEntryIndex: number
  /** The entry with which the turn begins that is cut; -1 where none is. */
  turnStartIndex: number
  isSplitTurn: boolean
}

export declare const DEFAULT_COMPACTION_SETTINGS: CompactionSettings
export declare function calculateContextTokens(usage: Usage): number
/** The usage of the last answer that did not fail. */
export declare function getLastAssistantUsage(entries: SessionEntry[]): Usage | undefined
/** A quarter of the characters. */
export declare function estimateTokens(message: any): number
export declare function shouldCompact(
  contextTokens: number,
  contextWindow: number,
  settings: CompactionSettings,
): boolean
/** The first entry to keep, so that about `keepRecentTokens` are kept, of the entries from `startIndex` to `endIndex`, without that one. */
export declare function findCutPoint(
  entries: SessionEntry[],
  startIndex: number,
  endIndex: number,
  keepRecentTokens: number,
): CutPointResult
/** The entry with which the turn of an entry begins; -1 where none is. */
export declare function findTurnStartIndex(
  entries: SessionEntry[],
  entryIndex: number,
  startIndex: number,
): number
/** The conversation as a text, for a summary: results of tools are cut at 2,000 characters. */
export declare function serializeConversation(messages: Message[]): string
/**
 * A summary by the model, with the parameters of 0.54 or those of 0.73, which have headers before the signal.
 *
 * @throws where the model fails, or its summary is empty.
 */
export declare function generateSummary(
  currentMessages: any[],
  model: Model<any>,
  reserveTokens: number,
  apiKey: string,
  signal?: AbortSignal,
  customInstructions?: string,
  previousSummary?: string,
): Promise<string>
export declare function generateSummary(
  currentMessages: any[],
  model: Model<any>,
  reserveTokens: number,
  apiKey: string,
  headers?: Record<string, string>,
  signal?: AbortSignal,
  customInstructions?: string,
  previousSummary?: string,
  thinkingLevel?: string,
): Promise<string>

/** A session as a tree of entries, which is only appended to. Its file is pi's, and is written once an answer is in it; in a ledger it is from its first entry on. */
export declare class SessionManager {
  private constructor()
  /** A new session, in the directory of `cwd` under pi's own. */
  static create(cwd: string, sessionDir?: string): SessionManager
  /** The session of a file, of any version; a new one where the file does not exist. */
  static open(path: string, sessionDir?: string, cwd?: string): SessionManager
  static continueRecent(cwd: string, sessionDir?: string): SessionManager
  static inMemory(cwd?: string): SessionManager
  /** A copy of a session for another directory. */
  static forkFrom(source: string, cwd: string, sessionDir?: string): SessionManager
  static list(
    cwd: string,
    sessionDir?: string,
    onProgress?: SessionListProgress,
  ): Promise<SessionInfo[]>
  static listAll(onProgress?: SessionListProgress): Promise<SessionInfo[]>
  /** A session of a ledger, in a new file. The ledger is not changed by what is appended: see {@link SessionManager.saveTo}. */
  static fromLedger(
    ledger: Ledger,
    session: string,
    options?: { cwd?: string; sessionDir?: string },
  ): Promise<SessionManager>
  /**
   * Imports the session into a ledger, and returns its label there. Each call makes a session of its own, unless the ledger has just this one.
   */
  saveTo(ledger: Ledger, options?: { session?: string }): Promise<string>

  /** The label of a session that {@link LedgerSessions} has made or opened. */
  getLedgerSession(): string | undefined
  /** Waits until the ledger has all that was appended. Rejects with what has kept an entry from it; that entry is tried again. */
  flush(): Promise<void>
  /** A session of the engine that continues from the leaf: runs of it see the same context. Only of a session in a ledger. */
  forkInLedger(label?: string): Promise<string>
  /** Writes the session as pi's file. */
  exportFile(path: string): void

  setSessionFile(path: string): void
  newSession(options?: NewSessionOptions): string | undefined
  isPersisted(): boolean
  getCwd(): string
  getSessionDir(): string
  getSessionId(): string
  getSessionFile(): string | undefined
  getHeader(): SessionHeader | null
  getSessionName(): string | undefined

  /** Each append is a child of the leaf, and the new leaf. Returns its id. */
  appendMessage(message: any): string
  appendThinkingLevelChange(thinkingLevel: string): string
  appendModelChange(provider: string, modelId: string): string
  appendCompaction<Details = unknown>(
    summary: string,
    firstKeptEntryId: string,
    tokensBefore: number,
    details?: Details,
    fromHook?: boolean,
  ): string
  appendCustomEntry(customType: string, data?: unknown): string
  appendCustomMessageEntry<Details = unknown>(
    customType: string,
    content: string | (TextContent | ImageContent)[],
    display: boolean,
    details?: Details,
  ): string
  appendSessionInfo(name: string): string
  /** Without a label the entry loses its own. */
  appendLabelChange(targetId: string, label: string | undefined): string

  getLeafId(): string | null
  getLeafEntry(): SessionEntry | undefined
  getEntry(id: string): SessionEntry | undefined
  getChildren(parentId: string): SessionEntry[]
  getLabel(id: string): string | undefined
  /** The entries from the root to one of them. Default: the leaf. */
  getBranch(fromId?: string): SessionEntry[]
  getEntries(): SessionEntry[]
  getTree(): SessionTreeNode[]
  buildSessionContext(): SessionContext

  /** Moves the leaf. Nothing is written until the next append. */
  branch(fromId: string): void
  resetLeaf(): void
  branchWithSummary(
    fromId: string | null,
    summary: string,
    details?: unknown,
    fromHook?: boolean,
  ): string
  /** A new session with only the path to a leaf, which this manager goes on with. Returns its file. */
  createBranchedSession(leafId: string): string | undefined
}

/**
 * pi's sessions in a ledger, without files: each entry is a turn. What has been appended survives a kill of the process; the ledger has it after
 * `flush()`. The id of a session is pi's, its label in the ledger `pi:<id>`.
 *
 * @example
 * const sessions = new LedgerSessions(engine.ledger, { cwd: '/work' })
 * const session = await sessions.continueRecent()
 * session.appendMessage({ role: 'user', content: 'Hello?', timestamp: Date.now() })
 * await session.flush()
 */
export declare class LedgerSessions {
  /**
   * Default of `cwd`: that of the process. `spoolDir` has what is not in the ledger yet; default: beside the ledger's file, and for a ledger on a
   * server `spools` in pi's directory. It must outlive the process.
   */
  constructor(ledger: Ledger, options?: { cwd?: string; spoolDir?: string })
  create(options?: NewSessionOptions): Promise<SessionManager>
  open(id: string): Promise<SessionManager>
  /** The session of this directory that was used last; a new one where there is none. */
  continueRecent(): Promise<SessionManager>
  /** A copy of a session for this directory. */
  forkFrom(id: string): Promise<SessionManager>
  /** Copies a file of pi's, of any version. */
  importFile(path: string): Promise<SessionManager>
  /** The sessions of this directory, the last used first. `path` is the label. */
  list(onProgress?: SessionListProgress): Promise<SessionInfo[]>
  /** Those of all directories. */
  listAll(onProgress?: SessionListProgress): Promise<SessionInfo[]>
}

/** The parameters of {@link runEmbeddedPiAgent}: those of OpenClaw's function that callers pass. Others are accepted, and have no effect. */
export interface RunEmbeddedPiAgentParams {
  sessionId: string
  sessionKey?: string
  /** pi's session file: read, and appended to. */
  sessionFile: string
  /** The session in place of a file's: one of {@link LedgerSessions}. */
  sessionManager?: SessionManager
  workspaceDir: string
  prompt: string
  images?: ImageContent[]
  /** Default `anthropic`. */
  provider?: string
  model?: string | Model<any>
  apiKey?: string
  getApiKey?: (provider: string) => Promise<string | undefined> | string | undefined
  thinkLevel?: string
  /** Default: none. The run is aborted then. */
  timeoutMs?: number
  runId: string
  abortSignal?: AbortSignal
  /** Runs the work, one at a time for a lane. Default: at once. */
  enqueue?: <Value>(task: () => Promise<Value>) => Promise<Value>
  systemPrompt?: string
  extraSystemPrompt?: string
  streamParams?: { temperature?: number; maxTokens?: number; transport?: any; [name: string]: any }
  /** The tools of the run. */
  tools?: AgentTool[]
  /** Tools that the caller answers: a call of one ends the run, and is in `meta.pendingToolCalls`. */
  clientTools?: { function: { name: string; description?: string; parameters?: any } }[]
  disableTools?: boolean
  /**
   * Whether the session is compacted: before the prompt where the model's window is nearly full, and after an answer that its context was too long for,
   * at most three times; then the run goes on. Default true.
   */
  compaction?: boolean
  streamFn?: StreamFn
  /** At each message's end. */
  blockReplyBreak?: 'text_end' | 'message_end'
  onPartialReply?: (payload: { text: string; mediaUrls?: string[] }) => unknown
  onAssistantMessageStart?: () => unknown
  onBlockReply?: (payload: { text: string; mediaUrls?: string[] }) => unknown
  onBlockReplyFlush?: () => unknown
  onReasoningStream?: (payload: { text: string; mediaUrls?: string[] }) => unknown
  onReasoningEnd?: () => unknown
  onToolResult?: (payload: { text: string; mediaUrls?: string[] }) => unknown
  onAgentEvent?: (event: { stream: string; data: Record<string, unknown> }) => unknown
  /** Receives the handle of the run: the shape of the broker's stream handle. */
  onHandle?: (handle: EmbeddedPiHandle) => unknown
  [other: string]: any
}

/** A run under way. */
export interface EmbeddedPiHandle {
  /** Steers a message into the run. */
  queueMessage(text: string): Promise<void>
  isStreaming(): boolean
  isCompacting(): boolean
  abort(): void
}

export interface EmbeddedPiRunResult {
  /** The answer, and what failed. */
  payloads?: { text?: string; mediaUrl?: string; mediaUrls?: string[]; isError?: boolean }[]
  meta: {
    durationMs: number
    agentMeta: {
      sessionId: string
      provider: string
      model: string
      compactionCount?: number
      usage?: Partial<{
        input: number
        output: number
        cacheRead: number
        cacheWrite: number
        total: number
      }>
      /** Of the last call of the model: the size of the context. */
      lastCallUsage?: Partial<{
        input: number
        output: number
        cacheRead: number
        cacheWrite: number
        total: number
      }>
    }
    aborted?: boolean
    error?: {
      kind:
        | 'context_overflow'
        | 'compaction_failure'
        | 'role_ordering'
        | 'image_size'
        | 'retry_limit'
      message: string
    }
    stopReason?: string
    pendingToolCalls?: { id: string; name: string; arguments: string }[]
  }
}

/**
 * Runs a prompt in a session of pi's, to its end.
 *
 * @example
 * const { payloads, meta } = await runEmbeddedPiAgent({
 *   sessionId, sessionFile, workspaceDir, prompt: 'Hello?', provider: 'anthropic', model: 'claude-haiku-4-5', timeoutMs: 60_000, runId,
 * })
 * console.log(payloads?.[0]?.text, meta.agentMeta.usage)
 *
 * @throws for an unknown model.
 */
export declare function runEmbeddedPiAgent(
  params: RunEmbeddedPiAgentParams,
): Promise<EmbeddedPiRunResult>

export type { AgentEvent, AgentMessage, Usage }
