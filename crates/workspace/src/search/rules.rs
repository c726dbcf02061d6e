//! What `.gitignore` and `.ignore` exclude, as a chain from a directory up to its root. It must never read a file outside of the
//! root: the user's own settings of git do not count, and a link is no ignore file.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::root::{Opened, Root};

/// The names of ignore files; a later one decides.
pub(super) const NAMES: [&str; 2] = [".gitignore", ".ignore"];
/// The longest ignore file; the rest of it does not count.
const MAX_FILE: u64 = 1024 * 1024;

/// The rules of a directory, and of those above it.
#[derive(Debug)]
pub(super) struct Rules {
    matcher: Gitignore,
    /// How many bytes of a path lead to the directory.
    base: usize,
    above: Option<Rc<Rules>>,
}

impl Rules {
    /// The rules in a directory; `base` is the length of its own path, with the slash at the end.
    pub(super) fn of(
        directory: &OwnedFd,
        names: &[&str],
        base: usize,
        above: Option<Rc<Self>>,
    ) -> Option<Rc<Self>> {
        let texts = names.iter().filter_map(|name| {
            Opened::entry(directory, OsStr::new(name)).ok().and_then(|opened| text(&opened, name))
        });
        Self::new(texts, base, above)
    }

    /// The rules above a directory that is searched: of the root, with those that only this clone has, and of each directory
    /// down to it.
    pub(super) fn above(root: &Root, relative: &Path) -> Option<Rc<Self>> {
        let exclude = root.open_path(Path::new(".git/info/exclude")).ok();
        let exclude = exclude.and_then(|opened| text(&opened, ".git/info/exclude"));
        let mut rules = Self::new(exclude.into_iter(), 0, None);
        if relative == Path::new(".") {
            return rules;
        }
        let parents = relative.ancestors().skip(1).collect::<Vec<_>>();
        for parent in parents.into_iter().rev() {
            let length = parent.as_os_str().len();
            let (path, base) = if length == 0 { (Path::new("."), 0) } else { (parent, length + 1) };
            if let Ok(directory) = root.open_path(path).and_then(|opened| opened.into_directory()) {
                rules = Self::of(&directory, &NAMES, base, rules.clone()).or(rules);
            }
        }
        rules
    }

    fn new(
        texts: impl Iterator<Item = String>,
        base: usize,
        above: Option<Rc<Self>>,
    ) -> Option<Rc<Self>> {
        let mut builder = GitignoreBuilder::new("");
        for text in texts {
            for line in text.trim_start_matches('\u{feff}').lines() {
                // Git skips a line that it cannot read, too.
                let _unreadable = builder.add_line(None, line).is_err();
            }
        }
        match builder.build() {
            Ok(matcher) if !matcher.is_empty() => Some(Rc::new(Self { matcher, base, above })),
            Ok(_) | Err(_) => above,
        }
    }

    /// Whether a path is excluded, by the closest rule about it.
    pub(super) fn exclude(&self, path: &str, is_directory: bool) -> bool {
        let mut rules = Some(self);
        while let Some(Self { matcher, base, above }) = rules {
            let beneath = path.get(*base..).unwrap_or(path);
            match matcher.matched(beneath, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = above.as_deref(),
            }
        }
        false
    }
}

fn text(opened: &Opened, name: &str) -> Option<String> {
    opened.refuse_special(name).ok()?;
    if opened.is_directory() {
        return None;
    }
    let mut bytes = Vec::new();
    opened.file(name).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
