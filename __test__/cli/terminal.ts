// A real terminal for a program: tmux, with a server of its own for each test. It must never touch another tmux of the machine.

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { afterwards, folder } from '../support/cleanup.js'
import { program } from './program.js'

/** Whether there is a tmux; the check of the project installs it. */
export const hasTmux = (() => {
  try {
    execFileSync('tmux', ['-V'])
    return true
  } catch {
    return false
  }
})()

if (!hasTmux) {
  const message = 'no tmux is installed, so the chat was not tried in a terminal'
  if (process.env.CI) throw new Error(message)
  console.log(`skipped: ${message}`)
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** The program in a terminal of 80 columns and 24 rows; its exit code is the last line of the screen. */
export function inTerminal(args: readonly string[], env: NodeJS.ProcessEnv) {
  const socket = join(folder().path, 'tmux')
  const tmux = (...more: string[]): string =>
    execFileSync('tmux', ['-S', socket, '-f', '/dev/null', ...more], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, HOME: env.HOME, TERM: 'xterm-256color', LANG: 'C.UTF-8' },
    })
  const variables = Object.entries(env).map(([name, value]) => `${name}=${quoted(value ?? '')}`)
  const command = ['env', ...variables, process.execPath, program, ...args.map(quoted)].join(' ')
  tmux('-u', 'new-session', '-d', '-x', '80', '-y', '24', `${command}; echo "exit code $?"; cat`)
  afterwards(() => tmux('kill-server'))
  const written = join(folder().path, 'written')
  tmux('pipe-pane', `cat > ${quoted(written)}`)
  /** How often the program has cleared what is below the cursor. */
  const drawn = () =>
    (existsSync(written) ? readFileSync(written, 'latin1') : '').split('\x1b[0J').length
  const screen = (...options: string[]) =>
    tmux('capture-pane', '-p', ...options)
      .split('\n')
      .map((line) => line.trimEnd())
      .join('\n')
      .trimEnd()
  return {
    /** What the terminal shows. */
    screen: () => screen(),
    /** The same with its colours. */
    coloured: () => screen('-e'),
    type: (text: string) => tmux('send-keys', '-l', text),
    key: (...names: string[]) => tmux('send-keys', ...names),
    /** All of a text at once. */
    paste: (text: string) => tmux('set-buffer', text, ';', 'paste-buffer'),
    /** Changes the size, and waits until the program has drawn its line again: it would draw it for a size of the past. */
    resize: async (columns: number, rows: number) => {
      const before = drawn()
      tmux('resize-window', '-x', String(columns), '-y', String(rows))
      await vi.waitFor(() => expect(drawn()).toBeGreaterThan(before), {
        timeout: 30_000,
        interval: 30,
      })
    },
    /** Waits until the terminal shows a text. */
    shows: (text: string | RegExp) =>
      vi.waitFor(
        () =>
          typeof text === 'string'
            ? expect(screen()).toContain(text)
            : expect(screen()).toMatch(text),
        { timeout: 30_000, interval: 30 },
      ),
  }
}
