//! Pointers, as git-lfs writes them.

const START: &[u8] = b"version https://git-lfs.github.com/spec/v1";
const MAX_BYTES: usize = 1024;
const OID_DIGITS: usize = 64;

/// What a pointer says of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// SHA-256 in lower case.
    pub oid: String,
    /// In bytes.
    pub size: u64,
}

/// Returns true if a file is a pointer, a damaged one included.
pub fn is_pointer(bytes: &[u8]) -> bool {
    bytes.len() <= MAX_BYTES
        && bytes
            .strip_prefix(START)
            .is_some_and(|rest| matches!(rest, [b'\n' | b'\r', ..]))
}

impl Pointer {
    /// # Errors
    /// It has no hash or size, or names an extension, which transforms the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "its pointer is damaged")?;
        let (mut oid, mut size) = (None, None);
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("oid", value)) => oid = value.strip_prefix("sha256:"),
                Some(("size", value)) => size = value.parse().ok(),
                Some((key, _)) if key.starts_with("ext-") => {
                    return Err(format!(
                        "its pointer names the extension {}",
                        key.escape_debug()
                    ));
                }
                _ => {}
            }
        }
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        match (
            oid.filter(|oid| oid.len() == OID_DIGITS && oid.bytes().all(is_digit)),
            size,
        ) {
            (Some(oid), Some(size)) => Ok(Self {
                oid: oid.into(),
                size,
            }),
            _ => Err("its pointer is damaged".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";

    #[test]
    fn pointers_are_those_of_git_lfs() {
        let start = "version https://git-lfs.github.com/spec/v1";
        let expected = Ok(Pointer {
            oid: OID.into(),
            size: 12345,
        });
        for text in [
            format!("{start}\noid sha256:{OID}\nsize 12345\n"),
            format!("{start}\r\noid sha256:{OID}\r\nsize 12345\r\n"),
            format!("{start}\nother x\noid sha256:{OID}\nsize 12345"),
        ] {
            assert!(is_pointer(text.as_bytes()));
            assert_eq!(Pointer::parse(text.as_bytes()), expected);
        }
        for text in [
            format!("{start}\n"),
            format!("{start}\noid sha256:{OID}\n"),
            format!("{start}\noid sha256:{OID}\nsize -1\n"),
            format!("{start}\noid sha256:{OID}\nsize 99999999999999999999\n"),
            format!("{start}\noid md5:{OID}\nsize 1\n"),
            format!("{start}\noid sha256:../../../../etc/passwd\nsize 1\n"),
            format!("{start}\noid sha256:{}\nsize 1\n", OID.to_uppercase()),
            format!("{start}\next-0-gpg sha256:{OID}\noid sha256:{OID}\nsize 1\n"),
        ] {
            assert!(is_pointer(text.as_bytes()), "{text}");
            assert!(Pointer::parse(text.as_bytes()).is_err(), "{text}");
        }
        for text in [
            "",
            "version https://git-lfs.github.com/spec/v12\n",
            &" ".repeat(2000),
        ] {
            assert!(!is_pointer(text.as_bytes()), "{text}");
        }
    }
}
