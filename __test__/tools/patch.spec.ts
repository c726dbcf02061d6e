// `applyPatch` through the addon. The forms, the leniency and the malformed patches are tested in crates/patch.
// It must never touch a file.

import { expect, test } from 'vitest'
import { applyPatch } from '../../index.js'

const files = { 'a.txt': 'one\ntwo\nthree\n', 'b/c.txt': 'old\r\n' }

test('a unified diff changes, adds, moves and deletes files at once', async () => {
  const patch = `--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+2
 three
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
diff --git a/b/c.txt b/d.txt
similarity index 100%
rename from b/c.txt
rename to d.txt
`
  expect(await applyPatch(patch, files)).toEqual({
    applied: true,
    changes: [
      {
        path: 'a.txt',
        kind: 'modified',
        content: 'one\n2\nthree\n',
        hunks: [{ patchLine: 3, fileLine: 1, offset: 0, ignored: 'nothing' }],
      },
      { path: 'b/c.txt', kind: 'deleted', content: null, hunks: [] },
      { path: 'd.txt', kind: 'added', content: 'old\r\n', source: 'b/c.txt', hunks: [] },
      { path: 'new.txt', kind: 'added', content: 'new\n', hunks: expect.any(Array) },
    ],
  })
})

test('the form of `*** Begin Patch` forgives white space and says so', async () => {
  const patch = `*** Begin Patch
*** Update File: a.txt
@@
 one
-two  
+2
*** End Patch`
  expect(await applyPatch(patch, files)).toMatchObject({
    applied: true,
    changes: [{ content: 'one\n2\nthree\n', hunks: [{ ignored: 'trailing_whitespace' }] }],
  })
})

test('a patch that does not fit changes nothing, and every problem is listed with its line', async () => {
  const patch = `*** Begin Patch
*** Update File: a.txt
@@
-nowhere
+x
*** Update File: missing.txt
@@
-a
+b
*** End Patch`
  const outcome = await applyPatch(patch, files)
  expect(outcome.applied).toBe(false)
  const lines = outcome.applied ? [] : outcome.problems.map(({ line }) => line)
  expect(lines).toEqual([3, 6])
  expect(await applyPatch('*** Begin Patch\nnothing', files)).toMatchObject({ applied: false })
  expect(await applyPatch('--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n', files)).toMatchObject({
    applied: false,
    problems: [{ line: expect.any(Number), message: expect.stringContaining('../x') }],
  })
})

test('bad input is refused at its path', async () => {
  const any = (value: unknown) => value as never
  await expect(applyPatch(any(1), files)).rejects.toMatchObject({ field: 'patch' })
  await expect(applyPatch('', any(null))).rejects.toMatchObject({ field: 'files' })
  await expect(applyPatch('', any({ a: 1 }))).rejects.toMatchObject({
    code: 'invalid_options',
    field: 'files.a',
  })
})
