//! Which image blocks a provider accepts. It must never decode a whole image: a request may contain many.

/// Whether a text is base64 that every API accepts: the standard alphabet, padded, without line breaks, not empty.
#[must_use]
pub fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let body = bytes.strip_suffix(b"==").or_else(|| bytes.strip_suffix(b"=")).unwrap_or(bytes);
    !body.is_empty()
        && bytes.len().is_multiple_of(4)
        && body.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::is_base64;

    #[test]
    fn only_padded_standard_base64_is_accepted() {
        for good in ["AAAA", "AAA=", "AA==", "+/9z", "iVBORw0KGgo="] {
            assert!(is_base64(good), "{good}");
        }
        for bad in [
            "",
            "=",
            "==",
            "====",
            "A",
            "AA",
            "AAA",
            "A===",
            "AA=A",
            "AA-_",
            "AAAA\n",
            "AA AA===",
            "data:image/png;base64,AAAA",
            "äAA=",
            "AAAA\0AAA",
            "<svg/>",
            "[***]AAA",
        ] {
            assert!(!is_base64(bad), "{bad:?}");
        }
    }
}
