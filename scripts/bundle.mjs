// Owns the JavaScript that is published: the TypeScript of `lib/` without its types, joined in some milliseconds. `index.js` is the
// package, `web.js` its subpath `/web` and `ai-sdk.js` its subpath `/ai-sdk`, which never load the addon, `testing.js` and `run-agent.js`
// are subpaths that load `index.js`, and `cli.js` is the program; `browser.js` is all that a browser gets. One file loads sooner than twenty.
// But before an ES module imports one, Node.js searches its whole text for the names of its exports, which takes more processor time than
// all else of loading it: so the code of a large one is in a file of its own (`index.code.js`), and `index.js` has only the names. It must never
// contain other code of its own, check types (tsconfig.lib.json), or contain the binary, which is found when it is loaded.

import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Each published file, and the source that it begins with. A subpath that needs the engine requires `index.js`; else they share no file. */
const FILES = {
  'index.js': 'lib/index.ts',
  'web.js': 'lib/web/index.ts',
  'testing.js': 'lib/testing/index.ts',
  'ai-sdk.js': 'lib/ai-sdk/index.ts',
  'pi-ai.js': 'lib/pi-ai/index.ts',
  'pi-agent.js': 'lib/pi-agent/index.ts',
  'pi-session.js': 'lib/pi-session/index.ts',
  'run-agent.js': 'lib/run-agent/index.ts',
  'cli.js': 'lib/cli/index.ts',
  'browser.js': 'lib/browser.ts',
}

/** Imports of published files are left to Node.js: they are beside the file that needs them. */
const published = {
  name: 'published',
  resolveId: (id) =>
    /^(?:\.\.\/)+(?:index|pi-ai|pi-agent)\.js$/.test(id)
      ? { id: id.replace(/^(?:\.\.\/)+/, './'), external: true }
      : null,
}

/** Files with much code that other modules import: their code is in a file of its own. */
const DIVIDED = new Set(['index.js', 'pi-ai.js', 'pi-agent.js', 'pi-session.js', 'run-agent.js'])

/** Joins the sources; vitest calls it before a run, so that a test sees what was edited. */
export default async function bundle() {
  for (const [file, input] of Object.entries(FILES)) {
    const sources = await rolldown({
      input: join(root, input),
      platform: 'node',
      plugins: [published],
      logLevel: 'warn',
    })
    const code = DIVIDED.has(file) ? file.replace(/\.js$/, '.code.js') : file
    const { output } = await sources.generate({ format: 'cjs', strict: true, esModule: false })
    await sources.close()
    await writeFile(join(root, code), ascii(output[0].code))
    if (code !== file) await writeFile(join(root, file), named(code, output[0].exports))
  }
}

/**
 * The code with escapes for what ASCII does not have, which mean the same in strings, templates and patterns. Node.js reads such a file
 * sooner, and V8 stores it in half the memory.
 */
function ascii(code) {
  const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return code.replace(/[\u0080-\uffff]/g, escaped)
}

/** A module with the exports of the file `code`, by name. */
function named(code, names) {
  const exported = names.map((name) => `exports.${name} = code.${name};\n`)
  return `"use strict";\nconst code = require("./${code}");\n${exported.join('')}`
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await bundle()
