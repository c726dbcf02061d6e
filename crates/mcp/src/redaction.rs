//! The secrets of a server's options, removed from every text that leaves this crate. It must never print one.

use std::fmt;

/// The characters of a text of a server in an error.
const MAX_CHARS: usize = 2_000;
/// A shorter value is no secret: it would blacken ordinary words.
const MIN_SECRET: usize = 6;

/// The values that no error and no log may show.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// The longest first, so that no part of one remains.
    values: Vec<String>,
}

impl Secrets {
    pub(crate) fn of(values: impl Iterator<Item = String>) -> Self {
        let mut values: Vec<String> = values
            .flat_map(|value| {
                // `Bearer abc` is shown as `abc` by many servers.
                let token = value.rsplit(' ').next().map(str::to_owned);
                [Some(value), token]
            })
            .flatten()
            .filter(|value| value.len() >= MIN_SECRET)
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    /// A text without secrets and control characters, of a bounded length.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for value in &self.values {
            if clean.contains(value.as_str()) {
                clean = clean.replace(value.as_str(), "[redacted]");
            }
        }
        let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
        let mut short: String = clean.chars().map(shown).take(MAX_CHARS).collect();
        if clean.chars().nth(MAX_CHARS).is_some() {
            short.push('…');
        }
        short
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Secrets;

    #[test]
    fn a_secret_is_removed_whole_and_without_its_scheme() {
        let values = ["Bearer token-1234", "short", "token-12345678"];
        let secrets = Secrets::of(values.into_iter().map(str::to_owned));
        assert_eq!(
            secrets.clean("Bearer token-1234, token-1234, token-12345678, short\u{1b}[31m"),
            "[redacted], [redacted], [redacted], short\u{fffd}[31m"
        );
        assert_eq!(format!("{secrets:?}"), "Secrets { .. }");
        assert_eq!(secrets.clean(&"ä".repeat(3_000)).chars().count(), 2_001);
    }
}
