//! The flags of a run that do not belong to its context, as one number. The bits must equal those of `lib/run/run-flags.ts`.

/// The flags of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunFlags(pub(super) u32);

impl RunFlags {
    /// Its signal is aborted already.
    pub(super) fn aborted(self) -> bool {
        self.0 & 1 != 0
    }

    /// It has an `onRequest`.
    pub(super) fn hooked(self) -> bool {
        self.0 & 2 != 0
    }

    /// It has an `onAgentEvent`.
    pub(super) fn phases(self) -> bool {
        self.0 & 4 != 0
    }
}
