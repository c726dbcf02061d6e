//! The name that a tool of a server has in a run: `server__tool`, valid for every API and unique in the run.
//!
//! It must never depend on anything but the names: a prompt cache holds it.

/// The longest name that every API accepts.
const MAX_NAME: usize = 64;
/// The characters of the hash at the end of a name that had to change.
const HASH: usize = 8;

/// The name of a tool of a server.
pub(crate) fn exposed(server: &str, tool: &str) -> String {
    let full = format!("{server}__{tool}");
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if full.len() <= MAX_NAME && full.chars().all(valid) && !tool.is_empty() {
        return full;
    }
    distinct(server, tool)
}

/// Another name of the same tool, for one that another tool has too.
pub(crate) fn distinct(server: &str, tool: &str) -> String {
    let replaced = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let full = format!("{server}__{tool}");
    let mut name: String = full.chars().map(replaced).take(MAX_NAME - HASH - 1).collect();
    name.push('_');
    name.push_str(&format!("{:08x}", hash(&full)));
    name
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::{distinct, exposed};

    #[test]
    fn a_name_is_valid_for_every_api_and_two_tools_never_share_one() {
        assert_eq!(exposed("files", "read_file"), "files__read_file");
        assert_eq!(exposed("files", "read file"), "files__read_file_3ce3f81c");
        assert_eq!(exposed("files", "read.file"), "files__read_file_b44bad66");
        assert_ne!(exposed("a", &"x".repeat(100)), exposed("a", &"x".repeat(101)));
        for name in [exposed("a", &"ü".repeat(100)), exposed("a", ""), distinct("files", "read")] {
            assert!(name.len() <= 64, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
        }
    }
}
