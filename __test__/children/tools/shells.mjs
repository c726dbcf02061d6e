// Commands that print without an end, or hide what they start. Argument: how many bytes are printed. It prints how much more memory this
// process had at its peak, in KiB, and the processes that are left. It must never end one of them itself.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCodingTools } from '../../../index.js'

const [bytes] = process.argv.slice(2)
const cwd = mkdtempSync(join(tmpdir(), 'shells-'))
const [bash] = createCodingTools(cwd, { tools: ['bash'] })
const text = async (command, timeout) => {
  const called = bash.execute('1', { command, timeout })
  return called.then(
    ({ content }) => content[0].text,
    (error) => error.message,
  )
}
const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
/** The processes with this word among their arguments, this one aside. */
const running = (word) =>
  readdirSync('/proc').filter((pid) => {
    try {
      const line = readFileSync(join('/proc', pid, 'cmdline'), 'utf8')
      return /^\d+$/.test(pid) && Number(pid) !== process.pid && line.includes(word)
    } catch {
      return false
    }
  })

await text('echo warm; head -c 1000000 /dev/zero')
const before = peak()
const shown = (await text(`head -c ${bytes} /dev/zero`)).length
const risen = peak() - before
// A number that no other process sleeps for.
const word = `${process.pid}.125`
const ended = []
for (const command of [
  `setsid sleep ${word} & sleep 0`,
  `(setsid sh -c '(sleep ${word} &) ; sleep ${word}' &) ; exit 0`,
  `trap '' TERM INT HUP; sleep ${word} & sleep ${word}`,
  `nohup sleep ${word} > /dev/null 2>&1 & disown; yes | head -n 1`,
  `yes ${word}`,
]) {
  await text(command, 0.5)
  ended.push(running(word).length === 0)
}
rmSync(cwd, { recursive: true })
console.log(JSON.stringify({ risen, shown, ended, left: running(word) }))
