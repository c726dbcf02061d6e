// `applyPatch`: a patch, as models write them, applied to texts in memory. It must never read or write a file.

import type { PatchOutcome } from '../../index.d.ts'
import * as hub from '../native/hub.ts'
import { refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { readFields } from '../values/reader.ts'

const CODE = 'invalid_options'

/** Applies a patch to the texts of files. */
async function applyPatch(
  patch: string,
  files: Readonly<Record<string, string>>,
): Promise<PatchOutcome> {
  if (typeof patch !== 'string') throw refusal(CODE, 'patch', 'is not a string')
  const texts = readFields(files, 'files', CODE, 'files.')
  const args = toJson({ patch, files: texts }, 'files', () => CODE)
  return hub.request((id) => hub.nativeHub().applyPatch(id, args))
}

export { applyPatch }
