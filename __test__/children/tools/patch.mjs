// Applies a patch with the coding tools. Arguments: the workspace, and the file that has the patch. It must never begin again.
import { readFileSync } from 'node:fs'
import { createCodingTools } from '../../../index.js'

const [workspace, file] = process.argv.slice(2)
const [tool] = createCodingTools(workspace, { tools: ['apply_patch'] })
await tool.execute('1', { patch: readFileSync(file, 'utf8') })
