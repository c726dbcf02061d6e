// The smallest context without a problem, beside which the parts of another input are checked. It must never be run.

import type { AssembledContext } from '../../index.d.ts'

/** A context in which nothing is wrong. */
const SMALLEST: AssembledContext = {
  systemPrompt: '',
  currentMessage: { role: 'user', content: 'x' },
  tools: [],
  model: 'm',
  provider: 'p',
  timeoutMs: 1,
  runId: 'r',
  sessionLabel: 's',
  role: 'unified',
  toolsetName: 't',
  permissionsGranted: [],
  workspacePath: '/',
}

export { SMALLEST }
