// A call of a model at a host that does not exist: only a proxy of the environment can answer. It must never be given another one.

import { completeSimple, getModel } from '../../../pi-ai.js'

const model = { ...getModel('anthropic', 'claude-haiku-4-5'), baseUrl: 'http://model.invalid' }
const messages = [{ role: 'user', content: 'hi', timestamp: 1 }]
const { content, errorMessage } = await completeSimple(model, { messages }, { apiKey: 'sk-x' })
process.stdout.write(errorMessage ?? content.map(({ text }) => text).join(''))
