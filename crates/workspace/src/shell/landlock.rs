//! Landlock, the kernel's restriction of a process and its descendants: three calls of the kernel, which no library that we use
//! has. It must never restrict the process itself, only the child between `fork` and `exec`.
#![expect(unsafe_code, reason = "the calls have no safe form; each has its reason beside it")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

pub(super) const EXECUTE: u64 = 1;
pub(super) const WRITE_FILE: u64 = 1 << 1;
pub(super) const READ_FILE: u64 = 1 << 2;
pub(super) const READ_DIR: u64 = 1 << 3;
pub(super) const MAKE_CHAR: u64 = 1 << 6;
pub(super) const MAKE_BLOCK: u64 = 1 << 11;
/// Of version 1.
const FILES: u64 = (1 << 13) - 1;
/// Renaming between directories, of version 2.
pub(super) const REFER: u64 = 1 << 13;
/// Of version 3.
const TRUNCATE: u64 = 1 << 14;
/// Of version 5.
const IOCTL_DEV: u64 = 1 << 15;
/// Binding and connecting TCP sockets, of version 4.
const TCP: u64 = 3;
/// Abstract Unix sockets, and signals to processes outside, of version 6.
const SCOPES: u64 = 3;

const CREATE_VERSION: libc::c_uint = 1;
const RULE_PATH_BENEATH: libc::c_uint = 1;

#[repr(C)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: libc::c_int,
}

/// The version of the kernel; 0 where there is none, or it is switched off.
pub(super) fn version() -> u32 {
    // SAFETY: without attributes and with this flag, the call only returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttributes>(),
            0_usize,
            CREATE_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// What files and directories a process may use, and that it may use no other.
#[derive(Debug)]
pub(super) struct Ruleset {
    handle: OwnedFd,
    handled: u64,
}

impl Ruleset {
    /// A ruleset that allows nothing yet. With `network` TCP is not restricted.
    pub(super) fn new(version: u32, network: bool) -> Result<Self, Errno> {
        let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
        let handled = FILES | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV);
        let attributes = RulesetAttributes {
            files: handled,
            network: if network { 0 } else { since(4, TCP) },
            scoped: since(6, SCOPES),
        };
        // A kernel refuses fields that it does not know, even if they are 0.
        let size = match version {
            0..=3 => size_of::<u64>(),
            4 | 5 => 2 * size_of::<u64>(),
            _ => size_of::<RulesetAttributes>(),
        };
        // SAFETY: the attributes live until the call returns, and it reads no more than `size` of them.
        let handle = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attributes,
                size,
                0 as libc::c_uint,
            )
        };
        let handle = i32::try_from(handle).ok().filter(|handle| *handle >= 0).ok_or_else(last)?;
        // SAFETY: the call made this handle, and nothing else owns it.
        let handle = unsafe { OwnedFd::from_raw_fd(handle) };
        Ok(Self { handle, handled })
    }

    /// Allows `rights` beneath a directory, or for a file; those that the kernel does not know are left out.
    pub(super) fn allow(&self, beneath: BorrowedFd<'_>, rights: u64) -> Result<(), Errno> {
        let rule = PathBeneath { allowed: rights & self.handled, parent: beneath.as_raw_fd() };
        // SAFETY: the rule lives until the call returns, and has the layout of the kernel's `landlock_path_beneath_attr`.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.handle.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0 as libc::c_uint,
            )
        };
        if added == 0 { Ok(()) } else { Err(last()) }
    }

    /// Restricts the calling process for ever: the child, before it becomes the shell. It allocates nothing.
    pub(super) fn restrict(&self) -> Result<(), Errno> {
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the handle is open as long as `self` is; the call takes no pointer.
        let restricted = unsafe {
            libc::syscall(
                libc::SYS_landlock_restrict_self,
                self.handle.as_fd().as_raw_fd(),
                0 as libc::c_uint,
            )
        };
        if restricted == 0 { Ok(()) } else { Err(last()) }
    }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
