//! Fonts, and the code pages of their characters.

use encoding_rs::Encoding;

/// A font of the table.
#[derive(Debug, Default, Clone)]
pub struct Font {
    pub name: String,
    pub code_page: Option<i32>,
}

/// Returns the encoding of a code page, if it is known.
pub fn encoding(code_page: i32) -> Option<&'static Encoding> {
    let label = match code_page {
        874 => "windows-874".to_owned(),
        866 => "ibm866".into(),
        932 => "shift_jis".into(),
        936 => "gbk".into(),
        949 | 1361 => "euc-kr".into(),
        950 => "big5".into(),
        1250..=1258 => format!("windows-{code_page}"),
        10_000 => "macintosh".into(),
        10_007 => "x-mac-cyrillic".into(),
        65_001 => "utf-8".into(),
        _ => return None,
    };
    Encoding::for_label(label.as_bytes())
}

/// Returns the code page of a character set of Windows. 0 and 1 mean that of the document.
pub fn code_page_of_set(set: i32) -> Option<i32> {
    Some(match set {
        77 => 10_000,
        128 => 932,
        129 => 949,
        130 => 1361,
        134 => 936,
        136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        _ => return None,
    })
}
