// The page of the chat: sends messages, shows the events of a run, stops and steers it. It must never take text for HTML.

const element = (id) => document.getElementById(id)
const [log, form, text, stop, status] = ['log', 'form', 'text', 'stop', 'status'].map(element)
const [approval, question] = ['approval', 'question'].map(element)

/** The tab's session, and the run that it follows: a reload continues with both. */
const session = sessionStorage.session ?? crypto.randomUUID()
sessionStorage.session = session
let running = false

/** A line of the log. */
function line(kind, content = '') {
  const added = document.createElement('p')
  added.className = kind
  added.textContent = content
  log.append(added)
  added.scrollIntoView()
  return added
}

async function post(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ session, ...body }),
  })
  return { isOk: response.ok, ...(await response.json()) }
}

/** The calls that wait for a decision, by the ids of their approvals; the first one is shown. */
const waiting = new Map()

function showApproval() {
  const [next] = waiting.values()
  approval.hidden = next === undefined
  question.textContent = next === undefined ? '' : `${next.toolName} ${JSON.stringify(next.params)}`
}

async function decide(decision) {
  const [id] = waiting.keys()
  if (id === undefined) return
  const { isOk, code } = await post('/approval', { id, decision })
  if (!isOk) status.textContent = `refused: ${code}`
}

/** Shows the events of a run. An EventSource reconnects by itself, and then sends the number of the last event that it has. */
function follow(runId) {
  const source = new EventSource(`/events?run=${encodeURIComponent(runId)}`)
  /** The lines of this run's answers and tool calls, by the ids of messages and calls. */
  const lines = new Map()
  const lineOf = (kind, id) => {
    if (!lines.has(id)) lines.set(id, line(kind))
    return lines.get(id)
  }
  const on = (type, show) => {
    source.addEventListener(type, ({ data }) =>
      show(data === undefined ? undefined : JSON.parse(data)),
    )
  }
  const end = (words) => {
    source.close()
    waiting.clear()
    showApproval()
    setRunning(false)
    status.textContent = words
  }
  /** Nothing comes after this, not even for a page that is loaded again. */
  const over = (words) => {
    delete sessionStorage.run
    end(words)
  }

  sessionStorage.run = runId
  setRunning(true)
  source.onopen = () => {
    status.textContent = 'answering'
  }
  on('token', (event) => lineOf('assistant', event.messageId).append(event.text))
  on('tool_status', ({ toolCallId, toolName, status }) => {
    const shown = lineOf('tool', toolCallId)
    shown.dataset.status = status
    shown.textContent = `${toolName}: ${status}`
  })
  on('approval', (event) => {
    if (event.phase === 'requested') waiting.set(event.approvalId, event)
    else waiting.delete(event.approvalId)
    showApproval()
  })
  on('waiting', ({ reason }) => {
    status.textContent = `waiting: ${reason}`
  })
  on('stream_end', ({ final }) => final && over('ready'))
  on('stream_error', ({ error }) => over(`failed: ${error}`))
  // With data it is the server's last event, else the connection was lost. A browser makes it again, unless the server refused
  // it or the page is left: then a reload continues.
  on('error', (failure) => {
    if (failure !== undefined) over(`lost: ${failure.code}`)
    else if (source.readyState === EventSource.CLOSED) end('lost: reload to continue')
    else status.textContent = 'reconnecting'
  })
}

function setRunning(value) {
  running = value
  stop.disabled = !value
}

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  const words = text.value.trim()
  if (words === '') return
  text.value = ''
  // A run under way receives the message. One that has just ended does not, and the message begins the next.
  if (running && (await post('/steer', { text: words })).steered) {
    line('user steered', words)
    return
  }
  line('user', words)
  const { isOk, runId, code } = await post('/messages', { text: words })
  if (isOk) follow(runId)
  else status.textContent = `refused: ${code}`
})

stop.addEventListener('click', () => post('/abort'))
element('approve').addEventListener('click', () => decide('approve'))
element('deny').addEventListener('click', () => decide('deny'))

if (sessionStorage.run !== undefined) follow(sessionStorage.run)
