//! Which images every provider accepts. Another image must never be in a request: it would be refused now and, as part of
//! the history, in every later turn.

/// The media type in the spelling of the providers; `None` for a type that they refuse.
pub(crate) fn media_type(mime_type: &str) -> Option<&'static str> {
    let essence = mime_type.split(';').next().unwrap_or_default().trim();
    let known = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    if essence.eq_ignore_ascii_case("image/jpg") {
        return Some("image/jpeg");
    }
    known.into_iter().find(|known| essence.eq_ignore_ascii_case(known))
}

/// The text in place of any other image.
pub(crate) const LEFT_OUT: &str =
    "[An image was left out: models take JPEG, PNG, GIF and WebP only.]";

#[cfg(test)]
mod tests {
    use super::media_type;

    #[test]
    fn four_types_are_known_in_any_case_and_jpg_means_jpeg() {
        let types = ["image/PNG", "image/jpg", "image/webp; q=1", "image/svg+xml", "image/bmp", ""];
        assert_eq!(
            types.map(media_type),
            [Some("image/png"), Some("image/jpeg"), Some("image/webp"), None, None, None]
        );
    }
}
