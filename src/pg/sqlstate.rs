//! SQLSTATEs as text.

use pgrx::PgSqlErrorCode;

/// Returns the SQLSTATE of an error as its five characters.
pub fn sqlstate(code: PgSqlErrorCode) -> String {
    let mut value = code as i32;
    (0..5)
        .map(|_| {
            let c = char::from((value & 0x3f) as u8 + b'0');
            value >>= 6;
            c
        })
        .collect()
}
