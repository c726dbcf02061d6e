// The chat and `run` in a real terminal: streaming, steering, Ctrl-C, resizing, colours. The scripted server holds each state until the
// screen shows it. It must never rely on how long something takes.

import { expect, test, vi } from 'vitest'
import { anthropic } from '../support/servers/anthropic.js'
import { gate, type Handler, sse, sseThenHold } from '../support/servers/server.js'
import { home } from './program.js'
import { hasTmux, inTerminal } from './terminal.js'

const inTmux = test.skipIf(!hasTmux)

/** An answer whose second half waits at a gate, and its end at another one. */
function halves(
  first: string,
  second: string,
  end: Promise<void> = Promise.resolve(),
): { answer: Handler; open: () => void } {
  const { wait, open } = gate()
  const answer: Handler = async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(anthropic.start({ input: 4000 }))
    response.write(anthropic.blockStart(0, { type: 'text', text: '' }))
    response.write(anthropic.delta(0, { type: 'text_delta', text: first }))
    await wait
    response.write(anthropic.delta(0, { type: 'text_delta', text: second }))
    await end
    response.end(anthropic.blockStop(0) + anthropic.end())
  }
  return { answer, open }
}

const says = (text: string): Handler => sse(anthropic.answer(text, { input: 4000 }))

inTmux('a chat shows an answer while it is written, and then asks again', async () => {
  const { answer, open } = halves('Hel', 'lo there.')
  const { env, sent } = await home(answer)
  const { type, key, shows, screen } = inTerminal(['chat'], env)
  await shows(/session main[\s\S]*\nyou>$/)
  type('Hi!')
  key('Enter')
  await shows(/\nHel$/)
  open()
  await shows(/\nHello there\.\n.* \| 4,005 tokens \| \$0\.004\d+\nyou>$/)
  expect(screen()).toContain('\nyou> Hi!\nHello there.\n')
  expect(sent(0)).toBe('Hi!')
  key('C-d')
  await shows('exit code 0')
})

inTmux('what is typed while the agent works steers it, and output waits for the line', async () => {
  const end = gate()
  const { answer, open } = halves('One', ' two.', end.wait)
  const { env, sent, server } = await home(answer, says('In short: three.'))
  const { type, key, shows, screen } = inTerminal(['chat'], env)
  await shows('you>')
  type('Count.')
  key('Enter')
  await shows('\nOne')
  type('be short')
  await shows('\nsteer> be short')
  open()
  key('Enter')
  await shows('\nsteer> be short\n two.')
  end.open()
  await shows(/In short: three\.\n.*\nyou>$/)
  expect(screen()).toContain('\nOne\nsteer> be short\n two.\nIn short: three.\n')
  expect(server.seen).toHaveLength(2)
  expect(sent(1)).toBe('be short')
})

inTmux('a line that was not sent when the answer ends begins the next message', async () => {
  const { answer, open } = halves('One', ' two.')
  const { env, sent } = await home(answer, says('Three.'))
  const { type, key, shows } = inTerminal(['chat'], env)
  await shows('you>')
  type('Count.')
  key('Enter')
  await shows('\nOne')
  type('and no')
  await shows('\nsteer> and no')
  open()
  await shows(/\n two\.\n.*\nyou> and no$/)
  type('w?')
  key('Enter')
  await shows('Three.')
  expect(sent(1)).toBe('and now?')
})

inTmux('lines that are pasted at once are one message, and none is lost', async () => {
  const { env, sent } = await home(says('One.'), says('Two.'))
  const { paste, key, shows, screen } = inTerminal(['chat'], env)
  await shows('you>')
  paste('first\nsecond\nthird')
  await shows(/\nOne\.\n.*\nyou> third$/)
  expect(screen()).toContain('\nyou> first\nsecond\nOne.\n')
  key('Enter')
  await shows(/\nTwo\.\n.*\nyou>$/)
  expect([sent(0), sent(1)]).toEqual(['first\nsecond', 'third'])
  paste('/help\n/exit\n')
  await shows('exit code 0')
  expect(screen()).toContain('\nyou> /help\n')
})

/** An answer that begins at a gate. */
function late(answer: Handler): { answer: Handler; open: () => void } {
  const { wait, open } = gate()
  return {
    answer: async (response, seen) => {
      await wait
      return answer(response, seen)
    },
    open,
  }
}

inTmux('until the answer begins a chat shows that it waits, and no trace of it stays', async () => {
  const { answer, open } = late(says('Hello.'))
  const { env } = await home(answer)
  const { type, key, shows, screen } = inTerminal(['chat'], env)
  await shows('you>')
  type('Hi!')
  key('Enter')
  await shows(/\nyou> Hi!\n[-\\|/] waiting(?: \d+ s)?$/)
  type('be')
  await shows(/\nyou> Hi!\nsteer> be$/)
  key('BSpace', 'BSpace')
  await shows(/\nyou> Hi!\n[-\\|/] waiting(?: \d+ s)?$/)
  open()
  await shows(/\nHello\.\n.*\nyou>$/)
  expect(screen()).toContain('\nyou> Hi!\nHello.\n')
})

inTmux('`run` shows that it waits for a model, and for a tool', async () => {
  const first = late(sse(anthropic.calls(['t1', 'bash', { command: 'echo hi' }])))
  const second = late(says('Done.'))
  const { env } = await home(first.answer, second.answer)
  const { shows, screen } = inTerminal(['run', 'do it'], env)
  await shows(/^[-\\|/] waiting(?: \d+ s)?$/)
  first.open()
  await shows(/^> bash .*\n< bash done .*: hi\n[-\\|/] waiting(?: \d+ s)?$/)
  second.open()
  await shows('exit code 0')
  expect(screen()).toMatch(/^> bash .*\n< bash done .*: hi\nDone\.\n/)
})

inTmux('a dumb terminal has no line that is drawn again', async () => {
  const { answer, open } = late(says('Hello.'))
  const { env, server } = await home(answer)
  const { shows, screen } = inTerminal(['run', 'hi'], { ...env, TERM: 'dumb' })
  await vi.waitFor(() => expect(server.seen).toHaveLength(1), { timeout: 30_000 })
  expect(screen()).toBe('')
  open()
  await shows(/^Hello\.\n/)
})

inTmux('a deleted line is no steering', async () => {
  const { answer, open } = halves('One', ' two.')
  const { env, server } = await home(answer)
  const { type, key, shows, screen } = inTerminal(['chat'], env)
  await shows('you>')
  type('Count.')
  key('Enter')
  await shows('\nOne')
  type('ab')
  await shows('\nsteer> ab')
  key('BSpace', 'BSpace')
  open()
  await shows(/two\.\n.*\nyou>$/)
  expect(screen()).not.toContain('steer>')
  expect(server.seen).toHaveLength(1)
})

inTmux('Ctrl-C aborts the answer once, and leaves the second time', async () => {
  const { answer } = halves('One', '')
  const { env, server } = await home(answer, says('Again.'))
  const { type, key, shows } = inTerminal(['chat'], env)
  await shows('you>')
  type('Count.')
  key('Enter')
  await shows('\nOne')
  key('C-c')
  await shows(/\nOne\naborted; Ctrl-C again leaves\nyou>$/)
  await server.seen[0]?.closed
  type('Once more.')
  key('Enter')
  await shows(/\nAgain\.\n.*\nyou>$/)
  key('C-c')
  await shows(/\nCtrl-C again leaves\nyou>$/)
  key('C-c')
  await shows('exit code 130')
})

inTmux('what an aborted answer has not read is not sent: it begins the next message', async () => {
  const { answer } = halves('One', '')
  const { env, sent, server } = await home(answer, says('Three.'))
  const { type, key, shows } = inTerminal(['chat'], env)
  await shows('you>')
  type('Count.')
  key('Enter')
  await shows('\nOne')
  type('be quick')
  await shows('\nsteer> be quick')
  key('Enter')
  key('C-c')
  await shows(/\naborted; Ctrl-C again leaves\nyou> be quick$/)
  expect(server.seen).toHaveLength(1)
  type('er')
  key('Enter')
  await shows('\nThree.')
  expect(sent(1)).toBe('be quicker')
})

inTmux('Ctrl-C twice during an answer leaves', async () => {
  const { answer } = halves('One', '')
  const { env } = await home(answer)
  const { type, key, shows } = inTerminal(['chat'], env)
  await shows('you>')
  type('Count.')
  key('Enter')
  await shows('\nOne')
  key('C-c', 'C-c')
  await shows('exit code 130')
})

inTmux('Ctrl-C forgets what was typed', async () => {
  const { env, sent } = await home(says('ok'))
  const { type, key, shows } = inTerminal(['chat'], env)
  await shows('you>')
  type('not this')
  await shows('you> not this')
  key('C-c')
  await shows(/\nCtrl-C again leaves\nyou>$/)
  type('this')
  key('Enter')
  await shows('\nok\n')
  expect(sent(0)).toBe('this')
})

inTmux('a line survives a change of the size, and the answer goes on below it', async () => {
  const { answer, open } = halves('One', ' two.')
  const { env, sent } = await home(answer, says('Done.'))
  const { type, key, shows, resize } = inTerminal(['chat'], env)
  await shows('you>')
  type('Count.')
  key('Enter')
  await shows('\nOne')
  type('a line that is longer than thirty columns')
  await shows('columns')
  await resize(30, 20)
  await shows(/\nOne\nsteer> a line that is longer t\nhan thirty columns$/)
  await resize(100, 30)
  await shows(/\nOne\nsteer> a line that is longer than thirty columns$/)
  open()
  key('Enter')
  await shows('Done.')
  expect(sent(1)).toBe('a line that is longer than thirty columns')
})

inTmux('commands of the chat: a new session, its usage, help, an unknown one', async () => {
  const { env, server } = await home(says('one'), says('two'))
  const { type, key, shows } = inTerminal(['chat', '--session', 'first'], env)
  await shows('session first')
  for (const [line, shown] of [
    ['hello', /\none\n/],
    ['/usage', /\n1 turn, 4,005 tokens, \$0\.004/],
    ['/new', /\nsession chat:\w+\n/],
    ['again', /\ntwo\n/],
    ['/help', /\n\/compact /],
    ['/nothing', /there is no command `\/nothing`/],
  ] as const) {
    type(line)
    key('Enter')
    await shows(shown)
  }
  expect(server.seen[1]?.body.messages).toHaveLength(1)
  type('/exit')
  key('Enter')
  await shows('exit code 0')
})

inTmux(
  'a text of the model cannot move the cursor, clear the screen or change the title',
  async () => {
    const { env } = await home(says('a\u001b[2J\u001b[1;1Hb\u001b]0;mine\u0007c\u009b2Jd\ne'))
    const { type, key, shows, screen } = inTerminal(['chat'], env)
    await shows('you>')
    type('Hi')
    key('Enter')
    await shows(/\ne\n/)
    expect(screen()).toContain('\nyou> Hi\na[2J[1;1Hb]0;minec2Jd\ne\n')
  },
)

inTmux('`run` writes the answer and its tools as they come, with colours', async () => {
  const { answer, open } = halves('It is', ' done.')
  const call = sse(anthropic.calls(['t1', 'bash', { command: 'echo hi' }]))
  const { env } = await home(call, answer)
  const { shows, coloured } = inTerminal(['run', 'do it'], env)
  await shows(/^> bash \{"command":"echo hi"\}\n< bash done .*: hi\nIt is$/)
  expect(coloured()).toContain('\u001b[36m> bash')
  open()
  await shows(/It is done\.\n.*tokens.*\nexit code 0$/)
})

inTmux('Ctrl-C ends `run` with code 130, and what was written stays', async () => {
  const { answer } = halves('It is', '')
  const { env } = await home(answer)
  const { key, shows } = inTerminal(['run', 'do it'], env)
  await shows(/^It is$/)
  key('C-c')
  await shows(/^It is(?:\^C)?\nnexus-agent: aborted\n[\s\S]*exit code 130$/)
})

inTmux.each([
  ['NO_COLOR', { NO_COLOR: '1' }, []],
  ['a dumb terminal', { TERM: 'dumb' }, []],
  ['--no-color', {}, ['--no-color']],
])('%s: no colours', async (_, more, options) => {
  const { env } = await home(sse(anthropic.calls(['t1', 'bash', { command: 'true' }])), says('ok'))
  const { shows, coloured } = inTerminal(['run', 'do it', ...options], { ...env, ...more })
  await shows('exit code 0')
  expect(coloured()).not.toContain('\u001b[')
})

inTmux('MYCLAW_NO_STREAM: the answer is written when it is complete', async () => {
  const { answer, open } = halves('It is', ' done.')
  const { env, server } = await home(answer)
  const { shows, screen } = inTerminal(['run', 'do it'], { ...env, MYCLAW_NO_STREAM: '1' })
  await vi.waitFor(() => expect(server.seen).toHaveLength(1), { timeout: 30_000 })
  expect(screen()).not.toContain('It is')
  open()
  await shows(/^It is done\.\n/)
})

inTmux('Ctrl-C aborts a `/compact`, and the chat goes on', async () => {
  const long = says('word '.repeat(2_000))
  const talk = Array.from({ length: 8 }, () => long)
  const { env, server, cli } = await home(
    ...talk,
    sseThenHold(anthropic.start()),
    says('Still here.'),
  )
  for (const _ of talk) await cli('run', 'go on')
  const { type, key, shows } = inTerminal(['chat'], env)
  await shows('you>')
  type('/compact')
  key('Enter')
  await vi.waitFor(() => expect(server.seen).toHaveLength(9), { timeout: 30_000 })
  key('C-c')
  await shows(/\naborted; Ctrl-C again leaves\nyou>$/)
  await server.seen[8]?.closed
  type('Hello?')
  key('Enter')
  await shows(/\nStill here\.\n.*\nyou>$/)
  key('C-c', 'C-c')
  await shows('exit code 130')
})
