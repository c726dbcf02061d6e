//! The globs and regular expressions of a model, compiled within limits. Matching is linear in the text, whatever they are.

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};

use crate::error::ToolError;

/// The longest pattern.
const MAX_PATTERN: usize = 10_000;
/// The most memory of a compiled expression.
const MAX_COMPILED: usize = 16 * 1024 * 1024;

/// The glob of `find`. Without a slash it is about names, else about paths; without an upper-case character it ignores case.
#[derive(Debug)]
pub(super) struct PathGlob {
    matcher: GlobMatcher,
    of_paths: bool,
}

impl PathGlob {
    pub(super) fn new(pattern: &str) -> Result<Self, ToolError> {
        refuse_long(pattern)?;
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .case_insensitive(!pattern.chars().any(char::is_uppercase))
            .build()
            .map_err(|error| ToolError::new(format!("the glob cannot be read: {error}")))?;
        Ok(Self { matcher: glob.compile_matcher(), of_paths: pattern.contains('/') })
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.matcher.is_match(if self.of_paths { path } else { name })
    }
}

/// The glob of `grep`: which files are searched, as a line of `.gitignore` would name them, or with `!` which ones are not.
pub(super) fn files(glob: &str) -> Result<Override, ToolError> {
    refuse_long(glob)?;
    let mut builder = OverrideBuilder::new("");
    builder
        .add(glob)
        .and_then(|builder| builder.build())
        .map_err(|error| ToolError::new(format!("the glob cannot be read: {error}")))
}

/// The expression of `grep`.
pub(super) fn expression(
    pattern: &str,
    ignore_case: bool,
    literal: bool,
) -> Result<RegexMatcher, ToolError> {
    refuse_long(pattern)?;
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .fixed_strings(literal)
        .multi_line(true)
        // `$` is before a carriage return, too; it sets a terminator, so the newline comes after it.
        .crlf(true)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build(pattern)
        .map_err(|error| {
            // Its own message shows what was made of the pattern.
            let of_pattern = regex_syntax::Parser::new().parse(pattern).err();
            let error = of_pattern.map_or_else(|| error.to_string(), |error| error.to_string());
            ToolError::new(format!(
                "the pattern is not a regular expression that can be searched: {error}\nUse literal=true to search for the text itself."
            ))
        })
}

fn refuse_long(pattern: &str) -> Result<(), ToolError> {
    if pattern.is_empty() {
        return Err(ToolError::new("the pattern is empty"));
    }
    if pattern.len() > MAX_PATTERN {
        return Err(ToolError::new(format!("a pattern has at most {MAX_PATTERN} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_without_a_slash_is_about_names_and_small_letters_ignore_case() {
        let matches = |glob: &str, path: &str| PathGlob::new(glob).unwrap().matches(path);
        for (glob, path) in [
            ("*.ts", "a/b.ts"),
            ("*.ts", "B.TS"),
            ("**/*.json", "a.json"),
            ("src/**/*.spec.ts", "src/a/b/c.spec.ts"),
            ("./src/*", "src/a"),
            ("{a,b}", "x/b"),
        ] {
            assert!(matches(glob, path), "{glob} {path}");
        }
        for (glob, path) in [("B.ts", "b.ts"), ("src/*.ts", "src/a/b.ts"), ("a", "a/b")] {
            assert!(!matches(glob, path), "{glob} {path}");
        }
    }

    #[test]
    fn a_pattern_that_is_too_large_is_refused() {
        assert!(expression("(((x{100}){100}){100}){100}", false, false).is_err());
        assert!(expression("a(", false, false).is_err());
        assert!(expression("a(", false, true).is_ok());
        assert!(expression("", false, true).is_err());
        assert!(PathGlob::new(&"{a,b}".repeat(10_000)).is_err());
        assert!(PathGlob::new("{a,").is_err());
    }
}
