// Owns the JavaScript that is published: the TypeScript of `lib/` without its types, joined in some milliseconds. `index.js` is the
// package, `web.js` its subpath `/web` and `ai-sdk.js` its subpath `/ai-sdk`, which never load the addon, `testing.js` and `run-agent.js`
// are subpaths that load `index.js`, and `cli.js` is the program; `browser.js` is all that a browser gets. One file loads sooner than twenty. It must never contain
// code of its own, check types (tsconfig.lib.json), or contain the binary, which is found when it is loaded.

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

/** Joins the sources; vitest calls it before a run, so that a test sees what was edited. */
export default async function bundle() {
  for (const [file, input] of Object.entries(FILES)) {
    const sources = await rolldown({
      input: join(root, input),
      platform: 'node',
      plugins: [published],
      logLevel: 'warn',
    })
    await sources.write({
      file: join(root, file),
      format: 'cjs',
      strict: true,
      esModule: false,
    })
    await sources.close()
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await bundle()
