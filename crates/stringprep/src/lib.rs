//! SASLprep (RFC 4013) of passwords in ASCII, for `postgres-protocol`, which takes this crate instead of the one on the
//! registry (`[patch]` in the workspace's manifest): that one's tables of Unicode are 200 KB of the addon.
//! It must never change a password: what is not printable ASCII is an error, and `postgres-protocol` then sends it as it is,
//! which is what SASLprep makes of every password that is normalised (NFKC) already.

use std::borrow::Cow;

/// The password has characters whose preparation needs the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("only printable ASCII can be prepared")
    }
}

impl std::error::Error for Error {}

/// The password as SASLprep prepares it.
///
/// # Errors
///
/// When it has a character that is not printable ASCII.
pub fn saslprep(password: &str) -> Result<Cow<'_, str>, Error> {
    if password.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        Ok(Cow::Borrowed(password))
    } else {
        Err(Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_ascii_is_prepared_as_it_is() {
        assert_eq!(saslprep("a b~!"), Ok(Cow::Borrowed("a b~!")));
    }

    #[test]
    fn other_characters_are_an_error() {
        for password in ["caf\u{e9}", "a\u{a0}b", "a\nb", "\u{7f}"] {
            assert_eq!(saslprep(password), Err(Error), "{password:?}");
        }
    }
}
