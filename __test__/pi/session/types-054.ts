// What must type-check between `/pi-session` and pi 0.54's own declarations (`tsc` over this file is the test). It is never run.

import type * as pi from '@mariozechner/pi-coding-agent'
import * as ours from '../../../pi-session.js'

/** Each is assignable to the other. */
type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : never) : never
const same = <One, Other>(_: Same<One, Other>) => {}

same<pi.SessionEntry, ours.SessionEntry>(true)
same<pi.SessionHeader, ours.SessionHeader>(true)
same<pi.SessionContext, ours.SessionContext>(true)
same<pi.SessionInfo, ours.SessionInfo>(true)
same<pi.FileEntry, ours.FileEntry>(true)

// Every method of pi's manager, both ways. The classes themselves are not assignable: each has private members, which TypeScript compares by their
// declaration. Ours has methods beside them.
type Methods<Manager> = {
  [Name in keyof Manager as Name extends `_${string}` ? never : Name]: Manager[Name]
}
type Theirs = Methods<pi.SessionManager>
same<Theirs, Pick<Methods<ours.SessionManager>, keyof Theirs>>(true)
ours.SessionManager satisfies {
  // What is static returns a manager: its parameters are compared, and that pi's callers can use it.
  [Name in Static]: (...call: Parameters<(typeof pi.SessionManager)[Name]>) => Made<Name>
}
declare const theirs: typeof pi.SessionManager
theirs satisfies {
  [Name in Static]: (...call: Parameters<(typeof ours.SessionManager)[Name]>) => unknown
}
type Static = 'create' | 'open' | 'continueRecent' | 'inMemory' | 'forkFrom' | 'list' | 'listAll'
type Made<Name extends Static> =
  ReturnType<(typeof pi.SessionManager)[Name]> extends pi.SessionManager
    ? Theirs
    : ReturnType<(typeof pi.SessionManager)[Name]>

// The functions beside it.
type Functions =
  | 'buildSessionContext'
  | 'getLatestCompactionEntry'
  | 'migrateSessionEntries'
  | 'parseSessionEntries'
same<Pick<typeof pi, Functions>, Pick<typeof ours, Functions>>(true)
