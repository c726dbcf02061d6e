//! The limits of a result's text, and how pi describes a cut.

use serde::Serialize;

/// Lines of one result.
pub(crate) const MAX_LINES: usize = 2_000;
/// Bytes of one result.
pub(crate) const MAX_BYTES: usize = 50 * 1024;

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TruncatedBy {
    Lines,
    Bytes,
}

/// A cut, in the fields of pi's `TruncationResult`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Truncation {
    pub(crate) content: String,
    pub(crate) truncated: bool,
    pub(crate) truncated_by: TruncatedBy,
    pub(crate) total_lines: usize,
    pub(crate) total_bytes: u64,
    pub(crate) output_lines: usize,
    pub(crate) output_bytes: usize,
    pub(crate) last_line_partial: bool,
    pub(crate) first_line_exceeds_limit: bool,
    pub(crate) max_lines: u64,
    pub(crate) max_bytes: usize,
}

/// A size as pi writes it: `512B`, `50.0KB`, `1.5MB`.
pub(crate) fn format_size(bytes: u64) -> String {
    let tenths = |unit: u64| {
        // Rounded to tenths.
        let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{}KB", tenths(1024)),
        _ => format!("{}MB", tenths(1_048_576)),
    }
}

#[cfg(test)]
mod tests {
    use super::format_size;

    #[test]
    fn a_size_is_written_as_pi_writes_it() {
        let sizes = [0, 1023, 1024, 51_200, 1_048_576, 1_572_864].map(format_size);
        assert_eq!(sizes, ["0B", "1023B", "1.0KB", "50.0KB", "1.0MB", "1.5MB"]);
    }
}
