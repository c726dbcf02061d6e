// The page of the host: a chat as one of its callers, and the desk that decides about approvals. It must never put a text of others into the
// page as HTML.

const element = (id) => document.getElementById(id)
const show = (text) => {
  element('status').textContent = text
}
let events

/** A line of the log. */
function line(kind, text) {
  const paragraph = document.createElement('p')
  paragraph.className = kind
  paragraph.textContent = text
  element('log').append(paragraph)
  return paragraph
}

async function post(path, body) {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error((await response.json()).message)
}

/** Watches the session of the chosen caller. */
async function join() {
  events?.close()
  const [channel, from] = [element('channel').value, element('from').value]
  const query = new URLSearchParams({ channel, from })
  const { sessionLabel } = await (await fetch(`/session?${query}`)).json()
  element('session').textContent = sessionLabel
  element('log').replaceChildren()
  events = new EventSource(`/events?session=${encodeURIComponent(sessionLabel)}`)
  let answer
  const on = (type, listener) =>
    events.addEventListener(type, ({ data }) => listener(JSON.parse(data)))
  events.onopen = () => show('ready')
  events.onerror = () => show('reconnecting')
  on('stream_start', () => show('working'))
  on('token', ({ text }) => {
    answer ??= line('assistant', '')
    answer.textContent += text
  })
  on('tool_status', ({ toolName, status }) => {
    answer = undefined
    if (status !== 'started') line('tool', `${toolName}: ${status}`)
  })
  on('approval', showApprovals)
  on('stream_end', ({ final }) => {
    answer = undefined
    if (final) show('ready')
  })
  on('stream_error', ({ error }) => show(`failed: ${error}`))
}

/** The calls that wait for the desk. */
async function showApprovals() {
  const waiting = await (await fetch('/approvals')).json()
  const lines = waiting.map(({ id, toolName, params }) => {
    const paragraph = document.createElement('p')
    paragraph.textContent = `${toolName} ${JSON.stringify(params)} `
    for (const decision of ['approve', 'deny']) {
      const button = document.createElement('button')
      button.textContent = decision
      button.onclick = () => post('/approvals', { id, decision }).then(showApprovals, failed)
      paragraph.append(button)
    }
    return paragraph
  })
  element('approvals').replaceChildren(...lines)
}

function failed({ message }) {
  show(`failed: ${message}`)
}

element('channel').onchange = () => join().catch(failed)
element('from').onchange = () => join().catch(failed)
element('form').onsubmit = (event) => {
  event.preventDefault()
  const [channel, from] = [element('channel').value, element('from').value]
  const text = element('text').value
  element('text').value = ''
  line('user', text)
  // Its id makes a message idempotent: one that is posted twice is answered once.
  post('/messages', { id: crypto.randomUUID(), channel, from, text }).catch(failed)
}
Promise.all([join(), showApprovals()]).catch(failed)
