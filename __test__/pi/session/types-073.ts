// What must type-check between `/pi-session` and pi 0.73's own declarations (`tsc` over this file is the test). It is never run.

import type * as pi from 'pi-coding-agent-073'
import type * as ours from '../../../pi-session.js'

/** Each is assignable to the other. */
type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : never) : never
const same = <One, Other>(_: Same<One, Other>) => {}

same<pi.SessionEntry, ours.SessionEntry>(true)
same<pi.SessionHeader, ours.SessionHeader>(true)
same<pi.SessionContext, ours.SessionContext>(true)
same<pi.SessionInfo, ours.SessionInfo>(true)
same<pi.FileEntry, ours.FileEntry>(true)

// Every method of pi's manager is there, and takes what pi's takes.
declare const manager: ours.SessionManager
manager satisfies {
  [Name in keyof pi.SessionManager as Name extends `_${string}` ? never : Name]: unknown
}
manager.appendMessage satisfies (...call: Parameters<pi.SessionManager['appendMessage']>) => string
manager.appendCompaction satisfies (
  ...call: Parameters<pi.SessionManager['appendCompaction']>
) => string
manager.getBranch satisfies pi.SessionManager['getBranch']
manager.getEntries satisfies pi.SessionManager['getEntries']
manager.buildSessionContext satisfies pi.SessionManager['buildSessionContext']
