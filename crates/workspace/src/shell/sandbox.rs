//! What a shell may reach: system directories, the read roots and the workspace to read; the workspace and its own temporary
//! directory to write; no TCP unless the host allows it. It must never claim more than the kernel enforces.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::landlock::{
    EXECUTE, MAKE_BLOCK, MAKE_CHAR, READ_DIR, READ_FILE, Ruleset, WRITE_FILE, version,
};
use crate::params::{Sandbox, ShellOptions};
use crate::support::SandboxSupport;

/// The first version that restricts everything that writes: truncating came last.
const FIRST_WITH_FILES: u32 = 3;
const FIRST_WITH_TCP: u32 = 4;
const FIRST_WITH_SCOPES: u32 = 6;

/// Where programs and what they need are; what does not exist is left out. Nothing of `/proc` that belongs to a process: the host's
/// environment is there, with its keys.
const SYSTEM: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
];
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
const READ: u64 = EXECUTE | READ_FILE | READ_DIR;

/// What the kernel enforces here.
pub(crate) fn support() -> SandboxSupport {
    let landlock = version();
    SandboxSupport {
        landlock,
        files: landlock >= FIRST_WITH_FILES,
        tcp: landlock >= FIRST_WITH_TCP,
        signals: landlock >= FIRST_WITH_SCOPES,
    }
}

/// Directories that shells may use, by their handles: a name may be another directory by now.
pub(crate) struct Directories {
    pub(crate) readable: Vec<OwnedFd>,
    pub(crate) writable: Vec<OwnedFd>,
}

/// An error where the sandbox is required and this kernel has none.
pub(super) fn check(options: &ShellOptions) -> Result<(), String> {
    let SandboxSupport { landlock, files, tcp, .. } = support();
    let enforced = files && (tcp || options.network);
    if options.sandbox == Sandbox::Required && !enforced {
        let missing = if files { "TCP" } else { "files" };
        return Err(format!(
            "the sandbox is required, but this kernel cannot restrict {missing} (Landlock version {landlock})"
        ));
    }
    Ok(())
}

/// The restrictions of a workspace's shells; none where it has none.
pub(super) fn ruleset(
    options: &ShellOptions,
    directories: &Directories,
) -> Result<Option<Ruleset>, String> {
    let landlock = support().landlock;
    if options.sandbox == Sandbox::Off || landlock == 0 {
        return Ok(None);
    }
    let failed =
        |error: Errno| format!("the sandbox cannot be made: {}", std::io::Error::from(error));
    let ruleset = Ruleset::new(landlock, options.network).map_err(failed)?;
    let allow = |path: &Path, rights: u64| -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let handle = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
            handle => handle?,
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode);
        // The kernel refuses rights of directories for a file.
        let of_files = EXECUTE | READ_FILE | WRITE_FILE;
        let rights = if kind == FileType::Directory { rights } else { rights & of_files };
        ruleset.allow(handle.as_fd(), rights)
    };
    let programs = options.environment.get("PATH").map(String::as_str).unwrap_or_default();
    let programs = std::env::split_paths(programs).filter(|path| path.is_absolute());
    for path in SYSTEM.iter().map(PathBuf::from).chain(programs) {
        allow(&path, READ).map_err(failed)?;
    }
    for device in DEVICES {
        allow(Path::new(device), READ_FILE | WRITE_FILE).map_err(failed)?;
    }
    for directory in &directories.readable {
        ruleset.allow(directory.as_fd(), READ).map_err(failed)?;
    }
    for directory in &directories.writable {
        ruleset.allow(directory.as_fd(), !(MAKE_CHAR | MAKE_BLOCK)).map_err(failed)?;
    }
    Ok(Some(ruleset))
}
