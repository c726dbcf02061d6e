// Owns `index.js`, the one file of JavaScript that is published: the TypeScript of `lib/` without its types, joined in some milliseconds.
// One file loads sooner than twenty. It must never contain code of its own, check types (tsconfig.lib.json), or contain the binary,
// which is found when it is loaded.

import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Joins the sources; vitest calls it before a run, so that a test sees what was edited. */
export default async function bundle() {
  const sources = await rolldown({
    input: join(root, 'lib', 'index.ts'),
    platform: 'node',
    logLevel: 'warn',
  })
  await sources.write({
    file: join(root, 'index.js'),
    format: 'cjs',
    strict: true,
    esModule: false,
  })
  await sources.close()
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await bundle()
