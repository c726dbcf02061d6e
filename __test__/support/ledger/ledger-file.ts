// Opens a ledger's file, and mounts a file system over a folder of a test. It must never mount over anything else.

import { execFileSync, spawnSync } from 'node:child_process'
import { expect } from 'vitest'
import { AgentEngine, type AgentEngineError, type ScriptedReply } from '../../../index.js'
import { afterwards, closing } from '../cleanup.js'
import { context, scriptedEngine } from '../engine.js'

export function openLedger(path: string, replies: ScriptedReply[] = []) {
  const made = scriptedEngine(replies, { ledger: { path } })
  closing(made.engine)
  return { ...made, ledger: made.engine.ledger }
}

/** A ledger with one turn in it, closed. */
export async function closedLedger(path: string): Promise<string> {
  const { engine } = scriptedEngine(['ok'], { ledger: { path } })
  const { turnId, persisted } = await engine.run(context()).result
  expect(persisted).toBe(true)
  await engine.close()
  return turnId
}

export function openError(path: string): { code: string; message: string } {
  try {
    new AgentEngine({ ledger: { path } })
  } catch (error) {
    const { name, code, message } = error as AgentEngineError
    expect(name).toBe('AgentEngineError')
    return { code, message }
  }
  return expect.fail(`\`${path}\` was opened`)
}

export const isRoot = process.getuid?.() === 0
export const isLinux = process.platform === 'linux'

/** Mounts a file system over `path` until the test ends; false where that is not allowed. */
export function mountOver(path: string, ...options: string[]): boolean {
  if (!isRoot || !isLinux) return false
  if (spawnSync('mount', [...options, path]).status !== 0) return false
  afterwards(() => execFileSync('umount', ['--lazy', path]))
  return true
}
