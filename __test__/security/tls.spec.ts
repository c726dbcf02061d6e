// Which versions of TLS a provider may speak: 1.2 and 1.3. An older server is refused with what is wrong, and gets neither a key nor a prompt. It must
// never take a server that is broken for one that is refused.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, get } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { SecureVersion } from 'node:tls'
import { expect, test } from 'vitest'
import { afterwards, closing } from '../support/cleanup.js'
import { context, engineAt } from '../support/engine.js'
import { chat } from '../support/servers/chat.js'

const pem = (name: string) =>
  readFileSync(join(import.meta.dirname, '../../crates/provider/src/http/testdata', name), 'utf8')
const authority = pem('ca.pem')
// OpenSSL has the old versions only at this level.
const ciphers = 'DEFAULT@SECLEVEL=0'

/** A server of Chat Completions that speaks one version. */
async function speaking(version: SecureVersion) {
  const [paths, failures]: [string[], string[]] = [[], []]
  const server = createServer(
    {
      key: pem('server.key.pem'),
      cert: pem('server.pem'),
      minVersion: version,
      maxVersion: version,
      ciphers,
    },
    (request, response) => {
      paths.push(`${request.url}`)
      request.resume().on('end', () => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.end(chat.answer('ok'))
      })
    },
  )
  server.on('tlsClientError', (error: NodeJS.ErrnoException) => failures.push(`${error.code}`))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `https://localhost:${port}`, port, paths, failures }
}

/** Whether a client of that version gets an answer. */
async function answers(port: number, version: SecureVersion): Promise<boolean> {
  const request = get({
    host: '127.0.0.1',
    port,
    servername: 'localhost',
    ca: authority,
    minVersion: version,
    maxVersion: version,
    ciphers,
    path: '/control',
    agent: false,
  })
  try {
    const [response] = await once(request, 'response')
    await once(response.resume(), 'end')
    return response.statusCode === 200
  } catch {
    return false
  }
}

const run = async (url: string) => {
  const provider = { api: 'openai-chat', caCertificates: authority }
  return closing(engineAt(url, {}, provider)).run(context()).result
}

test.for<SecureVersion>(['TLSv1', 'TLSv1.1'])(
  'a server that speaks only %s is refused, once and with what is wrong',
  async (version, { skip }) => {
    const { url, port, paths, failures } = await speaking(version)
    if (!(await answers(port, version))) return skip(`this OpenSSL has no ${version}`)
    expect(paths.splice(0)).toEqual(['/control'])
    const { stopReason, error, attempts } = await run(url)
    expect({ stopReason, error, attempts }).toMatchObject({
      stopReason: 'error',
      error: { kind: 'model_error', retryable: false, detail: { code: 'tls_handshake' } },
      attempts: [{}],
    })
    expect(paths).toEqual([])
    expect(failures).toEqual(['ERR_SSL_UNSUPPORTED_PROTOCOL'])
  },
)

test.each<SecureVersion>(['TLSv1.2', 'TLSv1.3'])(
  'a server that speaks only %s is called',
  async (version) => {
    const { url, paths, failures } = await speaking(version)
    const { stopReason, text } = await run(url)
    expect({ stopReason, text, paths: paths.length, failures }).toEqual({
      stopReason: 'end_turn',
      text: 'ok',
      paths: 1,
      failures: [],
    })
  },
)
