//! How far a commit waits for the disk. It must never apply the setting: the writer does.

/// How far a commit waits for the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// An acknowledged turn survives a power cut.
    #[default]
    Full,
    /// An acknowledged turn survives a crash of the process, and may be lost by a power cut.
    Normal,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}
