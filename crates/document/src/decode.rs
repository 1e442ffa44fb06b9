//! Bytes to text: UTF-8, strictly, with an optional byte order mark.

use rag_protocol::ingest::Stage;

use crate::Problem;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The text in `bytes`, without its byte order mark.
pub fn text(bytes: &[u8]) -> Result<&str, Problem> {
    let skipped = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    let text = std::str::from_utf8(&bytes[skipped..]).map_err(|e| not_utf8(bytes, skipped + e.valid_up_to(), &e))?;
    match text.find('\0') {
        None => Ok(text),
        Some(at) => Err(Problem::new(
            Stage::Decode,
            format!(
                "the file contains a NUL character, which PostgreSQL cannot store, at byte offset {}",
                skipped + at
            ),
        )
        .hint("Remove the NUL characters from the file, or exclude the file if it is not text.")),
    }
}

fn not_utf8(bytes: &[u8], at: usize, error: &std::str::Utf8Error) -> Problem {
    let message = match error.error_len() {
        Some(_) => format!("the file is not valid UTF-8 at byte offset {at}"),
        None => format!("the file ends in the middle of a UTF-8 character at byte offset {at}"),
    };
    let hint = if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
        "The file looks like UTF-16: convert it to UTF-8."
    } else if error.error_len().is_none() {
        "The file seems to be cut off: put the whole file in its place."
    } else {
        "Convert the file to UTF-8, or exclude it if it is not text."
    };
    Problem::new(Stage::Decode, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        let problem = text(bytes).unwrap_err();
        assert_eq!(problem.stage, Stage::Decode);
        assert!(problem.hint.is_some());
        problem.message
    }

    #[test]
    fn the_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(text(b"\xEF\xBB\xBFna\xC3\xAFve").unwrap(), "naïve");
        assert_eq!(text("na\u{FEFF}ive".as_bytes()).unwrap(), "na\u{FEFF}ive");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_in_the_file() {
        assert_eq!(message(b"abc\xFFdef"), "the file is not valid UTF-8 at byte offset 3");
        assert_eq!(message(b"\xEF\xBB\xBFabc\xFF"), "the file is not valid UTF-8 at byte offset 6");
        assert_eq!(message(b"abc\xE2\x82"), "the file ends in the middle of a UTF-8 character at byte offset 3");
        assert_eq!(
            message(b"\xEF\xBB\xBFab\0c"),
            "the file contains a NUL character, which PostgreSQL cannot store, at byte offset 5"
        );
        assert!(text(b"\xFF\xFEa\0").unwrap_err().hint.unwrap().contains("UTF-16"));
    }
}
